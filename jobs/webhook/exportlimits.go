package webhook

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	exportsAtOnce  = 32       // parts of daily exports in progress, so that other kinds have permits
	exportsWritten = 4        // bodies of daily exports that are written at once
	exportBytes    = 32 << 20 // no body is begun while the bodies in progress have this many bytes
	ordinaryBody   = 8 << 20  // a larger body is written and sent alone
)

// exportLimits bounds the memory of the bodies of daily exports: exportBytes, exportsWritten
// ordinary bodies, and one body of any size.
type exportLimits struct {
	parts   *semaphore.Weighted
	writing *semaphore.Weighted
	bytes   atomic.Int64 // of the bodies that are written
}

func newExportLimits() *exportLimits {
	return &exportLimits{parts: semaphore.NewWeighted(exportsAtOnce), writing: semaphore.NewWeighted(exportsWritten)}
}

// exportBody is one body's share of the limits. One goroutine uses it.
type exportBody struct {
	limits  *exportLimits
	writing int64 // of the limit
	isAlone bool
	bytes   int64
}

// begin reserves a body, or returns nil if a limit is reached. The caller must end it.
func (l *exportLimits) begin() *exportBody {
	if l.bytes.Load() >= exportBytes || !l.parts.TryAcquire(1) {
		return nil
	}

	if !l.writing.TryAcquire(1) {
		l.parts.Release(1)
		return nil
	}

	return &exportBody{limits: l, writing: 1}
}

// alone waits until no other body is written. No other one is then begun until this one has ended.
// The caller must keep nothing of the body meanwhile.
func (b *exportBody) alone(ctx context.Context) error {
	b.release()
	if err := b.limits.writing.Acquire(ctx, exportsWritten); err != nil {
		return err
	}

	b.writing, b.isAlone = exportsWritten, true
	return nil
}

// written counts the bytes of a body that is now written.
func (b *exportBody) written(bytes int) {
	b.bytes = int64(bytes)
	b.limits.bytes.Add(b.bytes)
	if !b.isAlone {
		b.release()
	}
}

func (b *exportBody) release() {
	b.limits.writing.Release(b.writing)
	b.writing = 0
}

// end frees a body, whether or not it was written.
func (b *exportBody) end() {
	b.release()
	b.limits.bytes.Add(-b.bytes)
	b.limits.parts.Release(1)
}
