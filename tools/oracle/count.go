package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Result is what a query asked for, like scan.Result. It has no property names.
type Result struct {
	Totals     scan.Figures
	Points     []scan.Figures
	Breakdowns []map[string]scan.Figures // by value
	Funnels    [][]int64                 // visitors of each step
	Journeys   []*scan.JourneyNode
	Cohorts    []scan.Cohort
	Numbers    []Numbers
}

// naive counts a query with maps over rows, as slowly and as plainly as docs/owner/reports.md says it.
type naive struct {
	q      *scan.Query
	totals *naiveRow
	points []*naiveRow
	by     []map[string]*naiveRow
	until  time.Time
}

// viewed are the dimensions that visits have by their page views, or by another hit of a browser.
var viewed = map[scan.Dimension]bool{
	scan.EntryPage: true, scan.ExitPage: true, scan.Language: true, scan.Width: true, scan.Country: true,
	scan.Browser: true, scan.System: true, scan.Device: true, scan.Host: true,
}

type naiveRow struct {
	scan.Figures
	people, converted, visits map[string]bool
}

func newNaiveRow() *naiveRow {
	return &naiveRow{people: map[string]bool{}, converted: map[string]bool{}, visits: map[string]bool{}}
}

// naiveVisit is a visit with its rows.
type naiveVisit struct {
	segment.Visit
	key    string
	person string // user id; empty for none
	views  []segment.View
	events []segment.Event
}

// Count counts a query over the rows of days.
func Count(q *scan.Query, days []segment.Rows) *Result {
	n := &naive{q: q, totals: newNaiveRow(), by: make([]map[string]*naiveRow, len(q.Breakdowns)),
		until: q.To.AddDays(1).Start(q.Zone)}
	if !q.Until.IsZero() && q.Until.Before(n.until) {
		n.until = q.Until
	}
	for range max(0, len(q.Points)-1) {
		n.points = append(n.points, newNaiveRow())
	}
	for i := range n.by {
		n.by[i] = map[string]*naiveRow{}
	}

	for _, rows := range days {
		for _, v := range visitsOf(rows) {
			if n.kept(&v) {
				n.visit(&v)
			}
		}
	}

	r := &Result{Totals: n.totals.done()}
	for _, p := range n.points {
		r.Points = append(r.Points, p.done())
	}
	for i, table := range n.by {
		figures := map[string]scan.Figures{}
		for value, row := range table {
			f := row.done()
			if value == "" && f.Visitors == 0 && viewed[q.Breakdowns[i].By] {
				continue
			}
			if f.Visitors|f.Visits|f.Pageviews|f.Events|f.Exits|f.Converted != 0 || f.Revenue != nil {
				figures[value] = f
			}
		}
		r.Breakdowns = append(r.Breakdowns, figures)
	}
	for i := range q.Funnels {
		r.Funnels = append(r.Funnels, n.funnel(q.Funnels[i].Steps, days))
	}
	for i := range q.Journeys {
		r.Journeys = append(r.Journeys, n.journey(&q.Journeys[i], days))
	}
	if q.Cohorts != nil {
		r.Cohorts = n.cohorts(days)
	}
	for i := range q.Numbers {
		r.Numbers = append(r.Numbers, n.numbers(&q.Numbers[i], days))
	}
	return r
}

func (r *naiveRow) done() scan.Figures {
	f := r.Figures
	f.Visitors, f.Converted = int64(len(r.people)), int64(len(r.converted))
	return f
}

func visitsOf(rows segment.Rows) []naiveVisit {
	var visits []naiveVisit
	for _, v := range rows.Visits {
		n := naiveVisit{Visit: v, key: fmt.Sprintf("%v/%x/%d", rows.Day, v.Visitor, v.N)}
		for _, view := range rows.Views {
			if view.VisitKey == v.VisitKey {
				n.views = append(n.views, view)
			}
		}
		for _, event := range rows.Events {
			if event.VisitKey == v.VisitKey {
				n.events = append(n.events, event)
			}
		}
		n.person = personOf(rows.Visits, v)
		visits = append(visits, n)
	}
	return visits
}

// personOf returns the user id of the visit, or of the nearest other one of its visitor.
func personOf(visits []segment.Visit, v segment.Visit) string {
	best, distance := v.UserID, 1<<30
	if best != "" {
		return best
	}
	for _, other := range visits {
		d := int(v.N - other.N)
		if d < 0 {
			d = 10_000 - d
		}
		if other.Visitor == v.Visitor && other.UserID != "" && d < distance {
			best, distance = other.UserID, d
		}
	}
	return best
}

func (n *naive) in(at model.Instant) bool {
	t := at.Time()
	return !t.Before(n.q.From.Start(n.q.Zone)) && !t.Before(n.q.Since) && t.Before(n.until)
}

// who names the person behind a row: the user, or the visitor on the local day.
func (n *naive) who(v *naiveVisit, at model.Instant) string {
	if v.person != "" {
		return "user " + v.person
	}
	return fmt.Sprintf("%v %x %v", v.StartedAt.Day(), v.Visitor, scan.DateOf(at.Time().In(n.q.Zone)))
}

func (n *naive) kept(v *naiveVisit) bool {
	for _, f := range n.q.Filters {
		values := n.valuesOf(v, f.Breakdown)
		any := len(values) == 0 && slices.Contains(f.Values, "")
		for _, value := range values {
			any = any || matches(&f, value)
		}
		if not := strings.HasSuffix(string(f.Operator), "_NOT"); any == not {
			return false
		}
	}
	return true
}

// matches reports whether a text is one of a filter's, before the filter's negation.
func matches(f *scan.Filter, text string) bool {
	return slices.ContainsFunc(f.Values, func(value string) bool {
		switch f.Operator {
		case model.OperatorContains, model.OperatorContainsNot:
			folded := strings.ToLower(value)
			return strings.Contains(strings.ToLower(text), folded) ||
				strings.Contains(strings.ToLower(model.OwnLetters(text)), folded)
		case model.OperatorMatches, model.OperatorMatchesNot:
			return MatchPattern(value, text)
		default:
			return text == value
		}
	})
}

// MatchPattern reports whether a text matches a pattern in which * is any text without a slash and
// ** any text.
func MatchPattern(pattern, text string) bool {
	before, after, found := strings.Cut(pattern, "*")
	rest, ok := strings.CutPrefix(text, before)
	if !found || !ok {
		return text == pattern
	}

	remaining := strings.TrimLeft(after, "*")
	crosses := len(remaining) < len(after)
	for end := 0; end <= len(rest); end++ {
		if MatchPattern(remaining, rest[end:]) {
			return true
		}
		if end < len(rest) && rest[end] == '/' && !crosses {
			break
		}
	}
	return false
}

// valuesOf lists the values that a visit has of a dimension.
func (n *naive) valuesOf(v *naiveVisit, b scan.Breakdown) []string {
	switch b.By {
	case scan.Page:
		return pagesOf(v)
	case scan.Event, scan.Property:
		return ofEvents(v, b)
	case scan.DayOfWeek, scan.HourOfDay:
		return []string{n.timeOf(v.StartedAt, b.By)}
	default:
		return []string{attribute(v, b.By)}
	}
}

func pagesOf(v *naiveVisit) (paths []string) {
	for _, view := range v.views {
		paths = append(paths, view.Path)
	}
	return paths
}

// ofEvents lists the names of a visit's events, or the values of a property.
func ofEvents(v *naiveVisit, b scan.Breakdown) (values []string) {
	for _, e := range v.events {
		value, ok := e.Name, true
		if b.By == scan.Property {
			value, ok = propertyOf(&e, b)
		}
		if ok {
			values = append(values, value)
		}
	}
	return values
}

func (n *naive) timeOf(at model.Instant, by scan.Dimension) string {
	t := at.Time().In(n.q.Zone)
	if by == scan.HourOfDay {
		return t.Format("15")
	}
	if t.Weekday() == time.Sunday {
		return "7"
	}
	return strconv.Itoa(int(t.Weekday()))
}

func propertyOf(e *segment.Event, b scan.Breakdown) (string, bool) {
	if b.Event != "" && e.Name != b.Event || e.Properties == "" {
		return "", false
	}
	d := json.NewDecoder(strings.NewReader(e.Properties))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		panic(err)
	}
	switch value := m[b.Property].(type) {
	case string:
		return value, true
	case json.Number:
		return value.String(), true
	case bool:
		return strconv.FormatBool(value), true
	}
	return "", false
}

func attribute(v *naiveVisit, by scan.Dimension) string {
	var first, last segment.View
	first.Width = model.UnknownWidth
	if len(v.views) > 0 {
		first, last = v.views[0], v.views[0]
	}
	for _, view := range v.views {
		if view.At < first.At || view.At == first.At && view.ID < first.ID {
			first = view
		}
		if view.At > last.At || view.At == last.At && view.ID > last.ID {
			last = view
		}
	}

	switch by {
	case scan.EntryPage:
		return first.Path
	case scan.ExitPage:
		return last.Path
	case scan.Channel:
		return v.Channel
	case scan.Source:
		if v.Source != "" {
			return v.Source
		}
		return strings.Split(v.Referrer, "/")[0]
	case scan.Referrer:
		return v.Referrer
	case scan.UTMSource:
		return v.Source
	case scan.UTMMedium:
		return v.Medium
	case scan.UTMCampaign:
		return v.Name
	case scan.UTMContent:
		return v.Content
	case scan.UTMTerm:
		return v.Term
	case scan.ClickID:
		switch {
		case v.Gclid+v.Gbraid+v.Wbraid != "":
			return "google"
		case v.Msclkid != "":
			return "bing"
		case v.Fbclid != "":
			return "facebook"
		}
		return ""
	case scan.Language:
		return first.Language
	case scan.Country:
		return v.Client.Country
	case scan.Browser:
		return string(v.Client.Browser)
	case scan.System:
		return string(v.Client.System)
	case scan.Device:
		return string(v.Client.Device)
	case scan.Host:
		return v.Client.Host
	case scan.SourceGroup:
		return string(model.GroupOfSource(attribute(v, scan.Source)))
	case scan.SourceName:
		return model.NameOfSource(attribute(v, scan.Source))
	default:
		return model.WidthRangeName(first.Width)
	}
}

// rows returns the rows that something at a time adds to: the totals and the point.
func (n *naive) rows(at model.Instant) []*naiveRow {
	rows := []*naiveRow{n.totals}
	for i, p := range n.points {
		if t := at.Time(); !t.Before(n.q.Points[i]) && t.Before(n.q.Points[i+1]) {
			rows = append(rows, p)
		}
	}
	return rows
}

func (n *naive) row(i int, value string) *naiveRow {
	if n.by[i][value] == nil {
		n.by[i][value] = newNaiveRow()
	}
	return n.by[i][value]
}

func (n *naive) visit(v *naiveVisit) {
	engaged, own := int64(0), false
	for _, view := range v.views {
		engaged += int64(view.EngagedMS)
	}
	for _, e := range v.events {
		own = own || !model.IsAutomaticEvent(e.Name)
	}
	begin := func(r *naiveRow) {
		if len(v.views) == 0 || !n.in(v.StartedAt) || r.visits[v.key] {
			return
		}
		r.visits[v.key] = true
		r.Visits++
		r.VisitMS += engaged
		if len(v.views) == 1 && !own && engaged < 10_000 {
			r.Bounces++
		}
	}

	for _, r := range n.rows(v.StartedAt) {
		begin(r)
	}
	for i, b := range n.q.Breakdowns {
		switch {
		case b.By < scan.Page || b.By >= scan.DayOfWeek:
			begin(n.row(i, n.valuesOf(v, b)[0]))
		}
		exit := attribute(v, scan.ExitPage)
		if (b.By == scan.ExitPage || b.By == scan.Page) && len(v.views) > 0 && n.in(v.StartedAt) {
			n.row(i, exit).Exits++
		}
	}

	for _, view := range v.views {
		if n.in(view.At) {
			n.view(v, view, begin)
		}
	}
	for _, e := range v.events {
		if n.in(e.At) {
			n.event(v, e, begin)
		}
	}
}

func (n *naive) view(v *naiveVisit, view segment.View, begin func(*naiveRow)) {
	add := func(r *naiveRow) {
		r.people[n.who(v, view.At)] = true
		r.Pageviews++
		r.ViewMS += int64(view.EngagedMS)
		if view.Scroll > 0 {
			r.ScrollSum += int64(view.Scroll)
			r.Scrolled++
		}
	}

	for _, r := range n.rows(view.At) {
		add(r)
	}
	for i, b := range n.q.Breakdowns {
		switch {
		case b.By == scan.Page:
			add(n.row(i, view.Path))
			begin(n.row(i, view.Path))
		case b.By >= scan.DayOfWeek:
			add(n.row(i, n.timeOf(view.At, b.By)))
		case b.By < scan.Page:
			add(n.row(i, attribute(v, b.By)))
		}
	}
}

func (n *naive) event(v *naiveVisit, e segment.Event, begin func(*naiveRow)) {
	add := func(r *naiveRow, automatic bool) {
		if automatic || !model.IsAutomaticEvent(e.Name) {
			r.Events++
		}
		if n.q.KeyEvents[e.Name] {
			r.Conversions++
			r.converted[n.who(v, e.At)] = true
		}
		if n.q.WithoutRevenue || e.Currency == "" || e.Name != model.EventPurchase && e.Name != model.EventRefund {
			return
		}
		if r.Revenue == nil {
			r.Revenue = map[string]scan.Revenue{}
		}
		sum := r.Revenue[e.Currency]
		if e.Name == model.EventPurchase {
			sum.Gross += e.Value
			sum.Purchases++
		} else {
			sum.Refunded -= e.Value
			sum.Refunds++
		}
		r.Revenue[e.Currency] = sum
	}
	carry := func(r *naiveRow) {
		add(r, true)
		r.people[n.who(v, e.At)] = true
		begin(r)
	}

	for _, r := range n.rows(e.At) {
		add(r, false)
	}
	for i, b := range n.q.Breakdowns {
		switch {
		case b.By == scan.Page:
			add(n.row(i, e.Path), false)
		case b.By == scan.Event:
			carry(n.row(i, e.Name))
		case b.By == scan.Property:
			if value, ok := propertyOf(&e, b); ok {
				carry(n.row(i, value))
			}
		case b.By >= scan.DayOfWeek:
			add(n.row(i, n.timeOf(e.At, b.By)), false)
		default:
			add(n.row(i, attribute(v, b.By)), false)
		}
	}
}
