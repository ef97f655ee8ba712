package analytics

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// cellLanes are the lanes of each cell: a batch is a transaction of one cell. Those of the
// database's own cell always exist, those of another one from its first hit on.
type cellLanes struct {
	open   func(ctx context.Context, cell int64) ([]HitStore, error)
	notify func([]model.Delivery)
	own    int64 // the cell of the service's database

	observer *batch.Observer

	mu      sync.RWMutex
	cells   map[int64]lanes
	stopped bool
}

func newCellLanes(
	d *db.DB, stores []HitStore, notify func([]model.Delivery), observer *batch.Observer,
) *cellLanes {
	return &cellLanes{
		open: func(ctx context.Context, cell int64) ([]HitStore, error) {
			in, err := d.InCell(ctx, cell)
			if err != nil {
				return nil, err
			}

			opened := make([]HitStore, len(stores))
			for i := range opened {
				opened[i] = ingest.New(in).HitStore()
			}
			return opened, nil
		},
		notify: notify,
		own:    d.CellID(),
		cells:  map[int64]lanes{d.CellID(): newLanes(stores, notify, observer)},

		observer: observer,
	}
}

// errStopped is returned for a hit of a new cell while the service stops.
var errStopped = errors.New("analytics: the service is stopping")

// of returns the lane of a site that is in a cell.
func (c *cellLanes) of(ctx context.Context, cell, siteID int64) (*writer, error) {
	c.mu.RLock()
	l := c.cells[cell]
	c.mu.RUnlock()
	if l != nil {
		return l.of(siteID), nil
	}

	// The first lookup of a cell may take long, and hits of other cells must not wait for it. The
	// stores connect with their first batch, so that those not needed have nothing to close.
	stores, err := c.open(ctx, cell)
	if err != nil {
		return nil, err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, errStopped
	}
	if c.cells[cell] == nil {
		c.cells[cell] = newLanes(stores, c.notify, c.observer)
		c.cells[cell].start()
	}
	return c.cells[cell].of(siteID), nil
}

// waiting returns how many hits wait for a writer.
func (c *cellLanes) waiting() int {
	c.mu.RLock()
	defer c.mu.RUnlock()

	n := 0
	for _, l := range c.cells {
		n += l.waiting()
	}
	return n
}

func (c *cellLanes) start() { c.cells[c.own].start() }

// stop stops the lanes of all cells at the same time.
func (c *cellLanes) stop(ctx context.Context) error {
	c.mu.Lock()
	c.stopped = true
	all := slices.Concat(slices.Collect(maps.Values(c.cells))...)
	c.mu.Unlock()
	return all.stop(ctx)
}

// lanes are the writers of hits. Each commits its own batches, so that several of them use several
// of PostgreSQL's processes. All hits of a site go through one lane: its visits and its quota need
// no lock that two lanes would wait for.
type lanes []*writer

// newLanes returns a lane for each store, of which there must be one at least; see newWriter.
func newLanes(stores []HitStore, notify func([]model.Delivery), observer *batch.Observer) lanes {
	if len(stores) == 0 {
		// Otherwise each hit would fail, and only then.
		panic("analytics: Options.Stores is empty")
	}

	l := make(lanes, len(stores))
	for i, store := range stores {
		l[i] = newWriter(store, notify, observer)
	}
	return l
}

// of returns the lane of a site. Ids are multiplied by a large odd number, so that consecutive
// ones are spread evenly.
func (l lanes) of(siteID int64) *writer {
	const spread = 0x9e37_79b9_7f4a_7c15 // 2^64 divided by the golden ratio
	return l[(uint64(siteID)*spread>>32)%uint64(len(l))]
}

// waiting returns how many hits wait for a writer.
func (l lanes) waiting() int {
	n := 0
	for _, w := range l {
		n += w.Len()
	}
	return n
}

func (l lanes) start() {
	for _, w := range l {
		w.Start()
	}
}

// stop stops all lanes at the same time, since ctx bounds the stop of each.
func (l lanes) stop(ctx context.Context) error {
	failed := make([]error, len(l))
	var stopped sync.WaitGroup
	for i, w := range l {
		stopped.Go(func() { failed[i] = w.Stop(ctx) })
	}
	stopped.Wait()
	return errors.Join(failed...)
}
