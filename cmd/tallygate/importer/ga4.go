package importer

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

// ga4 reads CSV files of Google Analytics 4: of its reports, its explorations and its Data API. A
// table has a date, at most one dimension, and metrics.
type ga4 struct {
	*sums
	hasUsers, hasSessions, hasViews bool // of the totals
}

// ga4Dimensions are the columns that are imported, by the names in the pages and in the API.
var ga4Dimensions = map[string]model.ReportDimension{
	"page path": model.DimensionPage, "page path and screen class": model.DimensionPage,
	"page path + query string": model.DimensionPage, "page path + query string and screen class": model.DimensionPage,
	"pagepath": model.DimensionPage, "pagepathplusquerystring": model.DimensionPage, "unifiedpagepathscreen": model.DimensionPage,

	"landing page": model.DimensionEntryPage, "landing page + query string": model.DimensionEntryPage,
	"landingpage": model.DimensionEntryPage, "landingpageplusquerystring": model.DimensionEntryPage,

	"session source": model.DimensionSource, "session source / medium": model.DimensionSource,
	"sessionsource": model.DimensionSource, "sessionsourcemedium": model.DimensionSource,
	"session campaign": model.DimensionUTMCampaign, "sessioncampaignname": model.DimensionUTMCampaign,

	"session default channel group":                         model.DimensionChannel,
	"session primary channel group (default channel group)": model.DimensionChannel,
	"sessiondefaultchannelgroup":                            model.DimensionChannel,
	"sessionprimarychannelgroup":                            model.DimensionChannel,

	"event name": model.DimensionEvent, "eventname": model.DimensionEvent,
	"language code": model.DimensionLanguage, "languagecode": model.DimensionLanguage,

	"country": model.DimensionCountry, "country id": model.DimensionCountry, "countryid": model.DimensionCountry,
	"browser":          model.DimensionBrowser,
	"operating system": model.DimensionSystem, "operatingsystem": model.DimensionSystem,
	"operating system with version": model.DimensionSystem, "os with version": model.DimensionSystem,
	"operatingsystemwithversion": model.DimensionSystem,
	"device category":            model.DimensionDevice, "devicecategory": model.DimensionDevice, "device": model.DimensionDevice,
	"hostname": model.DimensionHostname, "host name": model.DimensionHostname,
}

// ga4Metrics are the columns that are imported.
var ga4Metrics = map[string]string{
	"total users": "users", "totalusers": "users", "active users": "active", "activeusers": "active",
	"sessions": "sessions", "engaged sessions": "engaged", "engagedsessions": "engaged",
	"views": "views", "screenpageviews": "views", "event count": "events", "eventcount": "events",
}

// ga4Ignored are the columns that are not imported and do not divide the others.
var ga4Ignored = []string{
	"new users", "returning users", "average engagement time", "average engagement time per active user",
	"average engagement time per session", "views per active user", "views per session", "bounce rate", "engagement rate",
	"key events", "conversions", "total revenue", "purchase revenue", "engaged sessions per active user", "events per session",
	"session key event rate", "user key event rate", "user engagement", "event count per active user", "event value", "exits",
	"entrances", "newusers", "averagesessionduration", "userengagementduration", "bouncerate", "engagementrate", "keyevents",
	"totalrevenue", "sessionkeyeventrate", "eventspersession", "average session duration",
}

// ga4Channels maps channel groups that have another name here. Groups that do not exist here are
// unassigned.
var ga4Channels = map[string]string{
	"direct": "direct", "organic search": "organic search", "paid search": "paid search", "organic social": "organic social",
	"paid social": "paid social", "organic video": "organic video", "paid video": "paid video", "email": "email",
	"referral": "referral", "display": "display", "affiliates": "affiliates", "paid other": "other paid",
}

// ga4Events are the events of Google's script that are no events here: page views and visits.
var ga4Events = []string{"page_view", "session_start", "first_visit", "user_engagement"}

var (
	ga4Start = regexp.MustCompile(`^# *Start date: *(\d{8})$`)
	ga4End   = regexp.MustCompile(`^# *End date: *(\d{8})$`)
)

// ga4Table is the part of a file from one row of names to the next comment.
type ga4Table struct {
	by         model.ReportDimension
	value      string // name of its column
	date       string // name of the column of the day; may be empty
	nth        bool   // days are counted from start
	start, end model.Day
	metrics    map[string]bool
}

func (g *ga4) read(t *table) (unused model.ImportUnused, err error) {
	var start, end model.Day
	var current *ga4Table
	for {
		err := t.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}

		first := strings.TrimSpace(t.row[0])
		if strings.HasPrefix(first, "#") {
			// A comment ends a table: the next row names columns.
			current = nil
			for expression, to := range map[*regexp.Regexp]*model.Day{ga4Start: &start, ga4End: &end} {
				if found := expression.FindStringSubmatch(first); found != nil {
					if *to, err = day(found[1]); err != nil {
						return "", err
					}
				}
			}
			continue
		}

		switch {
		case t.isBlank():
			continue
		case current == nil || namesColumns(t.row):
			if current, err = newGA4Table(t, start, end); err != nil {
				return "", err
			}
			continue
		}
		if err := g.row(t, current); err != nil {
			return "", err
		}
	}
	if t.columns == nil {
		return "", model.Damaged(model.FaultNoTable, model.ImportValues{})
	}
	return "", nil
}

// namesColumns reports whether a row has names of columns only: a further table can follow without
// a comment.
func namesColumns(row []string) bool {
	return !slices.ContainsFunc(row, func(text string) bool {
		name := strings.ToLower(strings.TrimSpace(text))
		_, isDimension := ga4Dimensions[name]
		return name != "" && !isDimension && name != "date" && name != "nth day" && ga4Metrics[name] == "" &&
			!slices.Contains(ga4Ignored, name)
	})
}

// newGA4Table reads the names of the columns.
func newGA4Table(t *table, start, end model.Day) (*ga4Table, error) {
	if err := t.setColumns(); err != nil {
		return nil, err
	}

	table := &ga4Table{start: start, end: end, metrics: make(map[string]bool)}
	for name := range t.columns {
		by, isDimension := ga4Dimensions[name]
		switch {
		case isDimension && table.by != "":
			return nil, model.Damaged(model.FaultTwoDimensions, model.ImportValues{})
		case isDimension:
			table.by, table.value = by, name
		case name == "date", name == "nth day":
			table.date, table.nth = name, name == "nth day"
		case ga4Metrics[name] != "":
			table.metrics[ga4Metrics[name]] = true
		case !slices.Contains(ga4Ignored, name):
			return nil, model.Damaged(model.FaultUnknownColumn, model.ImportValues{Name: name})
		}
	}

	switch {
	case len(table.metrics) == 0:
		return nil, model.Damaged(model.FaultNoMetrics, model.ImportValues{})
	case table.nth && start == 0:
		return nil, model.Damaged(model.FaultNoStart, model.ImportValues{})
	case table.date == "" && (start == 0 || start != end):
		return nil, model.Damaged(model.FaultNoDays, model.ImportValues{})
	}
	return table, nil
}

// row adds a row to the sums.
func (g *ga4) row(t *table, of *ga4Table) error {
	if of.isTotal(t) {
		return nil
	}
	if err := t.fits(); err != nil {
		return err
	}

	t.rows++
	if of.date != "" && t.text(of.date) == "" {
		return g.days.skip(of.date)
	}
	on, err := of.day(t)
	if err != nil {
		return err
	}
	var users, active, sessions, engaged, views, events int64
	err = g.metrics(t, of, on, map[string]*int64{
		"users": &users, "active": &active, "sessions": &sessions, "engaged": &engaged, "views": &views, "events": &events,
	})
	if err != nil || !g.days.keeps(on, false) {
		return err
	}

	sum := &reports.ImportFigure{Day: on, Visitors: users, Visits: sessions, Pageviews: views}
	if !of.metrics["users"] {
		sum.Visitors = active
	}
	if sum.Unbounced = sessions; of.metrics["engaged"] {
		if engaged > sessions {
			return model.Damaged(model.FaultEngaged, model.ImportValues{Count: engaged, Limit: sessions})
		}
		sum.Unbounced, sum.Bounces = 0, sessions-engaged
	}

	switch of.by {
	case "":
		g.hasUsers = g.hasUsers || of.metrics["users"] || of.metrics["active"]
		g.hasSessions, g.hasViews = g.hasSessions || of.metrics["sessions"], g.hasViews || of.metrics["views"]
	case model.DimensionEvent:
		// Users are the users with the event; the other metrics are of their sessions.
		sum = &reports.ImportFigure{Day: on, Visitors: sum.Visitors, Events: events}
	}
	if of.by != model.DimensionEvent {
		return g.add(of.by, of.text(t), sum)
	}
	name := t.text(of.value)
	switch {
	case name == "":
		return g.days.skip(of.value)
	case slices.Contains(ga4Events, name):
		return nil
	case name == "click":
		name = model.EventOutboundClick
	case name == "view_search_results":
		name = model.EventSiteSearch
	}
	return g.add(of.by, g.days.eventName(name), sum)
}

// ga4Totals are the words of a row with the sums of the others, in lower case.
var ga4Totals = []string{"grand total", "totals", "total"}

// isTotal reports whether the current row has the sums of the other rows: its day and its value are
// empty or the word, which can also stand after the last column, as in explorations. The sums of
// other rows of a day are no such row.
func (of *ga4Table) isTotal(t *table) bool {
	total := false
	for i, text := range t.row {
		text = strings.ToLower(strings.TrimSpace(text))
		isWord := slices.Contains(ga4Totals, text)
		total = total || isWord
		if !isWord && text != "" && (i >= t.width || of.isKey(t, i)) {
			return false
		}
	}
	return total
}

// isKey reports whether a column has the day or the value of a row.
func (of *ga4Table) isKey(t *table, column int) bool {
	for _, name := range []string{of.date, of.value} {
		if i, ok := t.columns[name]; ok && i == column {
			return true
		}
	}
	return false
}

// metrics reads the metrics of a row. It fails if another file has the same metric on the same day.
func (g *ga4) metrics(t *table, of *ga4Table, on model.Day, to map[string]*int64) error {
	for name := range t.columns {
		metric, ok := ga4Metrics[name]
		if !ok {
			continue
		}
		if err := g.once(t, strings.TrimSpace(string(of.by)+" "+metric), on); err != nil {
			return err
		}
		n, err := t.count(name)
		if err != nil {
			return err
		}
		*to[metric] = n
	}
	return nil
}

// day returns the day of the current row.
func (of *ga4Table) day(t *table) (model.Day, error) {
	switch {
	case of.date == "":
		return of.start, nil
	case of.nth:
		n, err := t.count(of.date)
		if err != nil || n > 10_000 {
			return 0, model.Damaged(model.FaultNumber, model.ImportValues{Name: of.date, Value: t.text(of.date), Limit: 10_000})
		}
		return of.start + model.Day(n), nil
	}
	return day(t.text(of.date))
}

// text returns the value of the current row as reports show it. A value that is not set is empty.
func (of *ga4Table) text(t *table) string {
	text := t.text(of.value)

	switch of.by {
	case model.DimensionPage, model.DimensionEntryPage:
		if text == "" {
			return ""
		}
		return t.page(of.value)
	case model.DimensionSource:
		source, _, _ := strings.Cut(text, " / ")
		if source == "(direct)" {
			return ""
		}
		return sourceOf(value(source))
	case model.DimensionUTMCampaign:
		if strings.HasPrefix(text, "(") {
			return "" // (direct), (organic), (referral): no campaign
		}
		return lower(text)
	case model.DimensionChannel:
		name, known := ga4Channels[lower(text)]
		if !known {
			name = "unassigned"
		}
		return name
	case model.DimensionLanguage:
		return analytics.Language(text)
	case model.DimensionCountry, model.DimensionBrowser, model.DimensionSystem, model.DimensionDevice, model.DimensionHostname:
		return clientValue(of.by, text)
	}
	return ""
}

func (g *ga4) finish(r *Result) error {
	if len(g.figures) == 0 {
		return nil
	}
	if !g.hasUsers || !g.hasSessions || !g.hasViews {
		return model.Damaged(model.FaultNoTotals, model.ImportValues{Value: g.totals})
	}
	return g.sums.finish(r)
}
