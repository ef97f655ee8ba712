package webhook

import (
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	exportsAtOnce  = 32       // parts of daily exports in progress, so that other kinds have slots
	exportsWritten = 4        // bodies of daily exports that are written at once
	exportBytes    = 32 << 20 // no body is begun while those in progress have this many bytes
)

// exportLimits bounds the memory of the bodies of daily exports: exportBytes and the size of
// exportsWritten further ones.
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
	limits    *exportLimits
	isWritten bool
	bytes     int64
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

	return &exportBody{limits: l}
}

// written counts the bytes of a body that is now written.
func (b *exportBody) written(bytes int) {
	b.isWritten, b.bytes = true, int64(bytes)
	b.limits.bytes.Add(b.bytes)
	b.limits.writing.Release(1)
}

// end frees a body, whether or not it was written.
func (b *exportBody) end() {
	if !b.isWritten {
		b.written(0)
	}

	b.limits.bytes.Add(-b.bytes)
	b.limits.parts.Release(1)
}
