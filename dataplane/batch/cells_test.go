package batch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
)

// movable is an item of a site that was in cell 1 and is in another one now.
type movable struct {
	cell     int64
	deadline time.Time
}

func (m *movable) Cell() int64         { return m.cell }
func (m *movable) Deadline() time.Time { return m.deadline }

// cellOf is the writers of a cell. Their outcome is the cell, or 0 if the item's site is not in it.
type cellOf struct{ id, home int64 }

func (c cellOf) Do(context.Context, *movable) (int64, error) {
	if c.id != c.home {
		return 0, nil
	}
	return c.id, nil
}

func (cellOf) Start()                     {}
func (cellOf) Stop(context.Context) error { return nil }
func (cellOf) Len() int                   { return 0 }

// TestItemsOfMovedSites checks that an item is stored in the cell that its site has moved to, that
// it waits no longer than until its deadline, and that an error of the lookup ends the wait.
func TestItemsOfMovedSites(t *testing.T) {
	errGone := errors.New("the site is deleted")
	soon, late := 2*db.MovePoll, time.Minute
	for name, c := range map[string]struct {
		home, found int64
		failed      error
		within      time.Duration
		want        int64
		err         error
	}{
		"not moved":                 {home: 1, within: soon, want: 1},
		"moved":                     {home: 2, found: 2, within: late, want: 2},
		"in no cell until late":     {home: 9, found: 2, within: soon, err: ErrMoving},
		"deleted after its writers": {home: 2, failed: errGone, within: late, err: errGone},
	} {
		cells := NewCells(1, cellOf{1, c.home}, CellRules[*movable, int64, cellOf]{
			Open: func(_ context.Context, id int64) (cellOf, error) { return cellOf{id, c.home}, nil },
			Find: func(item *movable) error { item.cell = c.found; return c.failed },
		})
		got, err := cells.Do(t.Context(), &movable{cell: 1, deadline: time.Now().Add(c.within)})
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: cell %d, error %v; want %d, %v", name, got, err, c.want, c.err)
		}
	}
}
