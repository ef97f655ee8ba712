package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
)

// measureTimeout bounds how long a scrape waits for the database. Prometheus waits for 10 s.
const measureTimeout = 5 * time.Second

// Measure registers the metrics of the worker. A scrape reads what waits in the database and in the
// queue; numbers that these do not return are left out, and the reason is logged.
func (w *Worker) Measure(r prometheus.Registerer) error {
	return errors.Join(w.queue.Measure(r), w.webhooks.Measure(r), w.mails.Measure(r), w.tasks.register(r),
		r.Register(stateCollector{w}))
}

// The metrics of stateCollector.
var (
	differenceDesc = prometheus.NewDesc("tallygate_clock_difference_seconds",
		"This process's clock less the database's; over 60 in either direction nothing is deleted.", nil, nil)
	jumpDesc = prometheus.NewDesc("tallygate_clock_jump_seconds",
		"By how much the database's clock jumped, while it is not trusted for that.", nil, nil)
	heldDesc = prometheus.NewDesc("tallygate_deletions_held",
		"1 while nothing is deleted because the time is not certain.", nil, nil)
	deliveriesDesc = prometheus.NewDesc("tallygate_deliveries",
		"Deliveries that wait, and those of them that are due; at most 100,000 of each cell are counted.", []string{"state"}, nil)
	oldestDesc = prometheus.NewDesc("tallygate_oldest_due_delivery_seconds",
		"For how long the longest due delivery has been due.", nil, nil)
	quotasDesc = prometheus.NewDesc("tallygate_quotas_nearly_used",
		"Quotas of the month, of sites and of captchas, that are used to 80 % or more; at most 1,000 are counted.", nil, nil)
	mailsDesc = prometheus.NewDesc("tallygate_mails_due", "Mails that are due and not yet sent or given up.", nil, nil)

	reportDaysDesc = prometheus.NewDesc("tallygate_report_segments_due",
		"Report segments that are to be built or merged now, each of a day of a site; at most 100,000 of each cell are counted.", nil, nil)
	oldestReportDesc = prometheus.NewDesc("tallygate_oldest_due_report_seconds",
		"For how long the longest due report segment has been due.", nil, nil)
)

// stateCollector reads the clocks and what waits in the database when it is scraped.
type stateCollector struct{ *Worker }

// Describe implements prometheus.Collector.
func (c stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{differenceDesc, jumpDesc, heldDesc, deliveriesDesc, oldestDesc, quotasDesc, mailsDesc,
		reportDaysDesc, oldestReportDesc} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), measureTimeout)
	defer cancel()

	now, err := c.clock.Now(ctx)
	c.clock.collect(out)

	if err == nil {
		err = errors.Join(c.collectDeliveries(ctx, now, out), c.collectMails(ctx, now, out), c.collectQuotas(ctx, now, out),
			c.collectReports(ctx, now, out))
	}
	if err != nil {
		c.queue.LogError("measure what waits in the database", err)
	}
}

// collect writes the state of the clocks, as of the last comparison.
func (c *clock) collect(out chan<- prometheus.Metric) {
	state := c.current()

	jumped, held := 0.0, 0.0
	if state.jump != nil {
		jumped = state.jump.By().Seconds()
	}
	if state.warning() != "" {
		held = 1
	}

	out <- gauge(differenceDesc, state.difference.Seconds())
	out <- gauge(jumpDesc, jumped)
	out <- gauge(heldDesc, held)
}

func (w *Worker) collectDeliveries(ctx context.Context, now model.Instant, out chan<- prometheus.Metric) error {
	backlog, err := w.webhooks.Backlog(ctx, now)
	if err != nil {
		return err
	}

	out <- gauge(deliveriesDesc, float64(backlog.Pending), "pending")
	out <- gauge(deliveriesDesc, float64(backlog.Due), "due")
	out <- gauge(oldestDesc, secondsSince(now, backlog.Oldest))
	return nil
}

func (w *Worker) collectMails(ctx context.Context, now model.Instant, out chan<- prometheus.Metric) error {
	due, err := w.outbox.DueMailCount(ctx, now)
	if err != nil {
		return err
	}

	out <- gauge(mailsDesc, float64(due))
	return nil
}

func (w *Worker) collectQuotas(ctx context.Context, now model.Instant, out chan<- prometheus.Metric) error {
	used, err := w.outbox.UsedQuotas(ctx, now.Month())
	if err != nil {
		return err
	}

	out <- gauge(quotasDesc, float64(len(used)))
	return nil
}

func (w *Worker) collectReports(ctx context.Context, now model.Instant, out chan<- prometheus.Metric) error {
	due, err := w.reports.Due(ctx, now)
	if err != nil {
		return err
	}

	out <- gauge(reportDaysDesc, float64(due.Days))
	out <- gauge(oldestReportDesc, secondsSince(now, due.Oldest))
	return nil
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// secondsSince returns the seconds from at to now, and 0 if at is 0.
func secondsSince(now, at model.Instant) float64 {
	if at == 0 {
		return 0
	}
	return now.Sub(at).Seconds()
}

// taskMetrics count and time the periodic tasks that this process runs.
type taskMetrics struct {
	runs      *prometheus.CounterVec
	durations *prometheus.HistogramVec
	succeeded *prometheus.GaugeVec

	days, months, lost prometheus.Counter // see reports.Built
}

func newTaskMetrics() *taskMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}

	return &taskMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tallygate_task_runs_total",
			Help: "Runs of periodic tasks by this process, by outcome: ok or error.",
		}, []string{"task", "outcome"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tallygate_task_duration_seconds",
			Help:    "Duration of runs of periodic tasks by this process.",
			Buckets: []float64{0.01, 0.1, 1, 10, 60, 300, 600},
		}, []string{"task"}),
		succeeded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tallygate_task_last_success_timestamp_seconds",
			Help: "When a periodic task last succeeded in this process, on its own clock.",
		}, []string{"task"}),

		days:   counter("tallygate_report_segments_built_total", "Report segments that this process has built, each of a day of a site."),
		months: counter("tallygate_report_segments_merged_total", "Months of sites whose report segments this process has merged."),
		lost: counter("tallygate_report_lost_rows_total",
			"Page views and events without a visit, which no report counts, among the rows of built segments."),
	}
}

func (m *taskMetrics) register(r prometheus.Registerer) error {
	var failed error
	for _, c := range []prometheus.Collector{m.runs, m.durations, m.succeeded, m.days, m.months, m.lost} {
		failed = errors.Join(failed, r.Register(c))
	}
	return failed
}

// built counts what one run has done for reports.
func (m *taskMetrics) built(b reports.Built) {
	m.days.Add(float64(b.Days))
	m.months.Add(float64(b.Months))
	m.lost.Add(float64(b.Lost))
}

// measured returns a task that counts and times its runs.
func (m *taskMetrics) measured(name string, run func(context.Context) error) func(context.Context) error {
	ok, failed := m.runs.WithLabelValues(name, "ok"), m.runs.WithLabelValues(name, "error")
	duration, succeeded := m.durations.WithLabelValues(name), m.succeeded.WithLabelValues(name)

	return func(ctx context.Context) error {
		began := time.Now()
		err := run(ctx)
		duration.Observe(time.Since(began).Seconds())

		if err != nil {
			failed.Inc()
			return err
		}

		ok.Inc()
		succeeded.SetToCurrentTime()
		return nil
	}
}
