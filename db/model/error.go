package model

import (
	"errors"
	"strconv"
	"time"
)

// Kind classifies an Error. Each edge (data plane, GraphQL, jobs) translates kinds in one table.
type Kind uint8

// The kinds. The zero value is Internal, so that an unclassified error is never shown.
const (
	Internal Kind = iota
	Invalid
	NotFound
	Conflict
	Unauthenticated
	Forbidden
	MethodNotAllowed
	RateLimited
	QuotaExceeded
	Unavailable
)

// Error is an error with a Code and Message that can be shown to the caller. Cause is only logged.
type Error struct {
	Kind       Kind
	Code       string        // stable, machine-readable, for instance "bad_path"
	Field      string        // the invalid input field, if any; a list's element as "domains.3", from 0
	Message    string        // one sentence for a person
	RetryAfter time.Duration // how long to wait before a retry; 0: unknown
	Cause      error
}

func (e *Error) Error() string {
	s := e.Code
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}

	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// InvalidField returns the error for one input field that breaks its rule.
func InvalidField(field, code, message string) *Error {
	return &Error{Kind: Invalid, Code: code, Field: field, Message: message}
}

// MaxListErrors is how many invalid elements of one list are reported at once.
const MaxListErrors = 20

// InvalidItem returns the error for one element of a list, by its index from 0.
func InvalidItem(field string, index int, code, message string) *Error {
	return InvalidField(field+"."+strconv.Itoa(index), code, message)
}

// KindOf returns the kind of the first Error in err's chain, or Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// ErrNotFound is returned for a row that does not exist or belongs to another account. Callers
// cannot distinguish the two.
var ErrNotFound = &Error{Kind: NotFound, Code: "not_found", Message: "No such object."}

// ErrStale is returned when a row was deleted or changed since the caller read it, for instance the
// password that the caller has checked.
var ErrStale = &Error{Kind: NotFound, Code: "not_found", Message: "No such object."}

// ErrForbidden is returned to an authenticated caller without the required permission (see
// User.May).
var ErrForbidden = &Error{
	Kind: Forbidden, Code: "forbidden", Message: "Your role, or the scopes of your API token, do not allow this.",
}

// ErrSecondFactorRequired is returned to a user without a second factor if the account requires it.
var ErrSecondFactorRequired = &Error{
	Kind: Forbidden, Code: "second_factor_required",
	Message: "This account requires a second factor. Set one up first.",
}

// Joined returns all errors joined in err, at any level: only err if it joins no errors, and nil
// for nil.
func Joined(err error) (list []error) {
	if err == nil {
		return nil
	}

	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}

	for _, one := range many.Unwrap() {
		list = append(list, Joined(one)...)
	}

	return list
}
