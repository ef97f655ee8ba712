package graph

import "github.com/tallygate/tallygate/db/model"

// The kinds of objects that have a global id (model.NodeID): their type names.
const (
	kindUser       = "User"
	kindAccount    = "Account"
	kindSite       = "Site"
	kindInvitation = "Invitation"
	kindAPIToken   = "ApiToken"
	kindSession    = "Session"
)

// kindCursor marks the cursors of lists that are in the order of their ids, so that no global id is taken for one.
const kindCursor = "after"

// cursor names the place after the object with this id in its list.
func cursor(id int64) string { return model.NodeID(kindCursor, id) }

// parseCursor reads exactly what cursor writes. None means the beginning of the list.
func parseCursor(s *string) (after int64, err error) {
	if s == nil {
		return 0, nil
	}
	after, ok := model.ParseNodeID(kindCursor, *s)
	if !ok {
		return 0, invalidArgument("after", "The argument after is not a cursor of this list.")
	}
	return after, nil
}

func invalidArgument(field, message string) error {
	return model.InvalidField(field, "invalid_argument", message)
}
