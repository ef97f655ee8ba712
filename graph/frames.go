package graph

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
)

// LinkFrames returns the function that returns the origins whose pages may frame the report of a
// shared link, by the link's global id. A link that does not exist has no origins.
func LinkFrames(d *db.DB) (func(ctx context.Context, linkID string) ([]string, error), error) {
	ids, err := nodeIDs(d)
	if err != nil {
		return nil, err
	}
	store := sites.New(d)

	return func(ctx context.Context, linkID string) ([]string, error) {
		// Ids cannot be guessed: a wrong one costs no lookup.
		id, ok := nodeid.Parse[model.SharedLinkID](ids, linkID)
		if !ok {
			return nil, nil
		}
		origins, err := store.Objects.LinkOrigins(ctx, model.SharedLinkID(id), model.At(time.Now()))
		if model.KindOf(err) == model.NotFound {
			return nil, nil
		}
		return origins, err
	}, nil
}
