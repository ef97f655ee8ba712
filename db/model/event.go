package model

// The automatic events (analytics contract, section 2).
const (
	EventOutboundClick = "outbound_click"
	EventFileDownload  = "file_download"
	EventScroll        = "scroll"
	EventSiteSearch    = "site_search"
)

// The e-commerce events (analytics contract, section 2).
const (
	EventViewItem      = "view_item"
	EventAddToCart     = "add_to_cart"
	EventBeginCheckout = "begin_checkout"
	EventPurchase      = "purchase"
	EventRefund        = "refund"
)

// IsAutomaticEvent reports whether the script measures an event of this name by itself.
func IsAutomaticEvent(name string) bool {
	switch name {
	case EventOutboundClick, EventFileDownload, EventScroll, EventSiteSearch:
		return true
	}
	return false
}

// IsEcommerceEvent reports whether name is one of the five e-commerce events.
func IsEcommerceEvent(name string) bool {
	switch name {
	case EventViewItem, EventAddToCart, EventBeginCheckout, EventPurchase, EventRefund:
		return true
	}
	return false
}

// IsReservedEvent reports whether an owner cannot register the name, because it already has a
// meaning.
func IsReservedEvent(name string) bool {
	return IsAutomaticEvent(name) || IsEcommerceEvent(name) || name == "pageview" || name == "engagement"
}

// IsEventName reports whether s has the form of an event name: 1 to 48 lower-case letters, digits,
// underscores and hyphens (analytics contract, section 2).
func IsEventName(s string) bool {
	if len(s) < 1 || len(s) > 48 {
		return false
	}

	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}

	return true
}
