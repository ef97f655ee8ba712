package batch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// Lanes are the writers of one cell, such as a Writer.
type Lanes interface {
	Start()
	Stop(context.Context) error
	Len() int
}

// Cells are the lanes of each cell: a batch is a transaction of one cell. Those of the database's own
// cell always exist, those of another one from its first item on. It is safe for concurrent use.
type Cells[L Lanes] struct {
	open func(ctx context.Context, cell int64) (L, error)
	own  int64

	mu      sync.RWMutex
	cells   map[int64]L
	stopped bool
}

// NewCells returns cells with the lanes of the own one. open returns those of another cell. Lanes that
// were never started are discarded without a call of Stop.
func NewCells[L Lanes](own int64, lanes L, open func(ctx context.Context, cell int64) (L, error)) *Cells[L] {
	return &Cells[L]{open: open, own: own, cells: map[int64]L{own: lanes}}
}

// Of returns the lanes of a cell. It fails with ErrClosed after Stop for a cell that had none.
func (c *Cells[L]) Of(ctx context.Context, cell int64) (L, error) {
	c.mu.RLock()
	l, known := c.cells[cell]
	c.mu.RUnlock()
	if known {
		return l, nil
	}

	// The first lookup of a cell may take long, and items of other cells must not wait for it.
	opened, err := c.open(ctx, cell)
	if err != nil {
		return l, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if l, known := c.cells[cell]; known {
		return l, nil
	}
	if c.stopped {
		return l, ErrClosed
	}

	c.cells[cell] = opened
	opened.Start()
	return opened, nil
}

// Len returns the number of items that wait for a writer.
func (c *Cells[L]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()

	n := 0
	for _, l := range c.cells {
		n += l.Len()
	}
	return n
}

// Start starts the lanes of the own cell.
func (c *Cells[L]) Start() { c.cells[c.own].Start() }

// Stop stops the lanes of all cells at the same time, since ctx bounds the stop of each.
func (c *Cells[L]) Stop(ctx context.Context) error {
	c.mu.Lock()
	c.stopped = true
	all := slices.Collect(maps.Values(c.cells))
	c.mu.Unlock()

	failed := make([]error, len(all))
	var stopped sync.WaitGroup
	for i, l := range all {
		stopped.Go(func() { failed[i] = l.Stop(ctx) })
	}
	stopped.Wait()
	return errors.Join(failed...)
}
