package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/schema"
)

// Node returns any object that the caller may read elsewhere in the schema, or nil: an unknown id,
// an id of another account and one that the caller must not read get the same response.
func (r *queryResolver) Node(ctx context.Context, id string) (schema.Node, error) {
	viewer, err := r.require(ctx, model.MayRead)
	if err != nil {
		return nil, err
	}

	if idHash, ok := parseSessionID(id); ok {
		return asNode(r.session(ctx, viewer, idHash))
	}

	accountID := viewer.AccountID

	switch kind := r.ids.KindOf(id); kind {
	case model.NodeAccount:
		if number, _ := r.ids.Parse(kind, id); number == accountID {
			return viewer.Account, nil
		}
	case model.NodeUser:
		return asNode(r.member(ctx, accountID, id))
	case model.NodeInvitation:
		return asNode(r.invitation(ctx, accountID, id))
	case model.NodeAPIToken:
		return asNode(r.apiToken(ctx, viewer, id))
	case model.NodeSite:
		return asNode(r.site(ctx, accountID, id))
	case model.NodeSitekey:
		return asNode(r.sitekey(ctx, accountID, id))
	case model.NodeDelivery:
		return asNode(r.delivery(ctx, accountID, id))
	case model.NodeAnnotation:
		return asNode(ownObject(ctx, r.Resolver, kind, accountID, id, r.sites.Annotation))
	case model.NodeSegment:
		return asNode(ownObject(ctx, r.Resolver, kind, accountID, id, r.sites.Segment))
	case model.NodeFunnel:
		return asNode(ownObject(ctx, r.Resolver, kind, accountID, id, r.sites.Funnel))
	case model.NodeSharedLink:
		return asNode(ownObject(ctx, r.Resolver, kind, accountID, id, r.sites.SharedLink))
	case model.NodeErasure:
		return asNode(r.erasure(ctx, accountID, id))
	}

	return nil, nil
}

// asNode converts an object to a Node. A nil pointer becomes a nil Node.
func asNode[T any](object *T, err error) (schema.Node, error) {
	if object == nil || err != nil {
		return nil, err
	}
	return object, nil
}
