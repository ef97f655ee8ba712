package analytics

import (
	"encoding/json"

	"github.com/tallygate/tallygate/db/model"
)

// conversionBody is the body of the conversion webhook (analytics contract, section 2). Fields that
// the event or its visit does not have are left out, except that the three utm values are null.
type conversionBody struct {
	Type          string                `json:"type"`
	Event         string                `json:"event"`
	SiteKey       string                `json:"site_key"`
	OccurredAt    string                `json:"occurred_at"`
	Path          string                `json:"path"`
	Value         *model.Money          `json:"value,omitempty"`
	Currency      string                `json:"currency,omitempty"`
	TransactionID string                `json:"transaction_id,omitempty"`
	Attribution   conversionAttribution `json:"attribution"`
}

type conversionAttribution struct {
	Channel     string  `json:"channel"`
	UTMSource   *string `json:"utm_source"`
	UTMMedium   *string `json:"utm_medium"`
	UTMCampaign *string `json:"utm_campaign"`
	Gclid       string  `json:"gclid,omitempty"`
	Gbraid      string  `json:"gbraid,omitempty"`
	Wbraid      string  `json:"wbraid,omitempty"`
	Fbclid      string  `json:"fbclid,omitempty"`
	Msclkid     string  `json:"msclkid,omitempty"`
}

// occurredAt is the format of timestamps: ISO 8601 with an offset, to the microsecond.
const occurredAt = "2006-01-02T15:04:05.000000-07:00"

// conversion returns the delivery that reports a key event to the site's owner. It is due at once.
func conversion(siteKey string, e *model.Event, v *model.Visit) model.Delivery {
	body := conversionBody{
		Type:          model.DeliveryConversion,
		Event:         e.Name,
		SiteKey:       siteKey,
		OccurredAt:    e.At.Time().Format(occurredAt),
		Path:          e.Path,
		Currency:      e.Currency,
		TransactionID: e.TransactionID,
		Attribution: conversionAttribution{
			Channel:     string(v.Channel),
			UTMSource:   orNull(v.Source),
			UTMMedium:   orNull(v.Medium),
			UTMCampaign: orNull(v.Name),
			Gclid:       v.Gclid,
			Gbraid:      v.Gbraid,
			Wbraid:      v.Wbraid,
			Fbclid:      v.Fbclid,
			Msclkid:     v.Msclkid,
		},
	}

	if e.Currency != "" {
		body.Value = &e.Value
	}

	// Strings and numbers always marshal.
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}

	return model.Delivery{
		SiteID:        e.SiteID,
		ID:            model.NewTimeID(e.At),
		Kind:          model.DeliveryConversion,
		Event:         e.Name,
		State:         model.DeliveryPending,
		CreatedAt:     e.At,
		NextAttemptAt: e.At,
		Body:          string(text),
	}
}

// orNull returns a pointer to s, or nil for an empty string.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
