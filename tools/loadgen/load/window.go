package load

import (
	"context"
	"sync/atomic"
	"time"
)

// window is the measured period: it opens at the end of the warm-up.
type window struct {
	load   *Load
	began  time.Time // start of the warm-up
	opened chan struct{}
	after  atomic.Int64 // duration of the warm-up in nanoseconds; 0: not over
	warm   atomic.Int64 // responses of the warm-up
}

func newWindow(l *Load) *window {
	w := &window{load: l, began: time.Now(), opened: make(chan struct{})}
	if l.Warmup <= 0 && l.WarmAnswers <= 0 {
		w.open()
	}
	return w
}

func (w *window) open() {
	w.after.Store(max(int64(time.Since(w.began)), 1))
	close(w.opened)
}

func (w *window) isOpen() bool { return w.after.Load() != 0 }

// elapsed returns how long the window has been open.
func (w *window) elapsed() time.Duration {
	if !w.isOpen() {
		return 0
	}
	return time.Since(w.began) - time.Duration(w.after.Load())
}

// warmUp opens the window after the warm-up time.
func (w *window) warmUp(ctx context.Context) {
	// With WarmAnswers, the responses open the window.
	if w.isOpen() || w.load.WarmAnswers > 0 {
		return
	}

	select {
	case <-time.After(w.load.Warmup):
		w.open()
	case <-ctx.Done():
	}
}

// answered counts a response, and opens the window after the last response of the warm-up.
func (w *window) answered() {
	if w.load.WarmAnswers > 0 && !w.isOpen() && w.warm.Add(1) == w.load.WarmAnswers {
		w.open()
	}
}
