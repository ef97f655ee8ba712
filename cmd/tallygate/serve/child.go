package serve

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/cmd/tallygate/background"
	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// childMargin is what the end of a child may take beyond the drain of its requests and jobs.
const childMargin = 5 * time.Second

// processLabel is the label of metrics that names the process, if there are two.
const processLabel = "process"

// openChild prepares the child, whose settings get the origins that derive from listeners.
func (a *App) openChild(settings *config.Config) {
	for _, c := range []*config.Config{settings, a.whole} {
		c.AnalyticsURL, c.CaptchaURL = a.config.AnalyticsURL, a.config.CaptchaURL
	}
	a.child = background.New(settings, settings.DrainDelay+drainTimeout+childMargin, a.log)
	a.warn(a.child.Warning)
}

// labelMetrics returns where this process registers its metrics. Those of two processes on one page need
// a label.
func (a *App) labelMetrics() prometheus.Registerer {
	name := ""
	switch {
	case a.parent != nil:
		name = background.Command
	case a.whole.Splits():
		name = string(config.RoleData)
	default:
		return a.registry
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{processLabel: name}, a.registry)
}

// runChild runs the child until ctx ends, or until stop is called, which waits for it. An error of its
// first start goes to failed. Without a child all roles serve already.
func (a *App) runChild(ctx context.Context, failed chan<- error) (stop func() error) {
	if a.child == nil {
		a.ready()
		return func() error { return nil }
	}

	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		err = a.child.Run(ctx, a.ready)
		if ctx.Err() == nil {
			failed <- err
			err = nil
		}
	})

	return func() error {
		cancel()
		wg.Wait()
		return err
	}
}

// forward returns a handler that passes requests on to a listener of the child, with the client's
// address.
func (a *App) forward(role config.Role) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", loopbackAddr(a.child.Addr(string(role)))
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // its messages contain the client's address
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Retry-After", "1")
			graphQLError(w, http.StatusServiceUnavailable, "unavailable", "The service starts again. Try again in a second.")
		},
	}
}

// loopbackAddr returns the address at which this machine reaches a listener.
func loopbackAddr(listener string) string {
	host, port, err := net.SplitHostPort(listener)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return listener
}

// gatherer returns the metrics of this process and its child.
func (a *App) gatherer() prometheus.Gatherer {
	if a.child == nil {
		return a.registry
	}
	return prometheus.Gatherers{a.registry, a.child}
}

// measureChild registers what describes the child.
func (a *App) measureChild(r prometheus.Registerer) error {
	serves := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tallygate_background_process_ready", Help: "1 while the background process serves, else 0.",
	}, func() float64 {
		if a.child.Warning() != "" {
			return 0
		}
		return 1
	})
	ends := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tallygate_background_process_ends_total", Help: "How often the background process has ended.",
	}, func() float64 { return float64(a.child.Ends()) })

	return errors.Join(r.Register(serves), r.Register(ends))
}
