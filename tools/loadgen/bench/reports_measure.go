package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// reportsMeasurer measures one engine.
type reportsMeasurer struct {
	command  *ReportsCommand
	instance *instance.Instance
	session  *traffic.Session
	report   *ReportsReport
	document string
	uncached string // see uncachedDocument
	asked    int    // uncached documents
	siteID   string // of the filled site
	progress io.Writer
}

// watch returns the cost of do. The service is either the given process or this one.
func (m *reportsMeasurer) watch(ctx context.Context, service int, do func() error) (process.Cost, error) {
	var others []int
	if m.instance.Postgres != nil {
		others = append(others, m.instance.Postgres.Pid())
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	costs := make(chan process.Cost)
	begun := make(chan struct{})
	go func() {
		close(begun)
		costs <- process.Watch(ctx, service, others)
	}()
	<-begun

	err := do()
	stop()
	return <-costs, err
}

// prepare fills the site and builds its reports, with the two steps of the worker's task.
func (m *reportsMeasurer) prepare(ctx context.Context, d *db.DB) error {
	r := m.report
	ids, err := keys.New(d).NodeIDs(ctx)
	if err != nil {
		return err
	}
	siteID, ok := ids.Parse(model.NodeSite, m.siteID)
	if !ok {
		return fmt.Errorf("%q is not a site's id", m.siteID)
	}

	began := time.Now()
	y := newYear(siteID, m.command.rows(), m.command.Days, model.At(began))
	if r.Pageviews, err = y.fill(ctx, d, m.progress); err != nil {
		return err
	}
	r.FillSeconds = time.Since(began).Seconds()

	store := reports.New(d)
	began = time.Now()
	cost, err := m.watch(ctx, os.Getpid(), func() error {
		if _, err := store.Plan(ctx, model.At(time.Now())); err != nil {
			return err
		}
		_, err := store.BuildDue(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r.BuildSeconds, r.BuildCPU = time.Since(began).Seconds(), (cost.CPU + cost.OtherCPU).Seconds()
	fmt.Fprintf(m.progress, "built the reports in %.0f s, %.1f s of processor time\n", r.BuildSeconds, r.BuildCPU)

	if err := m.buildDay(ctx, d, store, siteID); err != nil {
		return err
	}
	if r.SegmentBytes, err = store.StoredBytes(ctx, siteID); err != nil {
		return err
	}

	// Statistics and log as after a while of service.
	return bulk.Fill(ctx, d, func() error { return nil })
}

// buildDay measures the processor time of building yesterday, which is built again each hour.
func (m *reportsMeasurer) buildDay(ctx context.Context, d *db.DB, store *reports.Store, siteID int64) error {
	const times = 10
	yesterday := model.At(time.Now()).Day() - 1
	views, err := store.DayPageviews(ctx, siteID, yesterday)
	if err != nil {
		return err
	}
	if views == 0 {
		return errors.New("yesterday has no report")
	}

	cost, err := m.watch(ctx, os.Getpid(), func() error {
		for range times {
			now, err := d.Now(ctx)
			if err != nil {
				return err
			}
			if err := d.InSiteTx(ctx, siteID, func(ctx context.Context, tx *db.CellTx) error {
				return reports.Invalidate(ctx, tx, siteID, now, yesterday)
			}); err != nil {
				return err
			}

			built, err := store.BuildDue(ctx)
			if err != nil {
				return err
			}
			if built.Days != 1 {
				return fmt.Errorf("built %d days instead of yesterday", built.Days)
			}
		}
		return nil
	})
	m.report.DayCPU = report.Milliseconds(cost.CPU+cost.OtherCPU) / times * 30_000 / float64(views)
	fmt.Fprintf(m.progress, "a day of 30000 page views takes %.0f ms of processor time\n", m.report.DayCPU)
	return err
}

// uncachedDocument returns the document with another field. The field's argument makes each report
// unique, because the service keeps answers for seconds. The field lists the properties of an
// unknown event, which costs next to nothing.
func uncachedDocument(document string) (string, error) {
	const variable, field = "$period: ReportPeriod!", "asOf\n"
	if strings.Count(document, variable) != 1 || strings.Count(document, field) != 1 {
		return "", fmt.Errorf("the document does not have %q and %q once", variable, field)
	}
	document = strings.Replace(document, variable, variable+", $unknown: String", 1)
	return strings.Replace(document, field, "asOf propertyNames(event: $unknown) { name }\n", 1), nil
}

// askUncached asks for a dashboard that the service has not answered before.
func (m *reportsMeasurer) askUncached(ctx context.Context, days int, variables map[string]any) error {
	m.asked++
	all := map[string]any{"unknown": fmt.Sprintf("unknown-%d", m.asked)}
	maps.Copy(all, variables)
	return m.ask(ctx, m.uncached, days, all)
}

// ask asks for a dashboard, which must have figures.
func (m *reportsMeasurer) ask(ctx context.Context, document string, days int, variables map[string]any) error {
	today := time.Now().UTC()
	all := map[string]any{
		"id": m.siteID, "filters": []any{},
		"period": map[string]any{
			"from": today.AddDate(0, 0, 1-days).Format(time.DateOnly), "to": today.Format(time.DateOnly),
		},
	}
	for name, value := range variables {
		all[name] = value
	}

	var data struct {
		Site struct {
			Report struct{ Totals struct{ Pageviews int64 } }
		}
	}
	if err := m.session.Account.Ask(ctx, document, all, &data); err != nil {
		return err
	}
	if data.Site.Report.Totals.Pageviews == 0 {
		return errors.New("the dashboard has no figures")
	}
	return nil
}

// warm restarts the server, which resets the rate limit, and lets it read today's rows and open its
// connections.
func (m *reportsMeasurer) warm(ctx context.Context) error {
	if err := m.instance.Server.Restart(ctx, "control,data"); err != nil {
		return err
	}
	for range 2 {
		if err := m.ask(ctx, m.document, 1, nil); err != nil {
			return err
		}
	}
	return nil
}

// period measures one case of the dashboard. Each one is counted: the service has no answer to it.
// Today's rows stay in memory for seconds.
func (m *reportsMeasurer) period(ctx context.Context, days, number int) error {
	var h load.Histogram
	var spent time.Duration
	one := reportCases[number]

	for h.Count() < int64(m.command.Rounds) {
		if err := m.warm(ctx); err != nil {
			return err
		}

		before := h.Count()
		cost, err := m.watch(ctx, m.instance.Server.Pid(), func() error {
			for h.Count() < int64(m.command.Rounds) {
				began := time.Now()
				if err := m.askUncached(ctx, days, one.variables); err != nil {
					return err
				}
				h.Add(time.Since(began))
			}
			return nil
		})

		// The rate limit ends a batch of the most expensive reports.
		if err != nil && (!target.IsRateLimited(err) || h.Count() == before) {
			return fmt.Errorf("%d days, %s: %w", days, one.name, err)
		}
		spent += cost.CPU + cost.OtherCPU
		m.report.PeakMemory = max(m.report.PeakMemory, cost.PeakMemory)
	}

	p := ReportPeriod{
		Days: days, Case: one.name, Median: report.Milliseconds(h.Quantile(0.5)), P95: report.Milliseconds(h.Quantile(0.95)),
		CPU: report.Milliseconds(spent) / float64(h.Count()),
	}
	m.report.Periods = append(m.report.Periods, p)
	fmt.Fprintf(m.progress, "%d days, %s: median %.0f ms, p95 %.0f ms, processor %.0f ms\n", days, p.Case, p.Median, p.P95, p.CPU)
	return nil
}

// collect measures the rate of another site's hits without and with dashboards of 30 days, in turn.
func (m *reportsMeasurer) collect(ctx context.Context) error {
	journal, err := m.session.Begin(ctx, filepath.Join(m.instance.Dir, "journal"))
	if err != nil {
		return err
	}

	var ratios, rates, answered []float64
	for range collectRounds {
		without, _, err := m.collectOnce(ctx, journal, false)
		if err != nil {
			return err
		}
		with, dashboards, err := m.collectOnce(ctx, journal, true)
		if err != nil {
			return err
		}
		ratios, rates, answered = append(ratios, with/without), append(rates, without), append(answered, dashboards)
		fmt.Fprintf(m.progress, "%.0f hits/s, %.0f with %.1f dashboards/s\n", without, with, dashboards)
	}

	r := m.report
	r.Collect, r.CollectRate, r.Dashboards = report.Median(ratios), report.Median(rates), report.Median(answered)
	return journal.Close()
}

// collectOnce returns the hits and the dashboards answered in a second.
func (m *reportsMeasurer) collectOnce(
	ctx context.Context, journal *traffic.Journal, dashboards bool,
) (hits, answered float64, err error) {
	if err := m.warm(ctx); err != nil {
		return 0, 0, err
	}

	asking, stop := context.WithCancel(ctx)
	defer stop()
	var asked int
	var askErr error
	var group sync.WaitGroup
	if dashboards {
		group.Go(func() { asked, askErr = m.keepAsking(asking) })
	}

	l := load.Load{Connections: collectConnections, Duration: m.command.Duration, MinAnswers: load.MinAnswers}
	began := time.Now()
	result := m.session.Phase(ctx, journal, l, m.session.Traffic.Mix)
	elapsed := time.Since(began).Seconds()
	stop()
	group.Wait()

	if err := errors.Join(result.Enough(), askErr); err != nil {
		return 0, 0, fmt.Errorf("%w; the server's log:\n%s", err, m.instance.Server.Logged())
	}
	return result.Throughput(), float64(asked) / elapsed, nil
}

// keepAsking asks for one dashboard each 100 ms until ctx ends, and returns how many were answered.
// Up to four are in flight. It skips a dashboard that is due while four are in flight.
func (m *reportsMeasurer) keepAsking(ctx context.Context) (answered int, failed error) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()

	slots := make(chan struct{}, 4)
	var mu sync.Mutex
	var group sync.WaitGroup
	defer group.Wait()

	for {
		select {
		case <-ctx.Done():
			group.Wait()
			return answered, failed
		case <-ticker.C:
		}

		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		group.Go(func() {
			defer func() { <-slots }()
			err := m.ask(ctx, m.document, min(30, m.command.Days), nil)

			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answered++
			} else if ctx.Err() == nil {
				failed = err
			}
		})
	}
}
