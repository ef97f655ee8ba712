package analytics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db/model"
)

// outcomeAccepted counts calls that were answered with success and not ignored.
const outcomeAccepted = "accepted"

// outcomes are all outcomes of a call: accepted, the reasons to ignore it, and the codes of errors.
var outcomes = []string{
	outcomeAccepted, ignoredBot, ignoredAddress, ignoredFlood, ignoredServerFlood, ignoredTransaction, ignoredPageview, ignoredOwnLink,
	errMethod.Code, errBadJSON.Code, errBadBody.Code, errBadPath.Code, errVisitorRequired.Code, errMissingSecret.Code,
	errInvalidSecret.Code, errDomain.Code, errUnknownSite.Code, errQuota.Code, event.ErrUnknown.Code, event.ErrBad.Code,
	codeUnavailable,
}

// calls counts the calls of an endpoint. The counters are resolved once, so that counting is one
// atomic addition.
type calls struct {
	accepted prometheus.Counter
	others   map[string]prometheus.Counter // by outcome; never changed
}

func newCalls(vec *prometheus.CounterVec, endpoint string) calls {
	c := calls{others: make(map[string]prometheus.Counter, len(outcomes))}
	for _, outcome := range outcomes {
		c.others[outcome] = vec.WithLabelValues(endpoint, outcome)
	}

	c.accepted = c.others[outcomeAccepted]
	return c
}

// count counts a call that was ignored for a reason, or was answered with an error, or neither.
func (c *calls) count(ignored string, err error) {
	outcome := ignored
	switch {
	case err != nil:
		outcome = codeOf(err)
	case ignored == "":
		c.accepted.Inc()
		return
	}

	counter, known := c.others[outcome]
	if !known {
		counter = c.others[codeUnavailable]
	}
	counter.Inc()
}

// metrics are the metrics of the two endpoints and their writers.
type metrics struct {
	calls           *prometheus.CounterVec
	collect, server calls
	batches         *batch.Observer
}

// newMetrics returns the metrics of a service. waiting returns how many hits wait for a writer.
func newMetrics(waiting func() int) *metrics {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tallygate_hits_total",
			Help: "Calls of /collect.php and the paths of other products (collect), and of /server.php (server), by outcome: " +
				"accepted, the reason to ignore it, or the error's code.",
		}, []string{"endpoint", "outcome"}),
		batches: batch.NewObserver("hits", waiting),
	}

	m.collect, m.server = newCalls(m.calls, collectEndpoint), newCalls(m.calls, serverEndpoint)
	return m
}

// PauseWarning returns a sentence for the operator after a pause of the database, else "".
func (s *Service) PauseWarning() string { return s.metrics.batches.PauseWarning() }

// Measure registers the metrics of the service.
func (s *Service) Measure(r prometheus.Registerer) error {
	dropped := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tallygate_dropped_counts_total", ConstLabels: prometheus.Labels{"of": "hits"},
		Help: "Calls that are missing in the counters for owners, because too many different ones waited to be stored.",
	}, func() float64 { return float64(s.rejections.Dropped() + s.unknown.Dropped()) })

	return errors.Join(r.Register(s.metrics.calls), s.metrics.batches.Register(r), r.Register(dropped),
		s.bySiteKey.Measure(r, "sites"), s.bySecret.Measure(r, "server_secrets"))
}

// codeOf returns the code under which an error is counted.
func codeOf(err error) string {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e.Code
	}
	return codeUnavailable
}
