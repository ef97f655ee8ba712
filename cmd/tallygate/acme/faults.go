package acme

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
)

// faults are the errors of the database in an order. The library returns them without their types.
type faults struct {
	last   atomic.Pointer[error] // nil: none
	locked atomic.Bool           // whether the order has taken its lock
}

// faultsKey is the key of an order's faults in its context.
type faultsKey struct{}

// withFaults returns the context of an order, which collects its faults.
func withFaults(ctx context.Context) (context.Context, *faults) {
	f := &faults{}
	return context.WithValue(ctx, faultsKey{}, f), f
}

// faultsOf returns the faults of the order that a context belongs to, or nil.
func faultsOf(ctx context.Context) *faults {
	f, _ := ctx.Value(faultsKey{}).(*faults)
	return f
}

// note adds an error of the database to the order of a context, and returns it. The end of the context and a
// missing file are no faults.
func note(ctx context.Context, err error) error {
	if f := faultsOf(ctx); f != nil && err != nil && ctx.Err() == nil && !errors.Is(err, fs.ErrNotExist) {
		f.last.Store(&err)
	}
	return err
}

// explain returns the error of an order with its cause, if that is the database or the lock of another process.
func (f *faults) explain(err error) error {
	switch last := f.last.Load(); {
	case last != nil:
		return fmt.Errorf("%w: %w: %w", errStorage, *last, err)
	case !f.locked.Load():
		return fmt.Errorf("%w: another process orders: %w", errPaused, err)
	}
	return err
}
