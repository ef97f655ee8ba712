package analytics

import (
	"errors"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/db/model"
)

// The errors of both endpoints (analytics contract, section 7), in addition to event.ErrUnknown and
// event.ErrBad.
var (
	errMethod          = &model.Error{Kind: model.MethodNotAllowed, Code: "method_not_allowed"}
	errBadJSON         = payload.ErrBadJSON
	errBadBody         = &model.Error{Kind: model.Invalid, Code: "bad_body"}
	errBadPath         = &model.Error{Kind: model.Invalid, Code: "bad_path"}
	errVisitorRequired = &model.Error{Kind: model.Invalid, Code: "visitor_required"}
	errMissingSecret   = &model.Error{Kind: model.Unauthenticated, Code: "missing_secret"}
	errInvalidSecret   = &model.Error{Kind: model.Unauthenticated, Code: "invalid_secret"}
	errDomain          = &model.Error{Kind: model.Forbidden, Code: "domain_not_allowed"}
	errUnknownSite     = &model.Error{Kind: model.NotFound, Code: "unknown_site_key"}
	errQuota           = &model.Error{Kind: model.QuotaExceeded, Code: "quota_exceeded"}
)

// codeUnavailable is the code of internal faults.
const codeUnavailable = "unavailable"

// errUnavailable returns the error for a temporary internal fault.
func errUnavailable(cause error) error {
	return &model.Error{Kind: model.Unavailable, Code: codeUnavailable, RetryAfter: time.Second, Cause: cause}
}

// unavailable is errUnavailable, but for an error that is for the caller already.
func unavailable(err error) error {
	if own, ok := errors.AsType[*model.Error](err); ok {
		return own
	}
	return errUnavailable(err)
}

// The reasons to ignore a call. An ignored call is accepted, but neither stored nor counted against
// the quota.
const (
	ignoredBot         = "bot"
	ignoredAddress     = "excluded_address"
	ignoredCountry     = "excluded_country"
	ignoredPath        = "excluded_path"
	ignoredSpam        = "referrer_spam" // the referring site is on the operator's list
	ignoredDataCentre  = "data_centre"   // the address is in a network of the operator's list
	ignoredFlood       = "flood"         // above the flood limit of the network
	ignoredServerFlood = "server_flood"  // above the limit of server-side events
	ignoredTransaction = "duplicate_transaction"
	ignoredPageview    = "duplicate_pageview"
	ignoredOwnLink     = "own_link" // outbound click to one of the site's own domains
)
