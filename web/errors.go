package web

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/tallygate/tallygate/db/model"
)

// statuses is the program's one table of error kinds and HTTP statuses (section 7 of both
// contracts). GraphQL answers errors with its own codes instead.
var statuses = map[model.Kind]int{
	model.Invalid:          http.StatusBadRequest,
	model.Unauthenticated:  http.StatusUnauthorized,
	model.Forbidden:        http.StatusForbidden,
	model.NotFound:         http.StatusNotFound,
	model.MethodNotAllowed: http.StatusMethodNotAllowed,
	model.Conflict:         http.StatusConflict,
	model.QuotaExceeded:    http.StatusTooManyRequests,
	model.RateLimited:      http.StatusTooManyRequests,
	model.Unavailable:      http.StatusServiceUnavailable,
}

// Shown returns the error that a client may see: the first model.Error in err's chain. An error
// without an HTTP status, such as a panic, is an internal fault. It becomes one of kind Unavailable
// with err as its cause.
func Shown(err error) *model.Error {
	if shown, ok := errors.AsType[*model.Error](err); ok && statuses[shown.Kind] != 0 {
		return shown
	}
	return &model.Error{
		Kind: model.Unavailable, Code: "unavailable", Message: "The service is temporarily unavailable.", Cause: err,
	}
}

// WriteError answers with the status of an error that Shown returned, its Retry-After in whole
// seconds, and a body as JSON. methods is the Allow header of the endpoint, sent with status 405.
func WriteError(w http.ResponseWriter, shown *model.Error, methods string, body any) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")

	if shown.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(shown.RetryAfter.Seconds()))))
	}
	if shown.Kind == model.MethodNotAllowed {
		header.Set("Allow", methods)
	}

	w.WriteHeader(statuses[shown.Kind])

	// A failed write means that the client has left.
	_ = json.NewEncoder(w).Encode(body)
}
