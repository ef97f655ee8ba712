package web

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests are the metrics of the requests of all listeners.
type Requests struct {
	total     *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// NewRequests returns metrics that count nothing yet.
func NewRequests() *Requests {
	return &Requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tallygate_http_requests_total",
			Help: "Requests by role, route and status. The route is a pattern, or other for unknown paths; the status is " +
				"aborted for an answer that was cut off.",
		}, []string{"role", "route", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tallygate_http_request_duration_seconds",
			Help:    "Duration of requests, from the end of their header to the end of the answer.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, []string{"role", "route"}),
	}
}

// Register registers the metrics.
func (m *Requests) Register(r prometheus.Registerer) error {
	if err := r.Register(m.total); err != nil {
		return err
	}
	return r.Register(m.durations)
}

// Observer counts and times the requests of one listener and, with an access log, logs them. It
// never records what could identify a person: no address, header, path, query or body.
type Observer struct {
	Role    string
	Metrics *Requests
	Access  *slog.Logger // of the access log; nil: none

	routes sync.Map // pattern to *route
}

// route are the metrics of a route, resolved once.
type route struct {
	name     string
	duration prometheus.Observer
	aborted  prometheus.Counter
	statuses [maxStatus]atomic.Pointer[prometheus.Counter] // by status; nil until the first request
}

const (
	maxStatus = 600

	// otherRoute names requests that no pattern but "/" matches.
	otherRoute = "other"
)

// Handler observes the requests that next serves. next must set the request's Pattern, as
// http.ServeMux does, to one of a bounded set.
func (o *Observer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, done := time.Now(), false
		answer := newResponse(w)

		defer func() {
			// A handler aborts its answer with a panic.
			if !done {
				answer.status = 0
			}

			o.count(r, answer, time.Since(began))
			answer.free()
		}()

		next.ServeHTTP(answer, r)
		answer.ended()
		done = true
	})
}

// count counts, times and logs a request.
func (o *Observer) count(r *http.Request, w *response, took time.Duration) {
	route := o.routeOf(r.Pattern)
	route.duration.Observe(took.Seconds())
	o.counter(route, w.status).Inc()

	if o.Access != nil {
		o.Access.LogAttrs(context.Background(), slog.LevelInfo, "request",
			slog.String("role", o.Role), slog.String("method", method(r)), slog.String("route", route.name),
			slog.Int("status", w.status), slog.Int64("bytes", w.bytes), slog.Float64("seconds", took.Seconds()))
	}
}

// routeOf returns the route of a pattern.
func (o *Observer) routeOf(pattern string) *route {
	if known, ok := o.routes.Load(pattern); ok {
		return known.(*route)
	}

	// A pattern may begin with a method.
	name := pattern
	if _, path, ok := strings.Cut(pattern, " "); ok {
		name = path
	}
	if name == "" || name == "/" {
		name = otherRoute
	}

	added, _ := o.routes.LoadOrStore(pattern, &route{
		name:     name,
		duration: o.Metrics.durations.WithLabelValues(o.Role, name),
		aborted:  o.Metrics.total.WithLabelValues(o.Role, name, "aborted"),
	})
	return added.(*route)
}

// counter returns the counter of a route's status, where 0 is an aborted answer.
func (o *Observer) counter(route *route, status int) prometheus.Counter {
	if status <= 0 || status >= maxStatus {
		return route.aborted
	}
	if known := route.statuses[status].Load(); known != nil {
		return *known
	}

	counter := o.Metrics.total.WithLabelValues(o.Role, route.name, strconv.Itoa(status))
	route.statuses[status].Store(&counter)
	return counter
}

// method returns the method of a request, or OTHER for one that a client made up.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return r.Method
	}
	return "OTHER"
}
