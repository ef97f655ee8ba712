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

// Lanes are the writers of one cell.
type Lanes[In, Out any] interface {
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

// Cells are the lanes of each cell: a batch is a transaction of one cell. Those of the own cell always
// exist, those of another one from its first item on. It is safe for concurrent use.
type Cells[In Item, Out comparable, L Lanes[In, Out]] struct {
	rules CellRules[In, Out, L]
	own   int64

	mu      sync.RWMutex
	cells   map[int64]L
	stopped bool
}

// CellRules are what Cells needs to know of the items.
type CellRules[In, Out, L any] struct {
	// Open returns the lanes of another cell than the own one. Lanes that were never started are
	// discarded without a call of Stop.
	Open func(ctx context.Context, cell int64) (L, error)

	// Moved is the outcome of an item that is not in the cell any more, or about to leave it.
	Moved Out

	// Find looks an item's cell up again.
	Find func(item In) error
}

// NewCells returns cells with the lanes of the own one.
func NewCells[In Item, Out comparable, L Lanes[In, Out]](
	own int64, lanes L, rules CellRules[In, Out, L],
) *Cells[In, Out, L] {
	return &Cells[In, Out, L]{rules: rules, own: own, cells: map[int64]L{own: lanes}}
}

// Do stores an item with the lanes of its cell, and returns its outcome. While its site or account is
// moved, it looks the cell up again until the deadline, and then fails with ErrMoving. It returns the errors
// of Find as they are.
func (c *Cells[In, Out, L]) Do(ctx context.Context, item In) (out Out, err error) {
	for {
		lanes, err := c.of(ctx, item.Cell())
		if err != nil {
			return out, err
		}

		out, err = lanes.Do(ctx, item)
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

// of returns the lanes of a cell. It fails with ErrClosed after Stop for a cell that had none.
func (c *Cells[In, Out, L]) of(ctx context.Context, cell int64) (L, error) {
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
func (c *Cells[In, Out, L]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()

	n := 0
	for _, l := range c.cells {
		n += l.Len()
	}
	return n
}

// Start starts the lanes of the own cell.
func (c *Cells[In, Out, L]) Start() { c.cells[c.own].Start() }

// Stop stops the lanes of all cells at the same time, since ctx bounds the stop of each.
func (c *Cells[In, Out, L]) Stop(ctx context.Context) error {
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
