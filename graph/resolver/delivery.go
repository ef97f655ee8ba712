package resolver

import (
	"context"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/loaders"
)

// Webhook deliveries of a site, and the deliveries that an owner requests.

func (r *siteResolver) Deliveries(
	ctx context.Context, obj *model.Site, first int, after *string,
) (*generated.DeliveryConnection, error) {
	cursors := r.cursors(model.AfterDelivery)
	before, err := cursors.parsePage(first, after)
	if err != nil {
		return nil, err
	}

	position := loaders.DeliveryPage{Before: before, Limit: first + 1}
	deliveries, err := requestOf(ctx).loaders().Deliveries(position).Of(ctx, obj.ID)
	if err != nil {
		return nil, err
	}

	deliveries, page := cutPage(cursors, deliveries, first, after, func(d *model.Delivery) int64 { return d.ID })
	edges := make([]*generated.DeliveryEdge, len(deliveries))
	for i, delivery := range deliveries {
		edges[i] = &generated.DeliveryEdge{Cursor: cursors.encode(delivery.ID), Node: delivery}
	}

	return &generated.DeliveryConnection{Edges: edges, PageInfo: page}, nil
}

func (r *deliveryResolver) ID(ctx context.Context, obj *model.Delivery) (string, error) {
	return r.ids.OfDelivery(obj.SiteID, obj.ID), nil
}

func (r *deliveryResolver) Kind(ctx context.Context, obj *model.Delivery) (generated.DeliveryKind, error) {
	return generated.DeliveryKind(strings.ToUpper(obj.Kind)), nil
}

func (r *deliveryResolver) State(ctx context.Context, obj *model.Delivery) (generated.DeliveryState, error) {
	return generated.DeliveryState(strings.ToUpper(obj.State)), nil
}

func (r *deliveryResolver) Attempts(ctx context.Context, obj *model.Delivery) ([]*model.DeliveryAttempt, error) {
	attempts, err := requestOf(ctx).loaders().Attempts.Of(ctx, outbox.DeliveryKey{SiteID: obj.SiteID, ID: obj.ID})
	return orEmpty(attempts), err
}

func (r *deliveryResolver) NextAttemptAt(ctx context.Context, obj *model.Delivery) (*model.Instant, error) {
	if obj.State != model.DeliveryPending {
		return nil, nil
	}
	return &obj.NextAttemptAt, nil
}

func (r *deliveryAttemptResolver) Status(ctx context.Context, obj *model.DeliveryAttempt) (*int, error) {
	if obj.Status == 0 {
		return nil, nil
	}
	return &obj.Status, nil
}

func (r *deliveryAttemptResolver) Error(ctx context.Context, obj *model.DeliveryAttempt) (*string, error) {
	return orNil(obj.Error), nil
}

func (r *mutationResolver) SendTestWebhook(
	ctx context.Context, input generated.SendTestWebhookInput,
) (*generated.DeliveryPayload, error) {
	delivery, err := onSite(ctx, r, model.MayConfigure, input.SiteID,
		func(accountID, siteID int64) (*model.Delivery, error) {
			return r.outbox.QueueTestWebhook(ctx, accountID, siteID, requestOf(ctx).now)
		})
	if err != nil {
		return nil, err
	}

	r.notifyWorkers(delivery)
	return &generated.DeliveryPayload{Delivery: delivery}, nil
}

func (r *mutationResolver) Redeliver(
	ctx context.Context, input generated.RedeliverInput,
) (*generated.DeliveryPayload, error) {
	viewer, err := r.require(ctx, model.MayConfigure)
	if err != nil {
		return nil, err
	}

	siteID, number, ok := r.ids.ParseDelivery(input.DeliveryID)
	if !ok {
		return nil, notFound("deliveryId")
	}

	delivery, err := r.outbox.Redeliver(ctx, viewer.AccountID, siteID, number, requestOf(ctx).now)
	if err != nil {
		return nil, orNotFound("deliveryId", err)
	}

	r.notifyWorkers(delivery)
	return &generated.DeliveryPayload{Delivery: delivery}, nil
}

// notifyWorkers notifies the workers of a delivery that a caller requested. Without a notifier they
// find it when they poll.
func (r *mutationResolver) notifyWorkers(delivery *model.Delivery) {
	if r.notify != nil {
		r.notify([]model.Delivery{*delivery})
	}
}

// delivery returns a delivery of the account by its global id, or nil.
func (r *Resolver) delivery(ctx context.Context, accountID int64, id string) (*model.Delivery, error) {
	siteID, number, ok := r.ids.ParseDelivery(id)
	if !ok {
		return nil, nil
	}
	return orNull(r.outbox.DeliveryByID(ctx, accountID, siteID, number))
}
