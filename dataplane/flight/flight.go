// Package flight deduplicates lookups in the database: concurrent requests for one key share a
// lookup, and each waits at most until its own deadline. The cache of rules and the visitor keys
// use it. It caches no result.
package flight

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tallygate/tallygate/web"
)

// Group deduplicates lookups by key. Its zero value is ready for use. It is safe for concurrent
// use.
type Group[Value any] struct {
	flights singleflight.Group
}

// Get returns the result of load, which runs once for all concurrent callers with the same key. Its
// context ends after the timeout, and not with a caller. At the deadline Get returns
// context.DeadlineExceeded; the zero time means no deadline. A panic of load becomes an error.
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
