package resolver

import (
	"math"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// orNull turns "not found" into null: an unknown id and another account's id get the same response.
func orNull[T any](object *T, err error) (*T, error) {
	if model.KindOf(err) == model.NotFound {
		return nil, nil
	}
	return object, err
}

// orNil returns nil for the empty string.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// orBlank returns the empty string for nil.
func orBlank(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// orEmpty returns an empty list for nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// timeOrNil returns nil for the zero time.
func timeOrNil(at model.Instant) *model.Instant {
	if at == 0 {
		return nil
	}
	return &at
}

// percent returns used as a percentage of a quota, rounded down to one decimal: 100 means that the
// quota is used up. A quota of 0 is always used up.
func percent(used, quota int64) float64 {
	if quota <= 0 {
		return 100
	}
	return math.Floor(float64(used)/float64(quota)*1000) / 10
}

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
