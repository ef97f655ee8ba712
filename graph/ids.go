package graph

import (
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// The kinds of objects that have a global id (model.NodeID): their type names. That of a delivery is in
// db/model.
const (
	kindUser       = "User"
	kindMember     = "Member" // a user, to the other members of the account
	kindAccount    = "Account"
	kindSite       = "Site"
	kindErasure    = "UserDataErasure"
	kindInvitation = "Invitation"
	kindAPIToken   = "ApiToken"
	kindSession    = "Session"
	kindSitekey    = "Sitekey"
)

// list names a list of objects that is in the order of their ids. Its cursors carry the name, so that neither a global id nor
// another list's cursor is taken for one.
type list string

// The lists that come in pages.
const (
	listSites      list = "sites"
	listSitekeys   list = "sitekeys"
	listDeliveries list = "deliveries"
)

// cursor names the place after the object with this id in the list.
func (l list) cursor(id int64) string { return model.NodeID("after-"+string(l), id) }

// parseCursor reads exactly what cursor writes. None means the beginning of the list.
func (l list) parseCursor(s *string) (after int64, err error) {
	if s == nil {
		return 0, nil
	}
	after, ok := model.ParseNodeID("after-"+string(l), *s)
	if !ok {
		return 0, invalidArgument("after", "The argument after is not a cursor of this list.")
	}
	return after, nil
}

// maxFirst is the largest page of a connection.
const maxFirst = 100

// parsePage reads the arguments of a connection of the list.
func (l list) parsePage(first int, after *string) (afterID int64, err error) {
	if first < 1 || first > maxFirst {
		return 0, invalidArgument("first", "The argument first must be from 1 to 100.")
	}
	return l.parseCursor(after)
}

// cutPage takes a page from the rows that were read, one more than it has, and tells where it lies.
func cutPage[T any](l list, rows []T, first int, after *string, id func(T) int64) ([]T, *generated.PageInfo) {
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
