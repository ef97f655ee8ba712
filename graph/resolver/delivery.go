package resolver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Webhook deliveries of a site, and the deliveries that an owner requests.

func (r *siteResolver) Deliveries(
	ctx context.Context, obj *model.Site, first *int, after *string, last *int, before *string,
	orderBy generated.DeliveryOrder, filter *generated.DeliveryFilter,
) (*generated.DeliveryConnection, error) {
	kind := nodeid.AfterDelivery
	if orderBy == generated.DeliveryOrderOldest {
		kind = nodeid.AfterOldestDelivery
	}

	p, cursors := paging{first, after, last, before}, r.cursors(kind)
	page, err := cursors.page(p, orderBy == generated.DeliveryOrderNewest)
	if err != nil {
		return nil, err
	}

	selected, err := deliveryFilter(filter)
	if err != nil {
		return nil, err
	}

	position := outbox.DeliveryPage{DeliveryFilter: selected, Page: page}
	deliveries, err := requestOf(ctx).loaders().Deliveries(position).Of(ctx, obj.ID)
	if err != nil {
		return nil, err
	}

	deliveries, found, info := cut(p, deliveries, func(d *model.Delivery) string { return cursors.encode(d.ID) })
	edges := make([]*generated.DeliveryEdge, len(deliveries))
	for i, delivery := range deliveries {
		edges[i] = &generated.DeliveryEdge{Cursor: found[i], Node: delivery}
	}

	return &generated.DeliveryConnection{
		Edges: edges, Nodes: orEmpty(deliveries), PageInfo: info, SiteID: obj.ID, Filter: position.DeliveryFilter,
	}, nil
}

// maxFilterEvent is the length of the longest event of a delivery, in bytes.
const maxFilterEvent = 48

// deliveryFilter returns the filter that the arguments describe.
func deliveryFilter(filter *generated.DeliveryFilter) (f outbox.DeliveryFilter, err error) {
	if filter == nil {
		return f, nil
	}

	// The statement repeats the event for each site of the request.
	if f.Event = orBlank(filter.Event); len(f.Event) > maxFilterEvent {
		return f, invalidArgument("filter.event",
			fmt.Sprintf("The argument filter.event has at most %d characters.", maxFilterEvent))
	}
	f.Kind, f.State = orBlank(filter.Kind), orBlank(filter.State)
	if filter.Since != nil {
		f.Since = *filter.Since
	}
	if filter.Until != nil {
		f.Until = *filter.Until
	}

	return f, nil
}

func (r *deliveryConnectionResolver) TotalCount(ctx context.Context, obj *generated.DeliveryConnection) (int, error) {
	return requestOf(ctx).loaders().DeliveryCounts(obj.Filter).Of(ctx, obj.SiteID)
}

func (r *deliveryResolver) ID(ctx context.Context, obj *model.Delivery) (string, error) {
	return r.ids.OfDelivery(obj.SiteID, obj.ID), nil
}

func (r *deliveryResolver) MessageID(ctx context.Context, obj *model.Delivery) (string, error) {
	return r.ids.OfDelivery(obj.SiteID, obj.ID), nil
}

func (r *deliveryResolver) Site(ctx context.Context, obj *model.Delivery) (*model.Site, error) {
	return requestOf(ctx).loaders().Sites().Of(ctx, obj.SiteID)
}

func (r *deliveryResolver) URL(ctx context.Context, obj *model.Delivery) (*string, error) {
	if obj.CalledURL != "" {
		return &obj.CalledURL, nil
	}

	site, err := r.Site(ctx, obj)
	if site == nil || err != nil {
		return nil, err
	}

	return notZero(site.WebhookURL(obj.Webhook())), nil
}

// Body returns what is sent. It contains rows of the account's data, so that a token must be
// allowed to export.
func (r *deliveryResolver) Body(ctx context.Context, obj *model.Delivery) (*string, error) {
	if obj.Kind == model.DeliveryDailyExport {
		return nil, nil
	}
	if _, err := auth.Require(ctx, model.MayExport); err != nil {
		return nil, err
	}

	body, err := r.storedBody(ctx, obj)
	return notZero(body), err
}

func (r *deliveryResolver) Part(ctx context.Context, obj *model.Delivery) (*int, error) {
	part, err := r.dailyPart(ctx, obj)
	if part == nil || err != nil {
		return nil, err
	}
	return &part.Part, nil
}

func (r *deliveryResolver) Parts(ctx context.Context, obj *model.Delivery) (*int, error) {
	part, err := r.dailyPart(ctx, obj)
	if part == nil || err != nil {
		return nil, err
	}
	return &part.Parts, nil
}

// dailyPart returns which part of a daily export a delivery is; nil for other kinds.
func (r *deliveryResolver) dailyPart(ctx context.Context, obj *model.Delivery) (*model.DailyPart, error) {
	if obj.Kind != model.DeliveryDailyExport {
		return nil, nil
	}

	body, err := r.storedBody(ctx, obj)
	if body == "" || err != nil {
		return nil, err
	}

	var part model.DailyPart
	return &part, json.Unmarshal([]byte(body), &part)
}

func (r *deliveryResolver) storedBody(ctx context.Context, obj *model.Delivery) (string, error) {
	return requestOf(ctx).loaders().Bodies().Of(ctx, outbox.DeliveryKey{SiteID: obj.SiteID, ID: obj.ID})
}

func (r *deliveryResolver) Attempts(ctx context.Context, obj *model.Delivery) ([]*model.DeliveryAttempt, error) {
	attempts, err := requestOf(ctx).loaders().Attempts().Of(ctx, outbox.DeliveryKey{SiteID: obj.SiteID, ID: obj.ID})
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
	return notZero(obj.Error), nil
}

func (r *mutationResolver) SendTestWebhook(
	ctx context.Context, input generated.SendTestWebhookInput,
) (*generated.DeliveryPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	delivery, err := r.outbox.QueueTestWebhook(ctx, member.AccountID, siteID, input.Kind, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	r.notifyWorkers(*delivery)
	return &generated.DeliveryPayload{Delivery: delivery}, nil
}

func (r *mutationResolver) Redeliver(
	ctx context.Context, input generated.RedeliverInput,
) (*generated.DeliveryPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	_, number, _ := r.ids.ParseDelivery(input.DeliveryID)
	delivery, err := r.outbox.Redeliver(ctx, member.AccountID, siteID, number, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	r.notifyWorkers(*delivery)
	return &generated.DeliveryPayload{Delivery: delivery}, nil
}

func (r *mutationResolver) RedeliverFailed(
	ctx context.Context, input generated.RedeliverFailedInput,
) (*generated.RedeliverFailedPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	sent, err := r.outbox.RedeliverFailed(ctx, member.AccountID, siteID, input.Since, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	r.notifyWorkers(sent.First...)
	site, err := r.sites.SiteByID(ctx, member.AccountID, siteID)
	return &generated.RedeliverFailedPayload{Site: site, Redelivered: sent.Count, HasMore: sent.More}, err
}

func (r *mutationResolver) ResendDailyExport(
	ctx context.Context, input generated.ResendDailyExportInput,
) (*generated.ResendDailyExportPayload, error) {
	member, siteID := granted[model.SiteID](ctx)
	parts, err := r.outbox.ResendDailyExport(ctx, member.AccountID, siteID, input.Date, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	r.notifyWorkers(parts[0])
	site, err := r.sites.SiteByID(ctx, member.AccountID, siteID)
	return &generated.ResendDailyExportPayload{Site: site, Parts: len(parts)}, err
}

// notifyWorkers notifies the workers of deliveries that a caller requested. A worker sends all that
// is due in the lane of one. Without a notifier they find them when they poll.
func (r *mutationResolver) notifyWorkers(deliveries ...model.Delivery) {
	if r.notify != nil && len(deliveries) > 0 {
		r.notify(deliveries)
	}
}

// delivery returns a delivery of one of the viewer's accounts by its global id, or nil.
func (r *Resolver) delivery(ctx context.Context, viewer *model.User, id string) (*model.Delivery, error) {
	siteID, number, ok := r.ids.ParseDelivery(id)
	if !ok {
		return nil, nil
	}

	member, err := orNull(r.accounts.MemberFor(ctx, viewer, nodeid.Site, int64(siteID)))
	if member == nil || err != nil {
		return nil, err
	}

	return orNull(r.outbox.DeliveryByID(ctx, member.AccountID, siteID, number))
}
