package resolver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/generated"
)

// The audit log of an account.

func (r *accountResolver) AuditLog(
	ctx context.Context, obj *model.Account, first int, after *string, filter *generated.AuditFilter,
) (*generated.AuditConnection, error) {
	member, err := callerIn(ctx, obj.ID)
	if err != nil {
		return nil, err
	}
	if member == nil || member.IsRestricted() || !member.May(model.MayManage, nil) {
		return nil, model.ErrForbidden
	}

	cursors := r.cursors(nodeid.AfterAuditEntry)
	p := paging{first: &first, after: after}
	page, err := cursors.page(p, true)
	if err != nil {
		return nil, err
	}
	conditions, err := r.auditFilter(filter)
	if err != nil {
		return nil, err
	}

	// A list of users contains the same account many times.
	key := accountRead{field: "auditLog", accountID: obj.ID, arguments: fmt.Sprintf("%d %d %q", first, page.After, fmt.Sprint(conditions))}
	return shared(ctx, key, func() (*generated.AuditConnection, error) {
		entries, err := r.audit.Entries(ctx, obj.ID, conditions, page.After, page.Limit)
		if err != nil {
			return nil, err
		}

		entries, found, info := cut(p, entries, func(e *audit.Entry) string { return cursors.encode(e.ID) })
		list := &generated.AuditConnection{
			Edges: make([]*generated.AuditEdge, len(entries)), Nodes: make([]*generated.AuditEntry, len(entries)), PageInfo: info,
		}
		for i, entry := range entries {
			list.Nodes[i] = r.auditEntry(entry, member.Operator)
			list.Edges[i] = &generated.AuditEdge{Cursor: found[i], Node: list.Nodes[i]}
		}

		return list, nil
	})
}

// auditFilter converts the filter of the log.
func (r *Resolver) auditFilter(input *generated.AuditFilter) (audit.Filter, error) {
	var filter audit.Filter
	if input == nil {
		return filter, nil
	}

	if len(input.Actions) > audit.MaxActions || slices.Contains(input.Actions, "") {
		return filter, invalidArgument("filter.actions",
			fmt.Sprintf("The argument filter.actions has at most %d names, none of them empty.", audit.MaxActions))
	}
	filter.Actions = slices.Compact(slices.Sorted(slices.Values(input.Actions)))

	if input.ActorID != nil {
		var ok bool
		if filter.UserID, ok = nodeid.Parse[model.UserID](r.ids, *input.ActorID); !ok {
			return filter, invalidArgument("filter.actorId", "The argument filter.actorId is not the id of a user.")
		}
	}

	if input.ObjectID != nil {
		if !r.parseObject(*input.ObjectID, &filter) {
			return filter, invalidArgument("filter.objectId", "The argument filter.objectId is not the id of an object.")
		}
	}

	if input.Since != nil {
		filter.Since = *input.Since
	}
	if input.Until != nil {
		filter.Until = *input.Until
	}

	return filter, nil
}

// parseObject sets the object of a filter. It reports false for an id of no object.
func (r *Resolver) parseObject(id string, filter *audit.Filter) (ok bool) {
	filter.ObjectKind = r.ids.KindOf(id)
	if filter.ObjectKind == nodeid.Delivery {
		filter.ObjectSite, filter.ObjectID, ok = r.ids.ParseDelivery(id)
		return ok
	}

	filter.ObjectID, ok = r.ids.Parse(filter.ObjectKind, id)
	return ok && filter.ObjectKind.Type() != ""
}

// auditEntry converts an entry of the log. Operators see who of them made a change.
func (r *Resolver) auditEntry(entry *audit.Entry, toOperator bool) *generated.AuditEntry {
	actor := &generated.AuditActor{Kind: generated.AuditActorKind(entry.Actor.Kind)}
	if entry.Actor.UserID != 0 && (entry.Actor.Kind != audit.Operator || toOperator) {
		actor.UserID, actor.Email = notZero(nodeid.Of(r.ids, entry.Actor.UserID)), notZero(entry.Actor.Email)
	}
	if entry.Actor.TokenID != 0 {
		actor.APITokenID = notZero(nodeid.Of(r.ids, entry.Actor.TokenID))
		actor.APITokenName = notZero(entry.Actor.TokenName)
	}

	object := entry.Object
	id := r.ids.Of(object.Kind, object.ID)
	if object.Kind == nodeid.Delivery {
		id = r.ids.OfDelivery(object.SiteID, object.ID)
	}

	names := maps.Clone(entry.Before)
	if names == nil {
		names = audit.Values{}
	}
	maps.Copy(names, entry.After)

	changes := []*generated.AuditChange{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		changes = append(changes, &generated.AuditChange{
			Name: name, Before: auditText(entry.Before[name]), After: auditText(entry.After[name]),
		})
	}

	return &generated.AuditEntry{
		At: entry.Actor.At, Action: entry.Actor.Action, Actor: actor,
		Object:  &generated.AuditObject{Type: object.Kind.Type(), ObjectID: id, Name: object.Name},
		Changes: changes,
	}
}

// auditText returns a value of the log as text; nil for none.
func auditText(value any) *string {
	switch value := value.(type) {
	case nil:
		return nil
	case string:
		return &value
	}

	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}

	shown := string(text)
	return &shown
}
