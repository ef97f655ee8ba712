package alerts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/alerts/rules"
)

// pastSpan is a span of an earlier week of a site.
type pastSpan struct {
	site  *alerts.Site
	weeks int // before now
}

// traffic evaluates the rules of spikes and drops.
func (w *Watcher) traffic(
	ctx context.Context, some []*alerts.Site, now model.Instant, found map[model.AccountID]findings,
) error {
	days, err := w.usageDays(ctx, some, now)
	if err != nil || len(some) == 0 {
		return err
	}

	var spans []alerts.Span
	var of []pastSpan
	lengths := make(map[*alerts.Site]time.Duration, len(some))
	for _, site := range some {
		length := days[site].Span()
		lengths[site] = length
		span := rules.Span{From: now.Add(-length).Time(), To: now.Time()}
		spans = append(spans, spanOf(site, span))
		of = append(of, pastSpan{site, 0})
		spans, of = addPast(spans, of, site, days[site], rules.PastSpans(span, zoneOf(site)))
	}

	counts, err := w.store.CountPageviews(ctx, spans)
	if err != nil {
		return err
	}

	figures, counted := make(map[*alerts.Site]*rules.Traffic, len(some)), make(map[*alerts.Site][]rules.Span, len(some))
	for i, span := range of {
		counted[span.site] = append(counted[span.site], rules.Span{From: spans[i].From.Time(), To: spans[i].To.Time()})
		if span.weeks == 0 {
			figures[span.site] = &rules.Traffic{Length: lengths[span.site], Value: counts[i]}
			continue
		}
		f := figures[span.site]
		f.Past = append(f.Past, days[span.site].Scaled(counts[i], span.weeks))
	}

	for site, f := range figures {
		spike, drop := rules.Spike(*f), rules.Drop(*f)
		if week := f.Nearest(); week >= 0 {
			for _, finding := range []*rules.Finding{&spike, &drop} {
				finding.After, finding.Before = counted[site][0], counted[site][week+1]
			}
		}
		put(found, site, model.AlertTrafficSpike, spike)
		put(found, site, model.AlertTrafficDrop, drop)
	}
	return nil
}

// put adds a finding about a site, if the site wants the event.
func put(found map[model.AccountID]findings, site *alerts.Site, event model.AlertEvent, finding rules.Finding) {
	if site.Wants(event) {
		found[site.AccountID][alertAbout{siteID: site.ID, event: event}] = finding
	}
}

func spanOf(site *alerts.Site, span rules.Span) alerts.Span {
	return alerts.Span{SiteID: site.ID, From: model.At(span.From), To: model.At(span.To)}
}

// zoneOf returns the time zone of a site.
func zoneOf(site *alerts.Site) *time.Location {
	zone, err := model.TimeZone(site.TimeZone)
	if err != nil {
		// A process with a newer time zone database has set it.
		return time.UTC
	}
	return zone
}

// addPast adds the spans of the earlier weeks in which the site was measured.
func addPast(
	spans []alerts.Span, of []pastSpan, site *alerts.Site, days rules.Days, past [rules.Weeks]rules.Span,
) ([]alerts.Span, []pastSpan) {
	for i, earlier := range past {
		if model.At(earlier.From) >= site.CreatedAt && days.IsMeasured(i+1) {
			spans = append(spans, spanOf(site, earlier))
			of = append(of, pastSpan{site, i + 1})
		}
	}
	return spans, of
}

// usageDays returns the finished days of sites, newest first.
func (w *Watcher) usageDays(
	ctx context.Context, some []*alerts.Site, now model.Instant,
) (map[*alerts.Site]rules.Days, error) {
	if len(some) == 0 {
		return nil, nil
	}

	counted, err := w.sites.Usage.UsageDayCounted(ctx)
	if err != nil {
		return nil, err
	}

	// A day that ended just now is not counted yet.
	last := min(counted, now.Day()-1)
	used, err := w.sites.Usage.UsageByDay(ctx, idsOf(some), last-rules.DaysRead+1)
	if err != nil {
		return nil, err
	}

	all := make(map[*alerts.Site]rules.Days, len(some))
	for _, site := range some {
		first := max(site.CreatedAt.Day(), last-rules.DaysRead+1)
		for day := last; day >= first; day-- {
			all[site] = append(all[site], used[site.ID][day])
		}
	}
	return all, nil
}

// silence evaluates the rule of sites without page views. It reads earlier weeks only of sites that
// are silent now.
func (w *Watcher) silence(
	ctx context.Context, some []*alerts.Site, now model.Instant, found map[model.AccountID]findings,
) error {
	spans := make([]alerts.Span, len(some))
	for i, site := range some {
		spans[i] = alerts.Span{SiteID: site.ID, From: now.Add(-rules.LongestSilence), To: now}
	}
	last, err := w.store.LastPageviews(ctx, spans)
	if err != nil {
		return err
	}

	silences := make(map[*alerts.Site]*rules.Silence, len(some))
	var silent []*alerts.Site
	for i, site := range some {
		s := &rules.Silence{Last: last[i], For: rules.LongestSilence}
		if last[i] > 0 {
			s.For = now.Sub(last[i])
		}
		silences[site] = s
		if s.For >= rules.LeastSilence {
			silent = append(silent, site)
		}
	}

	failed := w.pastSilences(ctx, silent, silences, now)
	for site, s := range silences {
		if failed == nil || s.For < rules.LeastSilence {
			put(found, site, model.AlertNoHits, rules.NoHits(*s))
		}
	}
	return failed
}

// pastSilences reads the page views of earlier weeks in the time in which sites are silent now.
func (w *Watcher) pastSilences(
	ctx context.Context, silent []*alerts.Site, silences map[*alerts.Site]*rules.Silence, now model.Instant,
) error {
	days, err := w.usageDays(ctx, silent, now)
	if err != nil || len(silent) == 0 {
		return err
	}

	var spans []alerts.Span
	var of []pastSpan
	for _, site := range silent {
		span := rules.Span{From: now.Add(-silences[site].For).Time(), To: now.Time()}
		spans, of = addPast(spans, of, site, days[site], rules.PastSilences(span, zoneOf(site)))
	}

	counts, err := w.store.CountPageviews(ctx, spans)
	if err != nil {
		return err
	}
	for i, span := range of {
		silences[span.site].Past = append(silences[span.site].Past, counts[i])
	}
	return nil
}

// callSpan is the time of calls in which the share of refused ones is computed.
const callSpan = time.Hour

// callMemory is how old a count may be. With several workers, one of them can evaluate the rules
// rarely.
const callMemory = 2 * callSpan

// callCount is how many calls of a site were accepted and refused, from the beginning of a month
// and of a day until a time. This process has read it: another one begins with its own count.
type callCount struct {
	at                model.Instant
	month             model.Month
	day               model.Day
	accepted, refused int64
}

// refused evaluates the rule of refused calls, from the calls since an earlier run.
func (w *Watcher) refused(
	ctx context.Context, some []*alerts.Site, now model.Instant, found map[model.AccountID]findings,
) error {
	if len(some) == 0 {
		return nil
	}

	// The counters are of days and months, so a count goes back to the beginning of the last day's.
	month, day := (now.Day() - 1).Start().Month(), now.Day()-1
	used, err := w.sites.Usage.UsageHistory(ctx, idsOf(some), month)
	if err != nil {
		return err
	}
	rejected, err := w.ingest.RejectionsOfSites(ctx, idsOf(some), day)
	if err != nil {
		return err
	}

	for _, site := range some {
		if calls, ok := w.callsSince(site.ID, now, callCounters{used[site.ID], rejected[site.ID]}); ok {
			put(found, site, model.AlertCallsRefused, rules.CallsRefused(calls))
		}
	}
	return nil
}

// callCounters are the counters of a site's calls.
type callCounters struct {
	used     map[model.Month]int64
	rejected []ingest.Rejection
}

// since adds up the calls from the beginning of a count.
func (c callCounters) since(from callCount) (accepted, refused int64) {
	for m, n := range c.used {
		if m >= from.month {
			accepted += n
		}
	}
	for _, r := range c.rejected {
		if r.Day >= from.day && !model.IsIgnored(r.Code) && !model.IsRecorded(r.Code) {
			refused += r.Count
		}
	}
	return accepted, refused
}

// callsSince returns the calls of a site since the last count, which it replaces after callSpan. ok
// is false for the first count, and for one that is too old or of a clock that was set back.
func (w *Watcher) callsSince(siteID model.SiteID, now model.Instant, counters callCounters) (calls rules.Calls, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	last, ok := w.calls[siteID]
	ok = ok && last.at <= now && now.Sub(last.at) <= callMemory
	if ok {
		accepted, refused := counters.since(last)
		calls = rules.Calls{
			Accepted: max(0, accepted-last.accepted), Refused: max(0, refused-last.refused), Since: last.at,
		}
	}

	if !ok || now.Sub(last.at) >= callSpan {
		next := callCount{at: now, month: now.Month(), day: now.Day()}
		next.accepted, next.refused = counters.since(next)
		w.calls[siteID] = next
	}
	return calls, ok
}

// forgetCalls deletes the counts that are too old, for example of deleted sites and those without a
// channel.
func (w *Watcher) forgetCalls(now model.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, count := range w.calls {
		if now.Sub(count.at) > callMemory {
			delete(w.calls, id)
		}
	}
}

// deliveries evaluates the rule of failed deliveries. Sites without a failed one have the usual
// figures.
func (w *Watcher) deliveries(
	ctx context.Context, some []*alerts.Site, now model.Instant, found map[model.AccountID]findings,
) error {
	rows, err := w.store.FinishedDeliveries(ctx, idsOf(some), now.Add(-rules.DeliveryDays*24*time.Hour), now)
	if err != nil {
		return err
	}

	worst := make(map[model.SiteID]rules.Finding)
	for _, row := range rows {
		finding := rules.DeliveriesFailed(rules.Deliveries{
			Failed: row.Failed, First: row.First, Newest: row.Newest, Delivered: row.Delivered, IsToday: row.IsToday,
		})
		if finding.Reading >= worst[row.SiteID].Reading {
			worst[row.SiteID] = finding
		}
	}
	for _, site := range some {
		finding, ok := worst[site.ID]
		if !ok {
			finding = rules.Finding{Reading: rules.Usual}
		}
		put(found, site, model.AlertDeliveriesFailed, finding)
	}
	return nil
}

// backupSubject is the subject of the alert of late backups. Those of tasks have the task's name.
const backupSubject = "backup"

// watchInstallation evaluates the rules of the installation: periodic tasks that fail, backups,
// quotas that are nearly used up, and TLS certificates.
func (w *Watcher) watchInstallation(ctx context.Context, now model.Instant) (changed int64, failed error) {
	w.forgetCalls(now)

	lasting, err := w.store.OpenOfInstallation(ctx)
	if err != nil {
		return 0, err
	}
	open := make(map[alertAbout]*model.Alert)
	for _, alert := range lasting {
		open[aboutOf(alert)] = alert
	}

	found := make(findings)
	runs, err := w.store.TaskRuns(ctx, now)
	if err != nil {
		return 0, err
	}
	for _, run := range runs {
		about := alertAbout{event: model.AlertJobsFailed, subject: run.Name}
		found[about] = rules.JobsFailed(rules.Task{Failures: run.Failures, Since: run.FirstFailedAt}, now)
	}
	last, failed := w.files.LastBackup(ctx)
	if failed == nil {
		found[alertAbout{event: model.AlertJobsFailed, subject: backupSubject}] = rules.BackupLate(last, now)
	}
	used, err := w.outbox.UsedQuotas(ctx, now.Month())
	if err == nil {
		found[alertAbout{event: model.AlertQuotasUsed}] = rules.QuotasUsed(len(used))
	}
	failed = errors.Join(failed, err)

	changed, err = w.certificateFindings(ctx, found, open, now)
	failed = errors.Join(failed, err)

	n, err := w.steps(ctx, 0, found, open, now)
	return changed + n, errors.Join(failed, err)
}

// certificateFindings evaluates the rule of the certificates of all hosts, also of other processes.
// It ends alerts about hosts that no process is configured with any more without a message, since
// their certificates were not renewed. It removes these from open, and returns their number.
func (w *Watcher) certificateFindings(
	ctx context.Context, found findings, open map[alertAbout]*model.Alert, now model.Instant,
) (int64, error) {
	hosts, err := w.certificates.Hosts(ctx, now)
	if err != nil {
		return 0, fmt.Errorf("read the states of certificates: %w", err)
	}
	for _, h := range hosts {
		subject := model.Clean(h.Host, model.MaxAlertSubject)
		found[alertAbout{event: model.AlertCertificateFailed, subject: subject}] = certificateFinding(h, now)
	}

	var removed []int64
	for about, alert := range open {
		if _, ok := found[about]; !ok && about.event == model.AlertCertificateFailed {
			removed = append(removed, alert.ID)
			delete(open, about)
		}
	}
	return w.store.EndUnwanted(ctx, removed, now)
}

// certificateFinding finds a certificate that is missing, or that renewals should have replaced.
func certificateFinding(h certificates.Host, now model.Instant) rules.Finding {
	if !h.IsLate(now.Time()) {
		return rules.Finding{Reading: rules.Usual}
	}
	return rules.Finding{Reading: rules.Unusual, Figures: model.AlertFigures{Since: h.ExpiresAt}}
}
