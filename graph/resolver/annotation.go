package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Notes on the days of a site.

func (r *siteResolver) Annotations(
	ctx context.Context, obj *model.Site, first int, after *string,
) (*generated.AnnotationConnection, error) {
	if first < 1 || first > limits.MaxPage {
		return nil, invalidArgument("first", "The argument first must be from 1 to 100.")
	}

	position := sites.AnnotationPage{Limit: first + 1}
	if after != nil {
		var ok bool
		if position.Day, position.ID, ok = r.ids.ParseDay(model.AfterAnnotation, *after); !ok {
			return nil, invalidArgument("after", "The argument after is not a cursor of this list.")
		}
	}

	annotations, err := requestOf(ctx).loaders().Annotations(position).Of(ctx, obj.ID)
	if err != nil {
		return nil, err
	}

	page := &generated.PageInfo{HasNextPage: len(annotations) > first, HasPreviousPage: after != nil}
	annotations = annotations[:min(first, len(annotations))]
	edges := make([]*generated.AnnotationEdge, len(annotations))
	for i, annotation := range annotations {
		cursor := r.ids.OfDay(model.AfterAnnotation, annotation.Day, annotation.ID)
		edges[i] = &generated.AnnotationEdge{Cursor: cursor, Node: annotation}
	}
	if len(edges) > 0 {
		page.StartCursor, page.EndCursor = &edges[0].Cursor, &edges[len(edges)-1].Cursor
	}

	return &generated.AnnotationConnection{Edges: edges, PageInfo: page}, nil
}

func (r *annotationResolver) ID(ctx context.Context, obj *model.Annotation) (string, error) {
	return r.ids.Of(model.NodeAnnotation, obj.ID), nil
}

func (r *mutationResolver) CreateAnnotation(
	ctx context.Context, input generated.CreateAnnotationInput,
) (*generated.AnnotationPayload, error) {
	annotation, err := onSite(ctx, r, model.MayConfigure, input.SiteID,
		func(accountID, siteID int64) (*model.Annotation, error) {
			return r.sites.CreateAnnotation(ctx, accountID, model.Annotation{
				SiteID: siteID, Day: input.Day, Text: input.Text, CreatedAt: requestOf(ctx).now,
			})
		})
	return &generated.AnnotationPayload{Annotation: annotation}, err
}

func (r *mutationResolver) UpdateAnnotation(
	ctx context.Context, input generated.UpdateAnnotationInput,
) (*generated.AnnotationPayload, error) {
	annotation, err := onObject(ctx, r, model.NodeAnnotation, "annotationId", input.AnnotationID,
		func(accountID, id int64) (*model.Annotation, error) {
			return r.sites.UpdateAnnotation(ctx, accountID, id, input.Day, input.Text)
		})
	return &generated.AnnotationPayload{Annotation: annotation}, err
}

func (r *mutationResolver) DeleteAnnotation(
	ctx context.Context, input generated.DeleteAnnotationInput,
) (*generated.AnnotationPayload, error) {
	annotation, err := onObject(ctx, r, model.NodeAnnotation, "annotationId", input.AnnotationID,
		func(accountID, id int64) (*model.Annotation, error) {
			return r.sites.DeleteAnnotation(ctx, accountID, id)
		})
	return &generated.AnnotationPayload{Annotation: annotation}, err
}

// onSite checks the permission and runs a change that belongs to a site of the caller's account. A
// site of another account is reported as not found.
func onSite[T any](
	ctx context.Context, r *mutationResolver, p model.Permission, siteNodeID string,
	change func(accountID, siteID int64) (*T, error),
) (*T, error) {
	viewer, err := r.require(ctx, p)
	if err != nil {
		return nil, err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, siteNodeID)
	if !ok {
		return nil, notFound("siteId")
	}

	object, err := change(viewer.AccountID, siteID)
	return object, orNotFound("siteId", err)
}

// onObject checks the permission to configure sites and runs a change of an object of the caller's
// account. An object of another account is reported as not found. field is the input field of its id.
func onObject[T any](
	ctx context.Context, r *mutationResolver, kind model.NodeKind, field, nodeID string,
	change func(accountID, id int64) (*T, error),
) (*T, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}

	id, ok := r.ids.Parse(kind, nodeID)
	if !ok {
		return nil, notFound(field)
	}

	object, err := change(viewer.AccountID, id)
	return object, orNotFound(field, err)
}

// ownObject returns an object of the account by its global id, or nil.
func ownObject[T any](
	ctx context.Context, r *Resolver, kind model.NodeKind, accountID int64, nodeID string,
	read func(ctx context.Context, accountID, id int64) (*T, error),
) (*T, error) {
	id, ok := r.ids.Parse(kind, nodeID)
	if !ok {
		return nil, nil
	}
	return orNull(read(ctx, accountID, id))
}
