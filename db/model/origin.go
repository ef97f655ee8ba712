package model

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// MaxOrigins is how many origins may frame the report of one shared link.
const MaxOrigins = 10

// ParseOrigins checks the origins of pages, and returns them as browsers write them, sorted. An
// origin is https with a host name and optionally a port, such as `https://www.example.org`. For
// tests it may be http with localhost or a name below it. Paths, wildcards and addresses are
// refused.
func ParseOrigins(field string, origins []string) (List[string], error) {
	parsed := List[string]{}
	var wrong []error
	for i, text := range origins {
		origin, ok := parseOrigin(strings.TrimSpace(text))
		if !ok {
			wrong = append(wrong, InvalidItem(field, i, "invalid_origin", strconv.Quote(shown(text))+
				" is not an origin. Enter one such as https://www.example.org, without path; http is for localhost only."))
		}
		parsed = append(parsed, origin)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong[:min(len(wrong), MaxListErrors)]...)
	}

	slices.Sort(parsed)
	parsed = slices.Compact(parsed)
	if len(parsed) > MaxOrigins {
		return nil, &Error{
			Kind: Conflict, Code: "too_many_origins", Field: field,
			Message: fmt.Sprintf("A shared link has at most %d origins.", MaxOrigins),
		}
	}
	return parsed, nil
}

// parseOrigin returns an origin in the form of browsers: the host in its ASCII form, without the
// scheme's own port.
func parseOrigin(text string) (origin string, ok bool) {
	u, err := url.Parse(text)
	isBare := err == nil && !strings.HasSuffix(u.Hostname(), ".") && u.User == nil && (u.Path == "" || u.Path == "/") && !strings.ContainsAny(text, "?#")
	if !isBare {
		return "", false
	}

	// A policy cannot name hosts with an underscore, and addresses of IPv6.
	host, ok := normalHost(u.Hostname())
	if !ok || isAddress(host) || hasOuterHyphen(host) || strings.Contains(host, "_") {
		return "", false
	}

	switch {
	case u.Scheme == "https" && (strings.Contains(host, ".") || isLocal(host)):
	case u.Scheme == "http" && isLocal(host):
	default:
		return "", false
	}

	port := u.Port()
	if port == "" && strings.HasSuffix(u.Host, ":") {
		return "", false
	}
	if port == "" || u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		return u.Scheme + "://" + host, true
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return u.Scheme + "://" + host + ":" + strconv.FormatUint(number, 10), err == nil && number > 0
}
