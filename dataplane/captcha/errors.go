package captcha

import (
	"errors"
	"time"

	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
)

// The errors of the JSON endpoints (captcha contract, section 7). Callers see the messages.
var (
	errMethod = &model.Error{Kind: model.MethodNotAllowed, Code: "method_not_allowed",
		Message: "Method not allowed: send a POST request."}
	errBodySize = &model.Error{Kind: model.Invalid, Code: "bad_body",
		Message: "The body is larger than 8 KB or incomplete."}
	errBadJSON = &model.Error{Kind: model.Invalid, Code: "bad_json",
		Message: "The body is not one JSON object."}
	errWork = &model.Error{Kind: model.Invalid, Code: "invalid_work",
		Message: "Challenge not found or invalid work: request a new challenge."}
	errSecret = &model.Error{Kind: model.Unauthenticated, Code: "wrong_secret",
		Message: "Wrong secret: it does not match the sitekey."}
	errDomain = &model.Error{Kind: model.Forbidden, Code: "domain_not_allowed",
		Message: "Domain not allowed: the sitekey is bound to other domains."}
	errSitekey = &model.Error{Kind: model.NotFound, Code: "unknown_sitekey",
		Message: "Unknown sitekey."}
	errSuspended = &model.Error{Kind: model.NotFound, Code: model.RefusedSuspended,
		Message: "Unknown sitekey: the operator has suspended its account."}
	errNoSitekey = missing("sitekey")
)

// errBody returns the error for a body that jsonbody could not read, or nil.
func errBody(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonbody.ErrTooLarge):
		return errBodySize
	}
	return errBadJSON
}

// missing returns the error for a field that is absent, empty or of the wrong JSON type.
func missing(field string) *model.Error {
	return model.InvalidField(field, "missing_field", "The field "+field+" is missing or has the wrong type.")
}

// errTooMany returns the error for a network that requests more challenges than people could need.
func errTooMany(wait time.Duration) error {
	return &model.Error{Kind: model.RateLimited, Code: "too_many_challenges", RetryAfter: wait,
		Message: "Too many challenges were requested from this network: try again later."}
}

// codeUnavailable is the code of internal faults.
const codeUnavailable = "unavailable"

// errUnavailable returns the error for a temporary internal fault.
func errUnavailable(cause error) error {
	return &model.Error{Kind: model.Unavailable, Code: codeUnavailable, RetryAfter: time.Second, Cause: cause,
		Message: "The service is temporarily unavailable: try again."}
}

// unavailable is errUnavailable, but for an error that is for the caller already.
func unavailable(err error) error {
	if own, ok := errors.AsType[*model.Error](err); ok {
		return own
	}
	return errUnavailable(err)
}
