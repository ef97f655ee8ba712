package graph

import (
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// cursors encode and decode the positions in a list that is ordered by id. Each list has its own
// kind, so a global id or another list's cursor is rejected.
type cursors struct {
	ids  *model.NodeIDs
	kind model.NodeKind
}

func (r *Resolver) cursors(kind model.NodeKind) cursors { return cursors{r.ids, kind} }

// encode returns the cursor of the object with this id.
func (c cursors) encode(id int64) string { return c.ids.Of(c.kind, id) }

// decode accepts exactly what encode returns. nil is the beginning of the list.
func (c cursors) decode(s *string) (after int64, err error) {
	if s == nil {
		return 0, nil
	}

	after, ok := c.ids.Parse(c.kind, *s)
	if !ok {
		return 0, invalidArgument("after", "The argument after is not a cursor of this list.")
	}

	return after, nil
}

// parsePage checks the arguments of a connection and returns the id after which the page begins.
func (c cursors) parsePage(first int, after *string) (afterID int64, err error) {
	if first < 1 || first > limits.MaxPage {
		return 0, invalidArgument("first", "The argument first must be from 1 to 100.")
	}
	return c.decode(after)
}

// cutPage cuts a page from the rows, of which one more was read, and returns its PageInfo.
func cutPage[T any](c cursors, rows []T, first int, after *string, id func(T) int64) ([]T, *generated.PageInfo) {
	page := &generated.PageInfo{HasNextPage: len(rows) > first, HasPreviousPage: after != nil}
	rows = rows[:min(first, len(rows))]
	if len(rows) > 0 {
		page.StartCursor, page.EndCursor = orNil(c.encode(id(rows[0]))), orNil(c.encode(id(rows[len(rows)-1])))
	}
	return rows, page
}
