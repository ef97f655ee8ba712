package resolver

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/generated"
)

// Notes on the days of a site.

func (r *siteResolver) Annotations(
	ctx context.Context, obj *model.Site, first *int, after *string, last *int, before *string,
	orderBy generated.AnnotationOrder,
) (*generated.AnnotationConnection, error) {
	p := paging{first, after, last, before}
	n, backward, err := p.size()
	if err != nil {
		return nil, err
	}

	kind := nodeid.AfterAnnotation
	if orderBy == generated.AnnotationOrderOldest {
		kind = nodeid.AfterOldestAnnotation
	}

	page := sites.AnnotationPage{Limit: n + 1, Backward: backward, Oldest: orderBy == generated.AnnotationOrderOldest}
	page.After, page.Before, err = positions(p, func(cursor string) (at sites.AnnotationPosition, ok bool) {
		day, id, ok := r.ids.ParseDay(kind, cursor)
		return sites.AnnotationPosition{Day: day, ID: model.AnnotationID(id)}, ok
	})
	if err != nil {
		return nil, err
	}

	annotations, err := requestOf(ctx).loaders().Annotations(page).Of(ctx, obj.ID)
	if err != nil {
		return nil, err
	}

	annotations, found, info := cut(p, annotations, func(a *model.Annotation) string {
		return r.ids.OfDay(kind, a.Day, int64(a.ID))
	})

	edges := make([]*generated.AnnotationEdge, len(annotations))
	for i, annotation := range annotations {
		edges[i] = &generated.AnnotationEdge{Cursor: found[i], Node: annotation}
	}

	return &generated.AnnotationConnection{
		Edges: edges, Nodes: orEmpty(annotations), PageInfo: info, SiteID: obj.ID,
	}, nil
}

func (r *annotationConnectionResolver) TotalCount(
	ctx context.Context, obj *generated.AnnotationConnection,
) (int, error) {
	return requestOf(ctx).loaders().AnnotationCounts().Of(ctx, obj.SiteID)
}

func (r *mutationResolver) CreateAnnotation(
	ctx context.Context, input generated.CreateAnnotationInput,
) (*generated.AnnotationPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	annotation, err := r.objects.CreateAnnotation(ctx, member.AccountID, model.Annotation{
		SiteID: siteID, Day: input.Day, Text: input.Text, CreatedAt: requestOf(ctx).now,
	})
	return &generated.AnnotationPayload{Annotation: annotation}, err
}

func (r *mutationResolver) UpdateAnnotation(
	ctx context.Context, input generated.UpdateAnnotationInput,
) (*generated.AnnotationPayload, error) {
	member, id := granted[model.AnnotationID](ctx)
	annotation, err := r.objects.UpdateAnnotation(ctx, member.AccountID, model.AnnotationID(id), input.Day, input.Text)
	return &generated.AnnotationPayload{Annotation: annotation}, err
}

func (r *mutationResolver) DeleteAnnotation(
	ctx context.Context, _ generated.DeleteAnnotationInput,
) (*generated.AnnotationPayload, error) {
	member, id := granted[model.AnnotationID](ctx)
	annotation, err := r.objects.DeleteAnnotation(ctx, member.AccountID, model.AnnotationID(id))
	return &generated.AnnotationPayload{Annotation: annotation}, err
}
