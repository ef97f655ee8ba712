// Package event holds the pure rules of events (analytics contract, section 2): which names a site
// accepts, and what is kept of an event's properties. Collect and server call it with the JSON text
// they were sent. It knows no request, no clock and no storage, and it never touches a float:
// amounts are read from the text of their number.
package event

import (
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// Rules is what a site allows. It is read-only after it is made.
type Rules struct {
	Registered map[string]bool // the site's own event names
	Automatic  bool            // site setting automaticEvents
	SiteSearch bool            // site setting measureSiteSearch
	Ecommerce  bool            // site setting measureEcommerce
	Domains    []string        // the site's domains, normalised: a click to one of them or a subdomain is not outbound
}

// Accepted is what an event that passed the rules is stored with.
type Accepted struct {
	Name          string
	Properties    string      // JSON object of at most 4,096 bytes, compact and storable, without what has a field here; empty for none
	Value         model.Money // of begin_checkout, purchase and refund; negative for a refund
	Currency      string      // three capital letters; empty: the event has no value
	TransactionID string      // of a purchase or refund, at most 128 characters
}

// The errors of Check (analytics contract, section 7).
var (
	// ErrUnknown is returned for a well-formed name that the site does not accept.
	ErrUnknown = &model.Error{Kind: model.Invalid, Code: "unknown_event"}
	// ErrBad is returned for a name without the form of one, and for required e-commerce fields
	// that are missing or unreadable.
	ErrBad = &model.Error{Kind: model.Invalid, Code: "bad_event"}
	// ErrOwnLink says that an outbound_click leads to one of the site's own domains, and so is
	// none. The event is ignored: collect answers 204, server
	// {"status":"ignored","reason":"own_link"}.
	ErrOwnLink = errors.New("outbound click to the site's own domain")
)

// Check applies the rules to an event's name and to its properties, given as the JSON text of m or
// meta; nil when absent, otherwise any JSON value. A reserved name never becomes acceptable by
// being registered.
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

// accept reports whether the site takes events of this well-formed name.
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
