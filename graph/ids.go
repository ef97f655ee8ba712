package graph

import (
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// cursors write and read the places in a list of objects that is in the order of their ids. Their
// kind is the list's own, so that neither a global id nor another list's cursor is taken for one.
type cursors struct {
	ids  *model.NodeIDs
	kind model.NodeKind
}

func (r *Resolver) listOf(kind model.NodeKind) cursors { return cursors{r.ids, kind} }

// cursor names the place after the object with this id in the list.
func (c cursors) cursor(id int64) string { return c.ids.Of(c.kind, id) }

// parse reads exactly what cursor writes. None means the beginning of the list.
func (c cursors) parse(s *string) (after int64, err error) {
	if s == nil {
		return 0, nil
	}

	after, ok := c.ids.Parse(c.kind, *s)
	if !ok {
		return 0, invalidArgument("after", "The argument after is not a cursor of this list.")
	}

	return after, nil
}

// maxFirst is the largest page of a connection.
const maxFirst = 100

// parsePage reads the arguments of a connection of the list.
func (c cursors) parsePage(first int, after *string) (afterID int64, err error) {
	if first < 1 || first > maxFirst {
		return 0, invalidArgument("first", "The argument first must be from 1 to 100.")
	}
	return c.parse(after)
}

// cutPage takes a page from the rows that were read, one more than it has, and tells where it lies.
func cutPage[T any](l cursors, rows []T, first int, after *string, id func(T) int64) ([]T, *generated.PageInfo) {
	page := &generated.PageInfo{HasNextPage: len(rows) > first, HasPreviousPage: after != nil}
	rows = rows[:min(first, len(rows))]
	if len(rows) > 0 {
		page.StartCursor, page.EndCursor = orNil(l.cursor(id(rows[0]))), orNil(l.cursor(id(rows[len(rows)-1])))
	}
	return rows, page
}

func invalidArgument(field, message string) error {
	return model.InvalidField(field, "invalid_argument", message)
}
