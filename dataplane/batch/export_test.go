package batch

import (
	"context"
	"time"
)

// Do is DoBefore without a deadline.
func (q *Queue[In, Out]) Do(ctx context.Context, item In, size int) (Out, error) {
	return q.DoBefore(ctx, time.Time{}, item, size)
}
