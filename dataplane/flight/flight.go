// Package flight shares lookups in the database: requests that ask for one thing at the same time
// ask once, and each waits until its own deadline at most.
package flight

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tallygate/tallygate/web"
)

// Group is lookups by key. The zero value is ready for use. It is safe for concurrent use.
type Group[Value any] struct {
	flights singleflight.Group
}

// Get returns the outcome of load, which runs once for all callers that ask for the key meanwhile,
// with a context that ends after the timeout and not with a caller. At the deadline Get returns
// context.DeadlineExceeded; the zero time is no deadline. A panic of load is an error.
func (g *Group[Value]) Get(
	deadline time.Time, key string, timeout time.Duration, load func(ctx context.Context) (Value, error),
) (value Value, err error) {
	done := g.flights.DoChan(key, func() (value any, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()

		// An unrecovered panic in this goroutine would end the process.
		err = web.Try(func() error {
			loaded, err := load(ctx)
			value = loaded
			return err
		})
		return value, err
	})

	var late <-chan time.Time

	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()

		late = timer.C
	}

	select {
	case result := <-done:
		value, _ = result.Val.(Value)
		return value, result.Err
	case <-late:
		return value, context.DeadlineExceeded
	}
}
