package batch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
)

// Writers are the writers of one cell.
type Writers[In, Out any] interface {
	// Do stores an item, see Queue.DoBefore.
	Do(ctx context.Context, item In) (Out, error)

	Start()
	Stop(context.Context) error
	Len() int
}

// Item is stored in the cell of its site or account.
type Item interface {
	Cell() int64         // as far as the caller knows
	Deadline() time.Time // of the request
}

// ErrMoving is returned when a site or account is moved for longer than a request waits.
var ErrMoving = errors.New("batch: the site or account is being moved to another cell")

// Cells are the writers of each cell: a batch is a transaction of one cell. The writers of the
// own cell always exist, the writers of another cell from its first item on. It is safe for
// concurrent use.
type Cells[In Item, Out comparable, W Writers[In, Out]] struct {
	rules CellRules[In, Out, W]
	own   int64

	mu      sync.RWMutex
	cells   map[int64]W
	stopped bool
}

// CellRules are what Cells needs to know of the items.
type CellRules[In, Out, W any] struct {
	// Open returns the writers of another cell than the own one. Writers that were never started
	// are discarded without a call of Stop.
	Open func(ctx context.Context, cell int64) (W, error)

	// Moved is the outcome of an item that is not in the cell any more, or about to leave it.
	Moved Out

	// Find looks an item's cell up again.
	Find func(item In) error
}

// NewCells returns cells with the writers of the own one.
func NewCells[In Item, Out comparable, W Writers[In, Out]](
	own int64, writers W, rules CellRules[In, Out, W],
) *Cells[In, Out, W] {
	return &Cells[In, Out, W]{rules: rules, own: own, cells: map[int64]W{own: writers}}
}

// Do stores an item with the writers of its cell, and returns its outcome. While its site or
// account is moved, it looks the cell up again until the deadline, and then fails with ErrMoving.
// It returns the errors of Find as they are.
func (c *Cells[In, Out, W]) Do(ctx context.Context, item In) (out Out, err error) {
	for {
		writers, err := c.of(ctx, item.Cell())
		if err != nil {
			return out, err
		}

		out, err = writers.Do(ctx, item)
		if err != nil || out != c.rules.Moved {
			return out, err
		}
		if time.Until(item.Deadline()) <= db.MovePoll {
			return out, ErrMoving
		}

		time.Sleep(db.MovePoll)
		if err := c.rules.Find(item); err != nil {
			return out, err
		}
	}
}

// of returns the writers of a cell. It fails with ErrClosed after Stop for a cell that had none.
func (c *Cells[In, Out, W]) of(ctx context.Context, cell int64) (W, error) {
	c.mu.RLock()
	l, known := c.cells[cell]
	c.mu.RUnlock()
	if known {
		return l, nil
	}

	// The first lookup of a cell may take long, and items of other cells must not wait for it.
	opened, err := c.rules.Open(ctx, cell)
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
func (c *Cells[In, Out, W]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()

	n := 0
	for _, l := range c.cells {
		n += l.Len()
	}
	return n
}

// Start starts the writers of the own cell.
func (c *Cells[In, Out, W]) Start() { c.cells[c.own].Start() }

// Stop stops the writers of all cells at the same time, since ctx bounds the stop of each.
func (c *Cells[In, Out, W]) Stop(ctx context.Context) error {
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
