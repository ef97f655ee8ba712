package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// watch returns the cost of do. The service is either the given process or this one.
func (m *reportsMeasurer) watch(ctx context.Context, service int, do func() error) (process.Cost, error) {
	others, err := m.in.DatabasePids(ctx)
	if err != nil {
		return process.Cost{}, err
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

	err = do()
	stop()
	return <-costs, err
}

// prepare fills the site and builds its reports, with the two steps of the worker's task.
func (m *reportsMeasurer) prepare(ctx context.Context, d *db.DB) error {
	siteID, err := siteOf(ctx, d, m.siteID)
	if err != nil {
		return err
	}

	began := time.Now()
	y := newYear(siteID, m.rows(), m.Days, model.At(began))
	if m.pageviews, err = y.fill(ctx, d, m.progress); err != nil {
		return err
	}
	m.all.Add(fillTime, time.Since(began).Seconds())

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
	m.all.Add(buildTime, time.Since(began).Seconds())
	m.all.Add(buildCPU, (cost.CPU + cost.OtherCPU).Seconds())
	fmt.Fprintf(m.progress, "built the reports in %.0f s, %.1f s of processor time\n", m.all.Get(buildTime), m.all.Get(buildCPU))

	if err := m.buildDay(ctx, d, store, siteID); err != nil {
		return err
	}
	stored, err := store.StoredBytes(ctx, model.SiteID(siteID))
	if err != nil {
		return err
	}
	m.all.Add(segmentBytes, float64(stored))

	// Statistics and log as after a while of service.
	return bulk.Fill(ctx, d, func() error { return nil })
}

// buildDay measures the processor time of building yesterday, which is built again each hour.
func (m *reportsMeasurer) buildDay(ctx context.Context, d *db.DB, store *reports.Store, siteID int64) error {
	const times = 10
	yesterday := model.At(time.Now()).Day() - 1
	views, err := store.DayPageviews(ctx, model.SiteID(siteID), yesterday)
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
			if err := d.InSiteTx(ctx, model.SiteID(siteID), func(ctx context.Context, tx *db.CellTx) error {
				return reports.Invalidate(ctx, tx, model.SiteID(siteID), now, yesterday)
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
	m.all.Add(dayCPU, report.Milliseconds(cost.CPU+cost.OtherCPU)/times*30_000/float64(views))
	fmt.Fprintf(m.progress, "a day of 30000 page views takes %.0f ms of processor time\n", m.all.Get(dayCPU))
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
	all := map[string]any{"id": m.siteID, "filters": []any{}, "period": lastDays(days)}
	maps.Copy(all, variables)
	return m.figures(ctx, document, all)
}

// warm restarts the server, which resets the rate limit, and lets it read today's rows and open its
// connections.
func (m *reportsMeasurer) warm(ctx context.Context) error {
	if err := m.in.Server.RestartAs(ctx, "control,data"); err != nil {
		return err
	}
	for range 2 {
		if err := m.ask(ctx, m.document, 1, nil); err != nil {
			return err
		}
	}
	return nil
}

// period measures all variants of the dashboard in a period.
func (m *reportsMeasurer) period(ctx context.Context, days int) error {
	p := m.outcome.Case("engine", m.engine, "pageviews", m.pageviews, "days", m.Days, "period", days)
	for _, v := range reportVariants {
		if err := m.variant(ctx, p, days, v); err != nil {
			return fmt.Errorf("%d days, %s: %w", days, v.name, err)
		}
	}
	if goal := reportGoal(m.pageviews/max(m.Days, 1), days); goal > 0 {
		p.Add(goalMs, goal)
		p.Add(ofGoal, p.Get(report.P95)/goal)
	}
	return nil
}

// variant measures one variant of the dashboard. Each one is counted: the service has no answer to
// it. Today's rows stay in memory for seconds.
func (m *reportsMeasurer) variant(ctx context.Context, p *report.Case, days int, v reportVariant) error {
	var h load.Histogram
	var spent time.Duration
	for h.Count() < int64(m.Rounds) {
		if err := m.warm(ctx); err != nil {
			return err
		}

		before := h.Count()
		cost, err := m.watch(ctx, m.in.Server.Pid(), func() error {
			for h.Count() < int64(m.Rounds) {
				began := time.Now()
				if err := m.askUncached(ctx, days, v.variables); err != nil {
					return err
				}
				h.Add(time.Since(began))
			}
			return nil
		})

		// The rate limit ends a batch of the most expensive reports.
		if err != nil && (!target.IsRateLimited(err) || h.Count() == before) {
			return err
		}
		spent += cost.CPU + cost.OtherCPU
		m.all.Worst(report.Memory, float64(cost.PeakMemory))
	}

	median, p95 := report.Milliseconds(h.Quantile(0.5)), report.Milliseconds(h.Quantile(0.95))
	cpu := report.Milliseconds(spent) / float64(h.Count())
	p.Add(unitOf(v.name, report.P50), median)
	p.Add(unitOf(v.name, report.P95), p95)
	p.Add(unitOf(v.name, dashboardCPU), cpu)
	fmt.Fprintf(m.progress, "%d days, %s: median %.0f ms, p95 %.0f ms, processor %.0f ms\n", days, v.name, median, p95, cpu)
	return nil
}

// collect measures the rate of another site's hits without and with dashboards of 30 days, in turn.
func (m *reportsMeasurer) collect(ctx context.Context) error {
	for range collectRounds {
		without, _, err := m.collectOnce(ctx, false)
		if err != nil {
			return err
		}
		with, answered, err := m.collectOnce(ctx, true)
		if err != nil {
			return err
		}
		m.all.Add(collected, with/without)
		m.all.Add(collectRate, without)
		m.all.Add(dashboards, answered)
		fmt.Fprintf(m.progress, "%.0f hits/s, %.0f with %.1f dashboards/s\n", without, with, answered)
	}
	return m.journal.Close()
}

// collectOnce returns the hits and the dashboards answered in a second.
func (m *reportsMeasurer) collectOnce(ctx context.Context, dashboards bool) (hits, answered float64, err error) {
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

	l := load.Load{Connections: collectConnections, Duration: m.Duration, MinAnswers: load.MinAnswers}
	began := time.Now()
	result := m.phase(ctx, l, "pageviews")
	elapsed := time.Since(began).Seconds()
	stop()
	group.Wait()

	if err := errors.Join(m.enough(ctx, result), askErr); err != nil {
		return 0, 0, err
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
			err := m.ask(ctx, m.document, min(30, m.Days), nil)

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
