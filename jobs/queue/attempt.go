package queue

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Clock is the database's clock, which all workers share.
type Clock interface {
	// Now returns the database's time.
	Now(context.Context) (model.Instant, error)
	// Estimate returns about the database's time, without asking it.
	Estimate() time.Time
}

const (
	recordTimeout = 20 * time.Second
	recordPause   = 500 * time.Millisecond
)

// Record calls store, which records the outcome of an attempt. It retries for 20 s, because an
// attempt that is not recorded is made again.
func Record(ctx context.Context, store func(context.Context) error) error {
	// The context of the queue ends when Redis is lost. The outcome must be stored nevertheless.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()

	for {
		err := store(ctx)
		if err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(recordPause):
		}
	}
}
