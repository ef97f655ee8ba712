package graph

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// deliveryConnection loads one page of a site's deliveries, the newest first.
func (r *Resolver) deliveryConnection(ctx context.Context, site *model.Site, first int, after *string) (*generated.DeliveryConnection, error) {
	before, err := parsePage(first, after)
	if err != nil {
		return nil, err
	}
	logs, err := requestOf(ctx).loaders().deliveries(deliveryPage{before, first + 1}).of(ctx, site.ID)
	if err != nil {
		return nil, err
	}
	logs, page := cutPage(logs, first, after, func(log db.DeliveryLog) int64 { return log.ID })
	edges := make([]*generated.DeliveryEdge, len(logs))
	for i := range logs {
		edges[i] = &generated.DeliveryEdge{Cursor: cursor(logs[i].ID), Node: &logs[i]}
	}
	return &generated.DeliveryConnection{Edges: edges, PageInfo: page}, nil
}

// delivery returns a delivery of the account by its global id, or nil.
func (r *Resolver) delivery(ctx context.Context, accountID int64, id string) (*db.DeliveryLog, error) {
	siteID, number, ok := model.ParseDeliveryNodeID(id)
	if !ok {
		return nil, nil
	}
	return orNull(r.db.DeliveryByID(ctx, accountID, siteID, number))
}

func (r *Resolver) sendTestWebhook(ctx context.Context, id string) (*db.DeliveryLog, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}
	siteID, ok := model.ParseNodeID(kindSite, id)
	if !ok {
		return nil, notFound("siteId")
	}
	delivery, err := r.db.QueueTestWebhook(ctx, viewer.AccountID, siteID, requestOf(ctx).now)
	if err != nil {
		return nil, orNotFound("siteId", err)
	}
	return &db.DeliveryLog{Delivery: delivery}, nil
}

func (r *Resolver) redeliver(ctx context.Context, id string) (*db.DeliveryLog, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}
	siteID, number, ok := model.ParseDeliveryNodeID(id)
	if !ok {
		return nil, notFound("deliveryId")
	}
	if err := r.db.Redeliver(ctx, viewer.AccountID, siteID, number, requestOf(ctx).now); err != nil {
		return nil, orNotFound("deliveryId", err)
	}
	delivery, err := r.db.DeliveryByID(ctx, viewer.AccountID, siteID, number)
	return delivery, orNotFound("deliveryId", err)
}
