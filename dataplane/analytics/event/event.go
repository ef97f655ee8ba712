// Package event holds the rules of events (analytics contract, section 2): which names a site
// accepts, and which properties of an event are stored. The collect and server endpoints call it
// with the JSON text of a request. It is pure, and never converts an amount to a float: amounts are
// read from the text of their number.
package event

import (
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// Rules are the event settings of a site. They are read-only.
type Rules struct {
	Registered map[string]bool // the site's own event names
	Automatic  bool            // site setting automaticEvents
	SiteSearch bool            // site setting measureSiteSearch
	Ecommerce  bool            // site setting measureEcommerce
	Domains    []string        // the site's normalised domains; a click to one of them or a subdomain is not outbound
}

// Accepted is an event that passed the rules.
type Accepted struct {
	Name string

	// Properties is a compact, storable JSON object of at most 4,096 bytes, without the fields
	// below. It is empty for none.
	Properties string

	Value         model.Money // of begin_checkout, purchase and refund; negative for a refund
	Currency      string      // three capital letters; empty if the event has no value
	TransactionID string      // of a purchase or refund, at most 128 characters
}

// The errors of Check (analytics contract, section 7).
var (
	// ErrUnknown is returned for a well-formed name that the site does not accept.
	ErrUnknown = &model.Error{Kind: model.Invalid, Code: "unknown_event"}
	// ErrBad is returned for a malformed name, and for required e-commerce fields that are missing
	// or unreadable. The error for a field wraps ErrBad and names the field.
	ErrBad = &model.Error{Kind: model.Invalid, Code: "bad_event"}
	// ErrOwnLink is returned for an outbound_click to one of the site's own domains. The event is
	// ignored: collect answers 204, server {"status":"ignored","reason":"own_link"}.
	ErrOwnLink = errors.New("outbound click to the site's own domain")
)

// Check applies the rules to an event's name and properties. properties is the JSON text of m or
// meta: any JSON value, or nil if it is absent. Registering a reserved name does not make it
// acceptable.
func Check(name string, properties []byte, rules *Rules) (Accepted, error) {
	if !model.IsEventName(name) {
		return Accepted{}, ErrBad
	}
	if !rules.accept(name) {
		return Accepted{}, ErrUnknown
	}

	r := readers.Get().(*reader)
	defer r.release()

	r.start(properties)

	switch {
	case model.IsEcommerceEvent(name):
		return r.ecommerce(name)
	case model.IsAutomaticEvent(name):
		return r.automatic(name, rules.Domains)
	}

	return r.custom(name), nil
}

// accept reports whether the site accepts events with this well-formed name.
func (r *Rules) accept(name string) bool {
	switch {
	case name == model.EventSiteSearch:
		return r.Automatic && r.SiteSearch
	case model.IsAutomaticEvent(name):
		return r.Automatic
	case model.IsEcommerceEvent(name):
		return r.Ecommerce
	}

	return r.Registered[name] && !model.IsReservedEvent(name)
}
