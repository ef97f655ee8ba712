package resolver

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/reports/changes"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// What else was different between the periods of a report, or happened in them. Each kind is read
// from the mechanism that has it, with the permission of its own field.

// circumstances reads the circumstances of one report.
type circumstances struct {
	*Resolver
	report *generated.Report
	site   *model.Site
	first  int // of each kind

	after, before window
}

// window is a period.
type window struct {
	first, last model.Day // of the calendar
	start, end  model.Instant
}

func (r *reportChangesResolver) Circumstances(
	ctx context.Context, obj *generated.ReportChanges,
) ([]*generated.ChangeCircumstance, error) {
	q := obj.Report.Question
	windowOf := func(first, last model.Day) window {
		end := scan.DateOfNumber(last).AddDays(1)
		return window{first, last, model.At(scan.DateOfNumber(first).Start(q.Zone)), model.At(end.Start(q.Zone))}
	}
	c := &circumstances{
		Resolver: r.Resolver, report: obj.Report, site: q.Site, first: obj.First,
		after: windowOf(obj.Report.From, obj.Report.To), before: windowOf(*obj.Report.ComparedFrom, *obj.Report.ComparedTo),
	}

	kinds := []func(context.Context) ([]*generated.ChangeCircumstance, error){
		c.noHits, c.calls, c.settings, c.imports, c.annotations, c.failedWebhooks,
	}
	list := []*generated.ChangeCircumstance{}
	for _, read := range kinds {
		found, err := read(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// all returns the time from the beginning of the earlier period to the end of the later one.
func (c *circumstances) all() window {
	return window{
		min(c.after.first, c.before.first), max(c.after.last, c.before.last),
		min(c.after.start, c.before.start), max(c.after.end, c.before.end),
	}
}

// isReader reports whether the caller reads a shared link, and so nothing of the site but reports.
func isReader(ctx context.Context) bool {
	caller, err := auth.CallerOf(ctx)
	return err != nil || caller.User == nil
}

// noHits returns the hours without hits in one of the periods.
func (c *circumstances) noHits(context.Context) ([]*generated.ChangeCircumstance, error) {
	answer := c.report.Answer
	after, before := answer.Request.Periods[0].Hours, answer.Request.Periods[1].Hours
	isUnknown := func(r *scan.Result) bool { return r.Imported != nil && r.Imported.WithoutHours }
	if after == nil || slices.ContainsFunc(answer.Results, isUnknown) {
		return nil, nil
	}

	hours := changes.Hours(before, after, answer.Results[1].Hours, answer.Results[0].Hours, c.report.Question.Now)
	var list []*generated.ChangeCircumstance
	for _, gap := range changes.Gaps(hours, c.first) {
		points := before
		if gap.InAfter() {
			points = after
		}
		found := &generated.ChangeCircumstance{
			Kind: generated.ChangeCircumstanceKindNoHits, From: model.At(points[gap.First]), To: model.At(points[gap.Last+1]),
			Before: &gap.Hits.Before, After: &gap.Hits.After,
		}
		list = append(list, found)
	}
	return list, nil
}

// callCount are the calls of one code, with the days on which each period has some.
type callCount struct {
	changes.Count
	before, after window
}

// calls returns the codes of calls that were refused or ignored more or less often. The days of a
// time zone are compared with the UTC days of the same dates.
func (c *circumstances) calls(ctx context.Context) ([]*generated.ChangeCircumstance, error) {
	request := requestOf(ctx)
	from := c.all().first
	if isReader(ctx) || from <= request.now.Day()-retention.RejectionDays {
		return nil, nil
	}
	rows, err := request.loaders().Rejections(from).Of(ctx, c.site.ID)
	if err != nil {
		return nil, err
	}

	byCode := make(map[string]*callCount)
	for _, row := range rows {
		if model.IsRecorded(row.Code) {
			continue
		}
		if byCode[row.Code] == nil {
			byCode[row.Code] = &callCount{}
		}
		count := byCode[row.Code]
		count.before.add(&c.before, row.Day, row.Count, &count.Before)
		count.after.add(&c.after, row.Day, row.Count, &count.After)
	}

	codes := slices.DeleteFunc(slices.Collect(maps.Keys(byCode)), func(code string) bool { return byCode[code].Difference() == 0 })
	slices.SortFunc(codes, func(a, b string) int {
		size := func(code string) int64 { return max(byCode[code].Difference(), -byCode[code].Difference()) }
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a, b))
	})

	var list []*generated.ChangeCircumstance
	for _, kind := range []generated.ChangeCircumstanceKind{
		generated.ChangeCircumstanceKindRefusedCalls, generated.ChangeCircumstanceKindBots, generated.ChangeCircumstanceKindIgnoredCalls,
	} {
		n := 0
		for _, code := range codes {
			if kindOfCall(code) != kind || n == c.first {
				continue
			}
			count, days := byCode[code], byCode[code].before
			if count.Difference() > 0 {
				days = count.after
			}
			n++
			list = append(list, &generated.ChangeCircumstance{
				Kind: kind, From: days.start, To: days.end, Name: &code, Before: &count.Before, After: &count.After,
			})
		}
	}
	return list, nil
}

// add adds calls of a UTC day in a period to a sum, and the day to the window of these calls.
func (w *window) add(period *window, day model.Day, calls int64, sum *int64) {
	if day < period.first || day > period.last {
		return
	}
	*sum += calls
	if w.end == 0 || day.Start() < w.start {
		w.start = day.Start()
	}
	w.end = max(w.end, (day + 1).Start())
}

// kindOfCall returns the kind of calls that were not recorded.
func kindOfCall(code string) generated.ChangeCircumstanceKind {
	switch {
	case code == "bot" || code == "data_centre":
		return generated.ChangeCircumstanceKindBots
	case model.IsIgnored(code):
		return generated.ChangeCircumstanceKindIgnoredCalls
	}
	return generated.ChangeCircumstanceKindRefusedCalls
}

// settings returns the changes of the site in the audit log, for callers who may read the log.
func (c *circumstances) settings(ctx context.Context) ([]*generated.ChangeCircumstance, error) {
	member, err := callerIn(ctx, c.site.AccountID)
	if err != nil || member == nil || member.IsRestricted() || !member.May(model.MayManage, nil) {
		return nil, err
	}
	if checkSecondFactor(ctx, member.Account) != nil {
		return nil, nil
	}

	all := c.all()
	entries, err := c.audit.Entries(ctx, c.site.AccountID, audit.Filter{
		ObjectKind: nodeid.Site, ObjectID: int64(c.site.ID), Since: all.start, Until: all.end,
	}, 0, c.first)
	if err != nil {
		return nil, err
	}

	var list []*generated.ChangeCircumstance
	for _, entry := range entries {
		names := slices.AppendSeq(slices.Collect(maps.Keys(entry.Before)), maps.Keys(entry.After))
		slices.Sort(names)
		text := strings.Join(slices.Compact(names), ", ")
		list = append(list, &generated.ChangeCircumstance{
			Kind: generated.ChangeCircumstanceKindSetting, From: entry.Actor.At, To: entry.Actor.At, Name: &entry.Actor.Action, Text: &text,
		})
	}
	return list, nil
}

// days returns the times of days of the site's calendar.
func (c *circumstances) days(first, last model.Day) (from, to model.Instant) {
	zone := c.report.Question.Zone
	return model.At(scan.DateOfNumber(first).Start(zone)), model.At(scan.DateOfNumber(last).AddDays(1).Start(zone))
}

// imports returns the imports with days of the periods.
func (c *circumstances) imports(context.Context) (list []*generated.ChangeCircumstance, err error) {
	for _, m := range c.report.Imports {
		from, to := c.days(m.From, m.To)
		list = append(list, &generated.ChangeCircumstance{
			Kind: generated.ChangeCircumstanceKindImport, From: from, To: to, Name: &m.Service,
		})
	}
	return list[:min(c.first, len(list))], nil
}

// annotations returns the notes on days.
func (c *circumstances) annotations(ctx context.Context) ([]*generated.ChangeCircumstance, error) {
	if isReader(ctx) {
		return nil, nil
	}
	all := c.all()
	page := sites.AnnotationPage{
		After:  sites.AnnotationPosition{Day: all.last + 1, ID: 1},
		Before: sites.AnnotationPosition{Day: all.first - 1, ID: math.MaxInt64},
		Limit:  c.first,
	}
	notes, err := requestOf(ctx).loaders().Annotations(page).Of(ctx, c.site.ID)
	if err != nil {
		return nil, err
	}

	var list []*generated.ChangeCircumstance
	for _, note := range notes {
		from, to := c.days(note.Day, note.Day)
		list = append(list, &generated.ChangeCircumstance{
			Kind: generated.ChangeCircumstanceKindAnnotation, From: from, To: to, Text: &note.Text,
		})
	}
	return list, nil
}

// failedWebhooks returns how many deliveries failed, if that is more or less than before.
func (c *circumstances) failedWebhooks(ctx context.Context) ([]*generated.ChangeCircumstance, error) {
	if isReader(ctx) || isForGuest(ctx, c.site) {
		return nil, nil
	}
	failed := func(w window) (*int64, error) {
		if w.start < requestOf(ctx).now.Add(-retention.FinishedRetention) {
			return nil, nil
		}
		filter := outbox.DeliveryFilter{State: model.DeliveryFailed, Since: w.start, Until: w.end}
		n, err := requestOf(ctx).loaders().DeliveryCounts(filter).Of(ctx, c.site.ID)
		return new(int64(n)), err
	}

	after, err := failed(c.after)
	if err != nil || after == nil {
		return nil, err
	}
	before, err := failed(c.before)
	if err != nil || before != nil && *before == *after || before == nil && *after == 0 {
		return nil, err
	}
	return []*generated.ChangeCircumstance{{
		Kind: generated.ChangeCircumstanceKindFailedWebhook, From: c.after.start, To: c.after.end, Before: before, After: after,
	}}, nil
}
