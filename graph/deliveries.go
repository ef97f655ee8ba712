package graph

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// deliveryConnection loads one page of a site's deliveries, the newest first.
func (r *Resolver) deliveryConnection(ctx context.Context, site *model.Site, first int, after *string) (*generated.DeliveryConnection, error) {
	list := r.listOf(model.AfterDelivery)
	before, err := list.parsePage(first, after)
	if err != nil {
		return nil, err
	}

	deliveries, err := requestOf(ctx).loaders().deliveries(deliveryPage{before, first + 1}).of(ctx, site.ID)
	if err != nil {
		return nil, err
	}

	deliveries, page := cutPage(list, deliveries, first, after, func(d *model.Delivery) int64 { return d.ID })
	edges := make([]*generated.DeliveryEdge, len(deliveries))
	for i, delivery := range deliveries {
		edges[i] = &generated.DeliveryEdge{Cursor: list.cursor(delivery.ID), Node: delivery}
	}

	return &generated.DeliveryConnection{Edges: edges, PageInfo: page}, nil
}

// delivery returns a delivery of the account by its global id, or nil.
func (r *Resolver) delivery(ctx context.Context, accountID int64, id string) (*model.Delivery, error) {
	siteID, number, ok := r.ids.ParseDelivery(id)
	if !ok {
		return nil, nil
	}
	return orNull(r.outbox.DeliveryByID(ctx, accountID, siteID, number))
}

func (r *Resolver) sendTestWebhook(ctx context.Context, id string) (*model.Delivery, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}

	siteID, ok := r.ids.Parse(model.NodeSite, id)
	if !ok {
		return nil, notFound("siteId")
	}

	delivery, err := r.outbox.QueueTestWebhook(ctx, viewer.AccountID, siteID, requestOf(ctx).now)
	if err != nil {
		return nil, orNotFound("siteId", err)
	}

	r.ring(delivery)
	return delivery, nil
}

func (r *Resolver) redeliver(ctx context.Context, id string) (*model.Delivery, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}

	siteID, number, ok := r.ids.ParseDelivery(id)
	if !ok {
		return nil, notFound("deliveryId")
	}

	delivery, err := r.outbox.Redeliver(ctx, viewer.AccountID, siteID, number, requestOf(ctx).now)
	if err != nil {
		return nil, orNotFound("deliveryId", err)
	}

	requestOf(ctx).forget()
	r.ring(delivery)
	return delivery, nil
}

// ring tells the workers of a delivery that was asked for by hand. Without a bell they find it by
// themselves.
func (r *Resolver) ring(delivery *model.Delivery) {
	if r.bell != nil {
		r.bell([]model.Delivery{*delivery})
	}
}
