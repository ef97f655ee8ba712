package dataplane

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// ClientAddr returns the function that finds a request's client address. It is the socket's peer, unless that is one of
// the trusted proxies: then it is the right-most hop of X-Forwarded-For that is not a trusted proxy itself. Forwarding
// headers from anybody else are ignored. The zero address means that none could be read.
func ClientAddr(trusted []netip.Prefix) func(*http.Request) netip.Addr {
	isTrusted := func(a netip.Addr) bool {
		for _, p := range trusted {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	return func(r *http.Request) netip.Addr {
		addr := hop(r.RemoteAddr)
		if !isTrusted(addr) {
			return addr
		}
		headers := r.Header["X-Forwarded-For"]
		for i := len(headers) - 1; i >= 0; i-- {
			for rest, more := headers[i], true; more; {
				var last string
				rest, last, more = cutLast(rest, ",")
				forwarded := hop(strings.TrimSpace(last))
				if !forwarded.IsValid() {
					return addr // nothing left of a broken entry can be believed
				}
				if addr = forwarded; !isTrusted(addr) {
					return addr
				}
			}
		}
		return addr
	}
}

// hop reads an address with or without a port.
func hop(s string) netip.Addr {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	addr, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

// cutLast splits s at the last separator; more is false when there is none and last is all of s.
func cutLast(s, separator string) (rest, last string, more bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return "", s, false
}
