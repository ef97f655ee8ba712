package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/version"
	"github.com/tallygate/tallygate/db/damage"
	"github.com/tallygate/tallygate/web"
)

// maxScrapes is how many scrapes may read the metrics at once; further ones get 503.
const maxScrapes = 3

// openMetrics registers the metrics of all opened parts and opens the listener of /metrics, which
// is separate from the public ones.
func (a *App) openMetrics() error {
	if err := a.measure(a.registerer); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if a.config.MetricsAddr == "" {
		return nil
	}

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.gatherer(), promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
	}))

	var err error
	a.metrics, err = a.openPrivate("metrics", a.config.MetricsAddr, mux)
	return err
}

// openHealth opens the listener for health checks alone.
func (a *App) openHealth() (err error) {
	if a.config.HealthAddr != "" {
		a.health, err = a.openPrivate("health", a.config.HealthAddr, http.NewServeMux())
	}
	return err
}

// openPrivate opens a listener that is not for the public. It serves the mux and health checks.
func (a *App) openPrivate(name string, addr config.Address, mux *http.ServeMux) (*server, error) {
	var origin config.Origin
	s, err := listen(name, string(addr), &origin)
	if err != nil {
		return nil, err
	}

	a.serveHealth(mux)
	s.Handler = web.Recover(a.log, mux)
	return s, nil
}

// measure registers the metrics of all roles of this process. Those of GraphQL are registered where
// its server is made.
func (a *App) measure(r prometheus.Registerer) error {
	err := errors.Join(
		r.Register(collectors.NewGoCollector()),
		r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		a.measureProcess(r), a.requests.Register(r), a.db.Measure(r),
		r.Register(&storageCollector{App: a}), r.Register(a.certificates),
	)

	if a.child != nil {
		err = errors.Join(err, a.measureChild(r))
	}
	if a.acme != nil {
		err = errors.Join(err, r.Register(a.acme))
	}
	if a.analytics != nil {
		err = errors.Join(err, a.analytics.Measure(r), a.captcha.Measure(r), r.Register(fileCollector{&a.files}))
	}

	// The worker has the same metric, with the clock that it decides by.
	if a.jobs != nil {
		return errors.Join(err, a.jobs.Measure(r))
	}
	return errors.Join(err, r.Register(clockCollector{a}))
}

// measureProcess registers what describes the process.
func (a *App) measureProcess(r prometheus.Registerer) error {
	running := version.Read()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tallygate_build_info",
		Help: "Always 1: the version and the commit of the program, the version of Go, and the kind of the database.",
		ConstLabels: prometheus.Labels{
			"version": running.Version, "commit": running.Commit, "go_version": running.Go, "database": a.db.Dialect(),
		},
	})
	build.Set(1)

	roles := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tallygate_role", Help: "1 for each role of this process: control, data or worker.",
	}, []string{"role"})
	for _, role := range a.config.Roles {
		roles.WithLabelValues(string(role)).Set(1)
	}

	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tallygate_ready", Help: "1 if /readyz answers with 200, else 0.",
	}, func() float64 {
		if a.notReady() != nil {
			return 0
		}
		return 1
	})

	damaged := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tallygate_database_damaged",
		Help: "1 if the database has reported damaged data to this process since its start, else 0.",
	}, func() float64 {
		if damage.First() != nil {
			return 1
		}
		return 0
	})

	warnings := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tallygate_warnings", Help: "How many warnings /readyz shows.",
	}, func() float64 { return float64(len(a.findings())) })

	return errors.Join(r.Register(build), r.Register(roles), r.Register(ready), r.Register(damaged), r.Register(warnings))
}

// observer returns what observes the requests of a role's listener.
func (a *App) observer(role config.Role) *web.Observer {
	return &web.Observer{Role: string(role), Metrics: a.requests, Access: a.access}
}

// clockTimeout bounds the comparison of the clocks in a scrape.
const clockTimeout = 3 * time.Second

var clockDesc = prometheus.NewDesc("tallygate_clock_difference_seconds",
	"This process's clock less the database's; over 60 in either direction nothing is deleted.", nil, nil)

// clockCollector compares this process's clock with the database's when it is scraped.
type clockCollector struct{ *App }

// Describe implements prometheus.Collector.
func (clockCollector) Describe(out chan<- *prometheus.Desc) { out <- clockDesc }

// Collect implements prometheus.Collector. Without the database there is no value; tallygate_ready
// reports that.
func (c clockCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), clockTimeout)
	defer cancel()

	if _, ahead, err := c.db.CompareClock(ctx, time.Now); err == nil {
		out <- prometheus.MustNewConstMetric(clockDesc, prometheus.GaugeValue, ahead.Seconds())
	}
}
