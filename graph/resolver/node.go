package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/schema"
)

// Node returns any object that the caller may read elsewhere in the schema, or nil: an unknown id,
// an id of an account that the caller does not belong to and one that the caller must not read get
// the same response.
func (r *queryResolver) Node(ctx context.Context, id string) (schema.Node, error) {
	viewer := memberOf(ctx)
	if idHash, ok := parseSessionID(id); ok {
		return asNode(r.session(ctx, viewer, idHash))
	}

	switch kind := r.ids.KindOf(id); kind {
	case nodeid.Account:
		if member := r.in(viewer, id); member != nil {
			return member.Account, nil
		}
	case nodeid.User:
		return asNode(r.member(ctx, viewer, id))
	case nodeid.Invitation:
		return asNode(r.invitation(ctx, viewer, id))
	case nodeid.APIToken:
		return asNode(r.apiToken(ctx, viewer, id))
	case nodeid.Passkey:
		return asNode(r.passkey(ctx, viewer, id))
	case nodeid.Site:
		return asNode(r.site(ctx, viewer, id))
	case nodeid.Sitekey:
		return asNode(r.sitekey(ctx, viewer, id))
	case nodeid.Delivery:
		return asNode(r.delivery(ctx, viewer, id))
	case nodeid.Annotation:
		return asNode(ownObject(ctx, r.Resolver, kind, viewer, id, r.objects.Annotation))
	case nodeid.Segment:
		return asNode(ownObject(ctx, r.Resolver, kind, viewer, id, r.objects.Segment))
	case nodeid.Funnel:
		return asNode(ownObject(ctx, r.Resolver, kind, viewer, id, r.objects.Funnel))
	case nodeid.SharedLink:
		return asNode(ownObject(ctx, r.Resolver, kind, viewer, id, r.sharedLink))
	case nodeid.AlertChannel:
		return asNode(r.alertChannel(ctx, viewer, id))
	case nodeid.AlertMessage:
		return asNode(r.alertMessage(ctx, viewer, id))
	case nodeid.Import:
		return asNode(ownObject(ctx, r.Resolver, kind, viewer, id, r.imports.Import))
	case nodeid.ImportJob:
		return asNode(ownObject(ctx, r.Resolver, kind, viewer, id, r.imports.Job))
	case nodeid.Erasure:
		return asNode(r.erasure(ctx, viewer, id))
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

// ownObject returns an object of one of the viewer's accounts by its global id, or nil. Every role
// may read it.
func ownObject[T any, ID ~int64](
	ctx context.Context, r *Resolver, kind nodeid.Kind, viewer *model.User, nodeID string,
	read func(ctx context.Context, accountID model.AccountID, id ID) (*T, error),
) (*T, error) {
	id, ok := r.ids.Parse(kind, nodeID)
	if !ok {
		return nil, nil
	}

	member, err := orNull(r.accounts.MemberFor(ctx, viewer, kind, id))
	if member == nil || err != nil {
		return nil, err
	}

	return orNull(read(ctx, member.AccountID, ID(id)))
}
