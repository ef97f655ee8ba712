// Command recount counts a report from downloaded export files alone, to check the service:
//
//	go run ./tools/recount --pageviews pageviews.json --events events.json --from 2026-11-01 --to 2026-11-30 --by PAGE
//
// It reads the JSON and the CSV form of the export (docs/owner/export.md), several files of each kind,
// and counts as docs/owner/reports.md defines, with maps and without the service's own code for counting.
// It prints the totals, the days and the rows of a breakdown as JSON: sums, of which the report's
// rates are quotients.
//
// Download all days of the period and one more on each side: a visit belongs to the day of its
// start, and the days of a time zone cut those of UTC.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/commandline"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/tools/oracle"
)

// command is the command line.
type command struct {
	Pageviews []string `long:"pageviews" required:"true" value-name:"FILE" unquote:"false" description:"Export of page views, as JSON or CSV. Repeated for the pages of a download."`
	Events    []string `long:"events" value-name:"FILE" unquote:"false" description:"Export of events, likewise. Default: there are none."`
	From      string   `long:"from" required:"true" value-name:"DATE" unquote:"false" description:"First day, YYYY-MM-DD."`
	To        string   `long:"to" required:"true" value-name:"DATE" unquote:"false" description:"Last day, YYYY-MM-DD."`
	Zone      string   `long:"zone" default:"UTC" value-name:"ZONE" unquote:"false" description:"The site's time zone."`
	By        string   `long:"by" default:"PAGE" value-name:"DIMENSION" unquote:"false" description:"Dimension of the breakdown, as in the API."`
	Property  string   `long:"property" value-name:"NAME" unquote:"false" description:"The property of a breakdown by PROPERTY."`
	Filters   []string `long:"filter" value-name:"FILTER" unquote:"false" description:"DIMENSION OPERATOR VALUE, for example 'PAGE CONTAINS /blog'; for a property, PROPERTY:NAME. May be repeated; all must hold."`
	Steps     []string `long:"step" value-name:"STEP" unquote:"false" description:"A step of a funnel: PAGE PATTERN or EVENT NAME. Repeated, in order."`
	Journey   string   `long:"journey" value-name:"STEP" unquote:"false" description:"The start of a journey of 3 steps, as for --step."`
	Before    bool     `long:"before" description:"Count the journey backwards."`
	Cohorts   string   `long:"cohorts" value-name:"DATE" unquote:"false" description:"A day of the first week of cohorts, up to --to. First visits are searched from --from on."`
	Numbers   string   `long:"numbers" value-name:"EVENT:PROPERTY" unquote:"false" description:"Sum, average and percentiles of the numbers of a property, without an event of all: in all, of each day by its index, and by --by unless that is EVENT or PROPERTY."`
	KeyEvents []string `long:"key-events" value-name:"NAME,..." unquote:"false" description:"The site's key events. purchase always is one."`
}

// maxDays is the longest period, as in the API.
const maxDays = 5 * 366

// report is the output.
type report struct {
	Totals  scan.Figures
	Days    []scan.Figures
	Rows    map[string]scan.Figures // by value
	Funnel  []int64                 `json:",omitempty"` // visitors of each step
	Journey *scan.JourneyNode       `json:",omitempty"`
	Cohorts []scan.Cohort           `json:",omitempty"`
	Numbers []oracle.Numbers        `json:",omitempty"` // in all, by day and by --by
}

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }

// execute returns the exit status: 0, 1 if it failed, or 2 if the command line is invalid.
func execute(args []string, out, log io.Writer) int {
	var c command
	parser := commandline.New("recount", "Count a report from export files.")
	err := parser.AddFlags(&c)
	if err == nil {
		_, err = parser.Parse(args, out)
	}
	if errors.Is(err, commandline.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(log, "recount:", err)
		return 2
	}

	r, err := c.count()
	if err == nil {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(r)
	}
	if err != nil {
		fmt.Fprintln(log, "recount:", err)
		return 1
	}
	return 0
}

// count reads the files and counts.
func (c *command) count() (*report, error) {
	query, err := c.query()
	if err != nil {
		return nil, err
	}

	pageviews, err := readFiles(c.Pageviews)
	if err != nil {
		return nil, err
	}
	events, err := readFiles(c.Events)
	if err != nil {
		return nil, err
	}

	rows, err := oracle.Days(pageviews, events)
	if err != nil {
		return nil, err
	}
	result := oracle.Count(query, rows)
	r := &report{Totals: result.Totals, Days: result.Points, Rows: result.Breakdowns[0], Cohorts: result.Cohorts, Numbers: result.Numbers}
	if len(result.Journeys) > 0 {
		r.Journey = result.Journeys[0]
	}
	if len(result.Funnels) > 0 {
		r.Funnel = result.Funnels[0]
	}
	return r, nil
}

// query converts the command line.
func (c *command) query() (*scan.Query, error) {
	zone, err := time.LoadLocation(c.Zone)
	if err != nil {
		return nil, fmt.Errorf("--zone: %w", err)
	}
	from, err := time.Parse(time.DateOnly, c.From)
	if err != nil {
		return nil, fmt.Errorf("--from: %w", err)
	}
	to, err := time.Parse(time.DateOnly, c.To)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	if to.Before(from) || to.Sub(from) > maxDays*24*time.Hour {
		return nil, fmt.Errorf("--to: %s is before %s, or more than %d days later", c.To, c.From, maxDays)
	}

	q := &scan.Query{Zone: zone, From: scan.DateOf(from), To: scan.DateOf(to), KeyEvents: map[string]bool{"purchase": true}}
	for _, names := range c.KeyEvents {
		for name := range strings.SplitSeq(names, ",") {
			q.KeyEvents[name] = true
		}
	}
	for day := q.From; day.Compare(q.To.AddDays(1)) <= 0; day = day.AddDays(1) {
		q.Points = append(q.Points, day.Start(zone))
	}

	by, ok := dimensions[c.By]
	if !ok || (by == scan.Property) != (c.Property != "") {
		return nil, fmt.Errorf("--by: %q is no dimension, or --property is missing or too much", c.By)
	}
	q.Breakdowns = []scan.Breakdown{{By: by, Property: c.Property}}

	for _, text := range c.Filters {
		filter, err := filterOf(text)
		if err != nil {
			return nil, fmt.Errorf("--filter: %w", err)
		}
		q.Filters = append(q.Filters, filter)
	}
	if err := c.follow(q); err != nil {
		return nil, err
	}
	if len(c.Steps) == 0 {
		return q, nil
	}
	funnel, err := funnelOf(c.Steps)
	if err != nil {
		return nil, fmt.Errorf("--step: %w", err)
	}
	q.Funnels = []scan.Funnel{funnel}
	return q, nil
}

// follow adds the journey, the numbers and the cohorts of the command line to a query.
func (c *command) follow(q *scan.Query) error {
	if c.Journey != "" {
		start, err := funnelOf([]string{c.Journey})
		if err != nil {
			return fmt.Errorf("--journey: %w", err)
		}
		q.Journeys = []scan.Journey{{From: start.Steps[0], Before: c.Before, Steps: scan.MaxJourneySteps}}
	}
	if c.Numbers != "" {
		event, property, ok := strings.Cut(c.Numbers, ":")
		if !ok || property == "" {
			return fmt.Errorf("--numbers: %q is not EVENT:PROPERTY", c.Numbers)
		}
		q.Numbers = numbersOf(event, property, q.Breakdowns[0].By)
	}
	if c.Cohorts == "" {
		return nil
	}

	first, err := time.Parse(time.DateOnly, c.Cohorts)
	if err != nil {
		return fmt.Errorf("--cohorts: %w", err)
	}
	monday := scan.DateOf(first).Monday()
	weeks := monday.DaysUntil(q.To)/daysOfWeek + 1
	if q.To.Compare(monday) < 0 || weeks > scan.MaxCohorts {
		return fmt.Errorf("--cohorts: %s is after %s, or more than %d weeks earlier", c.Cohorts, c.To, scan.MaxCohorts)
	}
	q.Cohorts = &scan.Cohorts{First: monday, Weeks: weeks}
	return nil
}

const daysOfWeek = 7

// numbersOf asks for the numbers of a property in all, by day and by a dimension.
func numbersOf(event, property string, by scan.Dimension) []scan.Numbers {
	list := []scan.Numbers{
		{Event: event, Property: property}, {Event: event, Property: property, Groups: scan.NumberPoints},
	}
	if scan.HasNumbers(by) {
		list = append(list, scan.Numbers{Event: event, Property: property, Groups: scan.NumberRows, By: by})
	}
	return list
}

// dimensions maps the names of the API.
var dimensions = map[string]scan.Dimension{
	"PAGE": scan.Page, "ENTRY_PAGE": scan.EntryPage, "EXIT_PAGE": scan.ExitPage, "CHANNEL": scan.Channel,
	"SOURCE": scan.Source, "REFERRER": scan.Referrer, "UTM_SOURCE": scan.UTMSource, "UTM_MEDIUM": scan.UTMMedium,
	"UTM_CAMPAIGN": scan.UTMCampaign, "UTM_CONTENT": scan.UTMContent, "UTM_TERM": scan.UTMTerm,
	"AD_PLATFORM": scan.ClickID, "LANGUAGE": scan.Language, "SCREEN_WIDTH": scan.Width, "COUNTRY": scan.Country,
	"BROWSER": scan.Browser, "SYSTEM": scan.System, "DEVICE": scan.Device, "HOSTNAME": scan.Host,
	"SOURCE_GROUP": scan.SourceGroup, "SOURCE_NAME": scan.SourceName, "EVENT": scan.Event,
	"PROPERTY": scan.Property, "DAY_OF_WEEK": scan.DayOfWeek, "HOUR_OF_DAY": scan.HourOfDay,
}

// filterOf converts a filter of the command line.
func filterOf(text string) (scan.Filter, error) {
	dimension, rest, _ := strings.Cut(text, " ")
	operator, value, ok := strings.Cut(rest, " ")
	name, property, _ := strings.Cut(dimension, ":")
	by, known := dimensions[name]
	f := scan.Filter{
		Breakdown: scan.Breakdown{By: by, Property: property},
		Operator:  model.ReportOperator(operator), Values: []string{value},
	}
	ok = ok && known && slices.Contains(model.ReportOperators, f.Operator)
	if !ok || (by == scan.Property) != (property != "") {
		return scan.Filter{}, fmt.Errorf("%q is not DIMENSION OPERATOR VALUE", text)
	}
	return f, nil
}

// funnelOf converts the steps of the command line.
func funnelOf(texts []string) (funnel scan.Funnel, err error) {
	for _, text := range texts {
		kind, value, _ := strings.Cut(text, " ")
		switch {
		case kind == "PAGE" && value != "":
			funnel.Steps = append(funnel.Steps, scan.Step{Page: value})
		case kind == "EVENT" && value != "":
			funnel.Steps = append(funnel.Steps, scan.Step{Event: value})
		default:
			return funnel, fmt.Errorf("%q is not PAGE PATTERN or EVENT NAME", text)
		}
	}
	return funnel, nil
}
