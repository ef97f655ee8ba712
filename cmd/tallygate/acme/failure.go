package acme

import (
	"errors"
	"strings"

	"github.com/mholt/acmez/v3/acme"

	"github.com/tallygate/tallygate/db/certificates"
)

// problems are the authority's errors of RFC 8555, without their prefix, by class.
var problems = map[string]certificates.Failure{
	"rateLimited":             certificates.FailureRateLimit,
	"dns":                     certificates.FailureDNS,
	"connection":              certificates.FailureConnection,
	"tls":                     certificates.FailureConnection,
	"incorrectResponse":       certificates.FailureResponse,
	"unauthorized":            certificates.FailureResponse,
	"caa":                     certificates.FailureCAA,
	"rejectedIdentifier":      certificates.FailureRefused,
	"unsupportedIdentifier":   certificates.FailureRefused,
	"accountDoesNotExist":     certificates.FailureRefused,
	"externalAccountRequired": certificates.FailureRefused,
	"invalidContact":          certificates.FailureRefused,
	"unsupportedContact":      certificates.FailureRefused,
	"userActionRequired":      certificates.FailureRefused,
	"serverInternal":          certificates.FailureAuthority,
}

// problemPrefix begins the types of the authority's errors.
const problemPrefix = "urn:ietf:params:acme:error:"

// classify returns the class of an order's error.
func classify(err error) certificates.Failure {
	if problem, ok := errors.AsType[acme.Problem](err); ok {
		if class, known := problems[strings.TrimPrefix(problem.Type, problemPrefix)]; known {
			return class
		}
		return certificates.FailureOther
	}
	if errors.Is(err, errStorage) {
		return certificates.FailureStorage
	}

	// The library returns errors of its HTTP client without a type of their own.
	return certificates.FailureAuthority
}
