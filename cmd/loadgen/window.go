package main

import (
	"context"
	"sync/atomic"
	"time"
)

// window is the time in which it is measured: after the warm-up.
type window struct {
	load   *load
	began  time.Time // with the warm-up
	opened chan struct{}
	after  atomic.Int64 // how long the warm-up took, in nanoseconds; 0: it is not over
	warm   atomic.Int64 // answers of the warm-up
}

func newWindow(l *load) *window {
	w := &window{load: l, began: time.Now(), opened: make(chan struct{})}
	if l.warmup <= 0 && l.warmAnswers <= 0 {
		w.open()
	}
	return w
}

func (w *window) open() {
	w.after.Store(max(int64(time.Since(w.began)), 1))
	close(w.opened)
}

func (w *window) isOpen() bool { return w.after.Load() != 0 }

// elapsed is for how long it has been open.
func (w *window) elapsed() time.Duration {
	if !w.isOpen() {
		return 0
	}
	return time.Since(w.began) - time.Duration(w.after.Load())
}

// warmUp opens the window when the time of the warm-up is over.
func (w *window) warmUp(ctx context.Context) {
	// which open it themselves
	if w.isOpen() || w.load.warmAnswers > 0 {
		return
	}
	if pause(ctx, w.load.warmup) == nil {
		w.open()
	}
}

// answered counts an answer, and opens the window when the warm-up has as many as it wants.
func (w *window) answered() {
	if w.load.warmAnswers > 0 && !w.isOpen() && w.warm.Add(1) == w.load.warmAnswers {
		w.open()
	}
}
