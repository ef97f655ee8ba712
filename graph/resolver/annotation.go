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
