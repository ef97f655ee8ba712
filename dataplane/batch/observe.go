package batch

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Observer counts and times the batches of one or more queues of a kind. A nil Observer does
// nothing.
type Observer struct {
	items   prometheus.Histogram
	seconds prometheus.Histogram
	failed  prometheus.Counter
	waiting prometheus.GaugeFunc

	refused [4]prometheus.Counter // by the index in refusals

	pause atomic.Pointer[pause] // the last one
}

// pause is a transaction that took so long that requests came near the end of their time.
type pause struct {
	ended time.Time
	took  time.Duration
}

const (
	// pauseFrom is the duration of a transaction from which it counts as a pause of the database.
	// Requests wait for five seconds in all.
	pauseFrom = 2 * time.Second

	// pauseShown is for how long a pause is worth a warning.
	pauseShown = 10 * time.Minute
)

// PauseWarning returns a sentence for the operator for some time after a pause of the database, else
// "".
func (o *Observer) PauseWarning() string {
	last := o.pause.Load()
	if last == nil || time.Since(last.ended) > pauseShown {
		return ""
	}
	return fmt.Sprintf("the database took %v to store a batch, until %s; requests are refused after five seconds",
		last.took.Round(100*time.Millisecond), last.ended.UTC().Format(time.TimeOnly))
}

// refusals are the reasons for which an item is not stored although its batch may be.
var refusals = [4]string{"full", "late", "closed", "timeout"}

const (
	refusedFull    = iota // ErrFull
	refusedLate           // ErrLate
	refusedClosed         // ErrClosed
	refusedTimeout        // the deadline passed, or the request was cancelled
)

// NewObserver returns the observer of the queues of a kind, which names them in the label queue.
// waiting returns how many items wait, see Queue.Len.
func NewObserver(kind string, waiting func() int) *Observer {
	labels := prometheus.Labels{"queue": kind}
	o := &Observer{
		items: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tallygate_batch_items", ConstLabels: labels,
			Help:    "Items of each batch that was committed or tried: hits, or claims of captcha challenges and tokens.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000},
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tallygate_batch_commit_duration_seconds", ConstLabels: labels,
			Help:    "Duration of the transactions of batches, with retries.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5},
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tallygate_batch_errors_total", ConstLabels: labels,
			Help: "Batches of which nothing was stored because of an error.",
		}),
		waiting: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tallygate_batch_waiting_items", ConstLabels: labels,
			Help: "Items that wait for the writer now.",
		}, func() float64 { return float64(waiting()) }),
	}

	for i, reason := range refusals {
		o.refused[i] = prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tallygate_batch_refused_items_total",
			Help: "Items that were answered with an error without being tried: the queue was full or closed, " +
				"too little time was left, or the time was over.",
			ConstLabels: prometheus.Labels{"queue": kind, "reason": reason},
		})
	}

	return o
}

// Register registers the metrics.
func (o *Observer) Register(r prometheus.Registerer) error {
	err := errors.Join(r.Register(o.items), r.Register(o.seconds), r.Register(o.failed), r.Register(o.waiting))
	for _, c := range o.refused {
		err = errors.Join(err, r.Register(c))
	}
	return err
}

// begin begins to observe the commit of a batch of so many items. The caller calls end with its
// outcome.
func (o *Observer) begin(items int) (end func(error)) {
	if o == nil {
		return func(error) {}
	}

	began := time.Now()
	return func(err error) {
		o.items.Observe(float64(items))
		took := time.Since(began)
		o.seconds.Observe(took.Seconds())
		if took >= pauseFrom {
			o.pause.Store(&pause{time.Now(), took})
		}
		if err != nil {
			o.failed.Inc()
		}
	}
}

// refuse counts an item that was not tried.
func (o *Observer) refuse(reason int) {
	if o != nil {
		o.refused[reason].Inc()
	}
}
