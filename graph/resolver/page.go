package resolver

import (
	"encoding/base64"
	"strings"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Pages of connections, by the rules of Relay's specification of cursors.

// paging is the arguments of a connection that select a page.
type paging struct {
	first  *int
	after  *string
	last   *int
	before *string
}

// size returns how many rows the page has at most, and whether they are the last ones of the range.
func (p paging) size() (n int, backward bool, err error) {
	name, size := "first", p.first
	switch {
	case p.first != nil && p.last != nil:
		return 0, false, invalidArgument("last", "Give either first or last, not both.")
	case p.last != nil:
		name, size, backward = "last", p.last, true
	case p.first == nil:
		return limits.DefaultPage, false, nil
	}

	if *size < 1 || *size > limits.MaxPage {
		return 0, false, invalidArgument(name, "The argument "+name+" must be from 1 to 100.")
	}

	return *size, backward, nil
}

// badCursor is the error of a cursor that is not of this list and order.
func badCursor(argument string) error {
	return invalidArgument(argument, "The argument "+argument+" is not a cursor of this list in this order.")
}

// positions decodes after and before with the function that accepts the cursors of one list in one
// order. The zero position stands for a missing argument.
func positions[P any](p paging, decode func(string) (P, bool)) (after, before P, err error) {
	for _, one := range []struct {
		name   string
		cursor *string
		into   *P
	}{{"after", p.after, &after}, {"before", p.before, &before}} {
		if one.cursor == nil {
			continue
		}

		at, ok := decode(*one.cursor)
		if !ok {
			return after, before, badCursor(one.name)
		}

		*one.into = at
	}

	return after, before, nil
}

// cut cuts a page from rows in the list's order, of which one more was read. cursor returns a row's
// cursor. The cursors are those of the remaining rows.
func cut[Row any](p paging, rows []Row, cursor func(Row) string) ([]Row, []string, *generated.PageInfo) {
	// The arguments were checked before the rows were read.
	n, backward, _ := p.size()
	more := len(rows) - n

	page := &generated.PageInfo{
		HasNextPage:     !backward && more > 0 || p.before != nil,
		HasPreviousPage: backward && more > 0 || p.after != nil,
	}

	switch {
	case more > 0 && backward:
		rows = rows[more:]
	case more > 0:
		rows = rows[:n]
	}

	found := make([]string, len(rows))
	for i, row := range rows {
		found[i] = cursor(row)
	}

	if len(found) > 0 {
		page.StartCursor, page.EndCursor = &found[0], &found[len(found)-1]
	}

	return rows, found, page
}

// cursors encode and decode the positions of a list in one order. Each list and order has its own
// kind, so that a global id or another list's cursor is rejected.
type cursors struct {
	ids  *nodeid.IDs
	kind nodeid.Kind
}

func (r *Resolver) cursors(kind nodeid.Kind) cursors { return cursors{r.ids, kind} }

// encode returns the cursor of the object with this id in a list that is ordered by ids.
func (c cursors) encode(id int64) string { return c.ids.Of(c.kind, id) }

// decode accepts exactly what encode returns.
func (c cursors) decode(cursor string) (id int64, ok bool) { return c.ids.Parse(c.kind, cursor) }

// page returns the page of a list that is ordered by ids, and of which one row more is to be read.
func (c cursors) page(p paging, descending bool) (db.Page, error) {
	n, backward, err := p.size()
	if err != nil {
		return db.Page{}, err
	}

	after, before, err := positions(p, c.decode)
	return db.Page{After: after, Before: before, Limit: n + 1, Backward: backward, Descending: descending}, err
}

// encodeText returns the cursor of a position in a list that is ordered by a text. The text is part
// of it, so that the page is right although the row was renamed or deleted meanwhile.
func (c cursors) encodeText(at sites.Position) string {
	cursor := c.encode(at.ID)
	if at.Text == "" {
		return cursor
	}
	return cursor + "~" + base64.RawURLEncoding.EncodeToString([]byte(at.Text))
}

// decodeText accepts what encodeText returns.
func (c cursors) decodeText(cursor string) (*sites.Position, bool) {
	row, encoded, hasText := strings.Cut(cursor, "~")
	id, ok := c.decode(row)
	text, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	return &sites.Position{Text: string(text), ID: id}, ok && err == nil && hasText == (len(text) > 0)
}

// maxListSearch is the longest search text, which is that of a domain.
const maxListSearch = 253

// textList returns the list of an account's sites or sitekeys that the arguments select, of which
// one row more is to be read.
func (c cursors) textList(p paging, order sites.Order, search *string) (sites.List, error) {
	n, backward, err := p.size()
	if err != nil {
		return sites.List{}, err
	}

	if len([]rune(orBlank(search))) > maxListSearch || !model.IsClean(orBlank(search)) {
		return sites.List{}, invalidArgument("search", "The argument search must have at most 253 printable characters.")
	}

	after, before, err := positions(p, c.decodeText)
	return sites.List{
		Order: order, Search: orBlank(search), After: after, Before: before, Limit: n + 1, Backward: backward,
	}, err
}
