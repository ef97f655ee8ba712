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

// openChild prepares the child. Its settings get the origins that derive from listeners.
func (a *App) openChild(settings *config.Config) {
	for _, c := range []*config.Config{settings, a.whole} {
		c.AnalyticsURL, c.CaptchaURL = a.config.AnalyticsURL, a.config.CaptchaURL
	}
	a.child = background.New(settings, settings.DrainDelay+drainTimeout+childMargin, a.log)
}

// labelMetrics returns where this process registers its metrics. The metrics of a child get a
// label, because the parent's page shows them next to its own.
func (a *App) labelMetrics() prometheus.Registerer {
	if a.parent == nil {
		return a.registry
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"process": background.Command}, a.registry)
}

// runChild runs the child until stop is called, or until ctx ends if no requests for the child come
// through this process. ended waits for the child and returns its error. An error of its first
// start goes to failed. Without a child all roles serve already.
func (a *App) runChild(ctx context.Context, failed chan<- error) (stop func(), ended func() error) {
	if a.child == nil {
		a.ready()
		return func() {}, func() error { return nil }
	}

	if a.secure != nil {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		for {
			select {
			case <-a.child.Changed():
				a.db.ReadChanges()
			case <-ctx.Done():
				return
			}
		}
	})
	wg.Go(func() {
		err = a.child.Run(ctx, a.ready)
		if ctx.Err() == nil {
			failed <- err
			err = nil
		}
	})

	return cancel, func() error {
		wg.Wait()
		return err
	}
}

// forward returns a handler that passes requests on to a listener of the child, with the client's
// address.
func (a *App) forward(role config.Role) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{
			// The child closes idle connections later, so no request meets a connection that
			// closes.
			IdleConnTimeout: idleTimeout / 2, MaxIdleConnsPerHost: 64, DisableCompression: true,
		},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", loopbackAddr(a.child.Addr(string(role)))
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // its messages contain the client's address
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Retry-After", "1")
			graphQLError(w, http.StatusServiceUnavailable, "unavailable", "The service is restarting. Try again in a second.")
		},
	}

	return a.leaving(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The child's listener has the deadlines, which downloads and uploads extend there.
		deadlines := http.NewResponseController(w)
		_ = errors.Join(deadlines.SetReadDeadline(time.Time{}), deadlines.SetWriteDeadline(time.Time{}))
		proxy.ServeHTTP(w, r)
	}))
}

// loopbackAddr returns the address at which this machine reaches a listener. A listener of all
// addresses accepts IPv4 on each system; a name could lead to another program's listener.
func loopbackAddr(listener string) string {
	host, port, err := net.SplitHostPort(listener)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
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

// measureChild registers metrics about the child.
func (a *App) measureChild(r prometheus.Registerer) error {
	serves := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tallygate_background_process_ready", Help: "1 while the background process serves, else 0.",
	}, func() float64 {
		if a.child.Serves() {
			return 1
		}
		return 0
	})
	ends := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tallygate_background_process_ends_total", Help: "How often the background process has ended.",
	}, func() float64 { return float64(a.child.Ends()) })

	return errors.Join(r.Register(serves), r.Register(ends))
}
