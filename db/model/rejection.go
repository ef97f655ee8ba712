package model

// RejectionAdvice returns one sentence for the owner of a site: what to do about calls with this
// error code or reason (analytics contract, sections 4 and 7).
func RejectionAdvice(code string) string {
	if advice, ok := rejectionAdvice[code]; ok {
		return advice
	}
	return "Calls were not recorded for this reason; see the reference of the endpoint."
}

// IsIgnored reports whether calls with this code are dropped on purpose and need no action.
func IsIgnored(code string) bool { return ignoredCodes[code] }

var ignoredCodes = map[string]bool{
	"bot": true, "excluded_address": true, "duplicate_transaction": true, "duplicate_pageview": true, "own_link": true,
}

var rejectionAdvice = map[string]string{
	"bad_body":              "The body was empty or larger than 8 KB, or broke off: send less in one call.",
	"bad_json":              "The body was not one JSON object, had a key twice, or its t was not pageview, event or engagement: correct the program that makes it.",
	"bad_path":              "The page path did not begin with a slash: send the path of the page, without host and query.",
	"unknown_event":         "The event name is missing, not registered or not written as it was registered, or events of this kind are switched off: register the name, or switch them on in the site's settings.",
	"bad_event":             "A required e-commerce field (transaction_id, value, currency, item_id) was missing or could not be read, a refund had the id of a purchase, or your server sent a name that is none: compare them with the reference.",
	"visitor_required":      "Your server sent no valid ip or user_agent: send those of the visitor.",
	"domain_not_allowed":    "The page is on a domain that is not the site's: add it as an extra domain if it is yours.",
	"quota_exceeded":        "The month's page views are used up: choose a larger plan, or wait for the next month.",
	"flood":                 "One network sent more calls than a large office does, and those above the limit were left out: nothing to do if they were forged; if they were real, ask the operator to raise TALLYGATE_FLOOD_BURST and TALLYGATE_FLOOD_RATE.",
	"bot":                   "These were bots and crawlers: nothing to do.",
	"excluded_address":      "These came from addresses that you excluded: nothing to do.",
	"duplicate_transaction": "Purchases or refunds with these ids were recorded before: nothing to do.",
	"duplicate_pageview":    "The page sent manually what the script had sent by itself: nothing to do, or remove the call from the page.",
	"own_link":              "These clicks led to your own domains: nothing to do.",
}
