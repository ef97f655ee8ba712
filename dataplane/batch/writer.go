package batch

import (
	"context"
	"errors"
)

// Store runs one transaction per batch. Update reads what keys name under locks, calls decide with
// it, and commits the changes that decide returns. It returns nil only after they are durable. It
// may call decide several times: the last call is the one that counts.
type Store[Keys, State, Changes any] interface {
	Update(ctx context.Context, keys Keys, decide func(*State) *Changes) error
	Close() error
}

// Rules are what a batch of one kind does. Writer calls them from one goroutine.
type Rules[In, Keys, State, Changes, Out any] struct {
	// Keys returns what the items lock and read.
	Keys func(items []In) Keys

	// Decide returns what items change in the state, and one outcome per item, in order. It must
	// not change the state.
	Decide func(state *State, items []In) (*Changes, []Out)

	// Committed is called with changes after they were committed. It must not wait. Nil: none.
	Committed func(*Changes)
}

// Writer is a Queue that commits its batches to a store.
type Writer[In, Keys, State, Changes, Out any] struct {
	*Queue[In, Out]
	store Store[Keys, State, Changes]
	rules Rules[In, Keys, State, Changes, Out]
}

// NewWriter returns a writer, which closes the store when it stops.
func NewWriter[In, Keys, State, Changes, Out any](
	store Store[Keys, State, Changes], rules Rules[In, Keys, State, Changes, Out],
	options Options,
) *Writer[In, Keys, State, Changes, Out] {
	w := &Writer[In, Keys, State, Changes, Out]{store: store, rules: rules}
	w.Queue = New(w.Commit, options)
	return w
}

// Commit stores items in one transaction and returns their outcomes. The queue calls it; so do
// tests and benchmarks, while the queue is idle.
func (w *Writer[In, Keys, State, Changes, Out]) Commit(ctx context.Context, items []In) ([]Out, error) {
	var changes *Changes
	var outcomes []Out

	err := w.store.Update(ctx, w.rules.Keys(items), func(state *State) *Changes {
		changes, outcomes = w.rules.Decide(state, items)
		return changes
	})
	if err != nil {
		return nil, err
	}

	if w.rules.Committed != nil {
		w.rules.Committed(changes)
	}

	return outcomes, nil
}

// Stop stops the queue as Queue.Stop does, and closes the store.
func (w *Writer[In, Keys, State, Changes, Out]) Stop(ctx context.Context) error {
	return errors.Join(w.Queue.Stop(ctx), w.store.Close())
}
