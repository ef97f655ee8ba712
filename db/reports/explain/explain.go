// Package explain names why a figure of a site differs between two times, for messages. It names
// what Report.changes of GraphQL names to readers for whom small groups are hidden, because a
// message can reach people who are no members. docs/owner/reports.md states the rule.
package explain

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/changes"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// Span is a time from From until, but not including, To, of at most period.MaxHourDays days.
type Span struct{ From, To time.Time }

// Explainer explains differences. It counts each of both times at most twice.
type Explainer struct{ reports *reports.Store }

// New returns the explainer of the reports of a database.
func New(store *reports.Store) *Explainer { return &Explainer{store} }

// Visits explains the visits of the days between from and to, both included, in the site's time
// zone, and of as many days before; of one day, and of the same weekday a week before. It returns
// nil if there is nothing to name.
func (e *Explainer) Visits(ctx context.Context, site *model.Site, from, to model.Day, now model.Instant) (*model.Change, error) {
	zone, err := site.Zone()
	if err != nil {
		return nil, err
	}

	days := period.Period{From: scan.DateOfNumber(from), To: scan.DateOfNumber(to)}
	shift := period.Before(days, days.Days() == 1)
	before := shift.Period(days)
	c := &comparison{Explainer: e, site: site, zone: zone, now: now, metric: changes.Visits, periods: [2]*scan.Query{
		{Zone: zone, From: days.From, To: days.To}, {Zone: zone, From: before.From, To: before.To},
	}}
	c.periods[0].Hours, _ = days.Hours(zone, period.Shift{})
	c.periods[1].Hours, _ = days.Hours(zone, shift)
	return c.explain(ctx)
}

// Pageviews explains the page views of two spans of the same length. It returns nil if there is
// nothing to name.
func (e *Explainer) Pageviews(ctx context.Context, site *model.Site, before, after Span, now model.Instant) (*model.Change, error) {
	zone, err := site.Zone()
	if err != nil {
		return nil, err
	}

	c := &comparison{Explainer: e, site: site, zone: zone, now: now, metric: changes.Pageviews}
	for i, span := range []Span{after, before} {
		from, to := span.From.In(zone), span.To.In(zone)
		c.periods[i] = &scan.Query{
			Zone: zone, From: scan.DateOf(from), To: scan.DateOf(to.Add(-time.Microsecond)), Since: from, Until: to,
		}
		for at := from; !at.After(to); at = at.Add(time.Hour) {
			c.periods[i].Hours = append(c.periods[i].Hours, at)
		}
	}
	return c.explain(ctx)
}

// comparison is a difference that is explained.
type comparison struct {
	*Explainer
	site    *model.Site
	zone    *time.Location
	now     model.Instant
	metric  changes.Metric
	periods [2]*scan.Query // the later one first
}

// explain returns the causes of the difference, and the gap that can explain it.
func (c *comparison) explain(ctx context.Context) (*model.Change, error) {
	results, err := c.count(ctx, nil)
	if err != nil {
		return nil, err
	}
	counts := c.counts(results)
	whole := counts.Whole().Figure
	if whole.Difference() == 0 {
		return nil, nil
	}

	chain, err := counts.Chain(func(cause changes.Value) (*changes.Counts, error) {
		if c.leastOf(cause.By) > 0 {
			return nil, nil // all that is among its visits would be about a group
		}
		among, err := c.count(ctx, []scan.Filter{{
			Breakdown: scan.Breakdown{By: reports.Dimensions[cause.By]}, Operator: model.OperatorIs, Values: []string{cause.Value},
		}})
		if err != nil {
			return nil, err
		}
		return c.counts(among), nil
	})
	if err != nil {
		return nil, err
	}

	change := &model.Change{Metric: string(c.metric), Before: whole.Before, After: whole.After, Gap: c.gap(results, whole.Difference())}
	for _, link := range changes.Main(chain) {
		cause := model.ChangeCause{Difference: link.Figure.Difference()}
		for _, v := range append([]changes.Value{link.Value}, link.Names...) {
			cause.Names = append(cause.Names, model.ChangeName{By: v.By, Value: v.Value})
		}
		change.Causes = append(change.Causes, cause)
	}
	if change.Causes == nil && change.Gap == nil {
		return nil, nil
	}
	return change, nil
}

// count counts both periods. The answer is in no cache, since a message is written once.
func (c *comparison) count(ctx context.Context, filters []scan.Filter) ([]*scan.Result, error) {
	request := reports.Request{SiteID: c.site.ID, Now: c.now}
	for _, p := range c.periods {
		q := *p
		q.Filters, q.WithoutRevenue = filters, true
		if filters != nil {
			q.Hours = nil
		}
		for _, by := range c.metric.Dimensions() {
			q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: reports.Dimensions[by]})
		}
		request.Periods = append(request.Periods, &q)
	}

	answer, err := c.reports.Report(ctx, request)
	if err != nil {
		return nil, err
	}
	return answer.Results, nil
}

// counts divides results by their breakdowns.
func (c *comparison) counts(results []*scan.Result) *changes.Counts {
	after, before := results[0], results[1]
	counts := &changes.Counts{Metric: c.metric, Before: &before.Totals, After: &after.Totals}
	for i, by := range c.metric.Dimensions() {
		counts.Tables = append(counts.Tables, changes.TableOf(by, before.Breakdowns[i], after.Breakdowns[i], c.leastOf(by)))
	}
	return counts
}

// leastOf returns from how many visitors on a value of a dimension is named; 0: all are.
func (c *comparison) leastOf(by model.ReportDimension) int {
	if !by.IsPersonal() || c.site.SmallGroup == 1 {
		return 0
	}
	return c.site.SmallGroup
}

// gap returns the hours without hits that can explain a difference, or nil.
func (c *comparison) gap(results []*scan.Result, difference int64) *model.ChangeGap {
	for _, r := range results {
		if r.Imported != nil && r.Imported.WithoutHours {
			return nil
		}
	}

	after, before := c.periods[0].Hours, c.periods[1].Hours
	if len(after) < 2 || len(after) != len(before) {
		return nil // too many days, or less than an hour
	}
	gap, ok := changes.MainGap(changes.Hours(before, after, results[1].Hours, results[0].Hours, c.now), difference)
	if !ok {
		return nil
	}

	points := before
	if gap.InAfter() {
		points = after
	}
	local := func(at time.Time) string { return at.In(c.zone).Format(model.ChangeGapTime) }
	return &model.ChangeGap{From: local(points[gap.First]), To: local(points[gap.Last+1])}
}
