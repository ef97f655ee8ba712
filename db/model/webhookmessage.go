package model

import "slices"

// WebhookMessage is a message that the program sends to webhooks. The table of docs/webhooks.md and the
// webhooks of dataplane/openapi.json, with the schemas of the bodies, are compared with this list.
type WebhookMessage struct {
	Name    string // in the table
	Kind    string // of its deliveries, and the body's "type"
	Event   string // of its deliveries; "": all that no other message of the kind has
	Webhook string // of the site: DeliveryConversion or DeliveryDailyExport

	Fields   []string // of the body, in order
	Optional []string // likewise, left out if unknown
}

var (
	conversionFields = []string{"type", "event", "site_key", "occurred_at", "path", "attribution"}
	saleFields       = []string{"value", "currency", "transaction_id"}
)

// WebhookMessages has every message. A new one needs a row here, a row and an example in docs/webhooks.md, and,
// with a new kind, a schema in dataplane/openapi.json.
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
}

// WebhookMessageOf returns the message of a delivery. ok is false for an unknown one.
func WebhookMessageOf(kind, event string) (message WebhookMessage, ok bool) {
	for _, m := range WebhookMessages {
		if m.Kind == kind && (m.Event == event || m.Event == "") {
			return m, true
		}
	}
	return WebhookMessage{}, false
}

// DeliveryKinds returns the kinds of all messages, each once, in order.
func DeliveryKinds() []string {
	var kinds []string
	for _, m := range WebhookMessages {
		kinds = append(kinds, m.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
