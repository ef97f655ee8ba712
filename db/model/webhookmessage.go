package model

import "slices"

// WebhookMessage is a message that the program sends to webhooks of sites and to alert channels of
// the kind webhook. The table of docs/owner/webhooks.md and the webhooks of dataplane/openapi.json, with
// the schemas of the bodies, are compared with this list.
type WebhookMessage struct {
	Name    string // in the table
	Kind    string // of its deliveries; MessageKindAlert: sent to an alert channel
	Type    string // the body's "type"; "": the kind
	Event   string // of its deliveries; "": all that no other message of the kind has
	Webhook string // of the site: DeliveryConversion or DeliveryDailyExport; ChannelWebhook of an alert channel

	Fields   []string // of the body, in order
	Optional []string // likewise, left out if unknown
}

var (
	conversionFields = []string{"type", "event", "site_key", "occurred_at", "path", "attribution"}
	saleFields       = []string{"value", "currency", "transaction_id"}

	alertFields   = []string{"type", "id", "event", "phase", "title"}
	summaryFields = slices.Concat(alertFields, []string{"from", "to", "summary"})
	alertAbout    = []string{"account", "site", "url"}
)

// MessageKindAlert is the kind of messages to alert channels. They are no deliveries.
const MessageKindAlert = "alert"

// WebhookMessages has every message. A new one needs a row here, a row and an example in
// docs/owner/webhooks.md, and, with a new kind, a schema in dataplane/openapi.json.
var WebhookMessages = []WebhookMessage{
	{
		Name: "purchase", Kind: DeliveryConversion, Event: EventPurchase, Webhook: DeliveryConversion,
		Fields: slices.Concat(conversionFields, saleFields),
	},
	{
		Name: "refund", Kind: DeliveryConversion, Event: EventRefund, Webhook: DeliveryConversion,
		Fields: slices.Concat(conversionFields, saleFields),
	},
	{
		Name: "key event", Kind: DeliveryConversion, Webhook: DeliveryConversion,
		Fields: conversionFields, Optional: saleFields,
	},
	{
		Name: "daily export", Kind: DeliveryDailyExport, Webhook: DeliveryDailyExport,
		Fields: []string{"type", "site_key", "date", "part", "parts", "rows"},
	},
	{
		Name: "test", Kind: DeliveryTest, Event: TestEvent, Webhook: DeliveryConversion,
		Fields: []string{"type", "site_key", "sent_at"},
	},
	{
		Name: "test of the daily export", Kind: DeliveryTest, Event: TestExportEvent, Webhook: DeliveryDailyExport,
		Fields: []string{"type", "webhook", "site_key", "sent_at"},
	},
	{
		Name: "test of a channel", Kind: MessageKindAlert, Type: "test", Event: MessageTest, Webhook: string(ChannelWebhook),
		Fields: alertFields, Optional: alertAbout,
	},
	{
		Name: "weekly summary", Kind: MessageKindAlert, Type: "summary", Event: MessageWeekly, Webhook: string(ChannelWebhook),
		Fields: summaryFields, Optional: slices.Concat(alertAbout, []string{"change"}),
	},
	{
		Name: "monthly summary", Kind: MessageKindAlert, Type: "summary", Event: MessageMonthly, Webhook: string(ChannelWebhook),
		Fields: summaryFields, Optional: slices.Concat(alertAbout, []string{"change"}),
	},
	{
		Name: "alert", Kind: MessageKindAlert, Webhook: string(ChannelWebhook),
		Fields:   slices.Concat(alertFields, []string{"figures"}),
		Optional: slices.Concat(alertAbout, []string{"sitekey", "subject", "began_at", "ended_at", "change"}),
	},
}

// DeliveryKinds returns the kinds of all deliveries, each once, in order.
func DeliveryKinds() []string {
	var kinds []string
	for _, m := range WebhookMessages {
		if m.Kind != MessageKindAlert {
			kinds = append(kinds, m.Kind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
