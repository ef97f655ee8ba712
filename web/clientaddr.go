package web

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Clients returns the addresses of clients behind trusted proxies, and detects proxies that are not
// configured. It is safe for concurrent use.
type Clients struct {
	trusted []netip.Prefix
	log     *slog.Logger
	now     func() time.Time

	mu           sync.Mutex
	seen, warned time.Time // last time that a shared address was seen, and logged
}

// NewClients returns a Clients that trusts the given proxies, and logs a warning about others.
func NewClients(trusted []netip.Prefix, log *slog.Logger, now func() time.Time) *Clients {
	return &Clients{trusted: trusted, log: log, now: now}
}

// ClientAddr returns a function that returns a request's client address like Clients.Addr, without
// a warning.
func ClientAddr(trusted []netip.Prefix) func(*http.Request) netip.Addr {
	return func(r *http.Request) netip.Addr {
		addr, _ := findClient(r, trusted)
		return addr
	}
}

// Addr returns a request's client address: the socket's peer, unless that is a trusted proxy. Then
// it is the rightmost hop of X-Forwarded-For that is not a trusted proxy itself. Forwarding headers
// of other peers are ignored. Addr returns the zero address if it cannot read one.
func (c *Clients) Addr(r *http.Request) netip.Addr {
	addr, shared := findClient(r, c.trusted)
	if shared {
		c.warn()
	}
	return addr
}

// Shared reports whether the client address belongs to a proxy that is not configured: a loopback
// or private address that forwards other addresses. All clients behind it share this address, so
// that limits by network must not apply to it.
func (c *Clients) Shared(r *http.Request) bool {
	_, shared := findClient(r, c.trusted)
	return shared
}

// warnEvery is the least time between two logged warnings, and the time for which Warning repeats
// one.
const warnEvery = time.Hour

const proxyWarning = "requests come through a proxy that TALLYGATE_TRUSTED_PROXIES does not name, or that sends no " +
	"X-Forwarded-For: all its clients count as one, and no limit by network applies to them"

// Warning returns a sentence for the operator if a shared address was seen within the last hour, or
// an empty string.
func (c *Clients) Warning() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.IsZero() || c.now().Sub(c.seen).Abs() >= warnEvery {
		return ""
	}
	return proxyWarning
}

// warn logs the warning at most once in warnEvery. It logs no address.
func (c *Clients) warn() {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.seen = c.now()
	if !c.warned.IsZero() && c.seen.Sub(c.warned).Abs() < warnEvery {
		return
	}

	c.warned = c.seen
	c.log.Warn(proxyWarning, "setting", "TALLYGATE_TRUSTED_PROXIES")
}

// findClient returns a request's client address, and whether many clients share that address.
func findClient(r *http.Request, trusted []netip.Prefix) (addr netip.Addr, shared bool) {
	addr = hop(r.RemoteAddr)
	if !contains(trusted, addr) {
		return addr, isInternal(addr) && isForwarded(r)
	}

	headers := r.Header["X-Forwarded-For"]
	for i := len(headers) - 1; i >= 0; i-- {
		for rest, more := headers[i], true; more; {
			var last string
			rest, last, more = cutLast(rest, ",")
			forwarded := hop(strings.TrimSpace(last))

			// An unreadable entry makes those to its left untrustworthy.
			if !forwarded.IsValid() {
				return addr, isInternal(addr)
			}

			addr = forwarded
			if !contains(trusted, addr) {
				return addr, isInternal(addr) && (more || i > 0)
			}
		}
	}

	return addr, len(headers) == 0 && isInternal(addr) && isForwarded(r)
}

// isForwarded reports whether the request has a header in which proxies name the client.
func isForwarded(r *http.Request) bool {
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// isInternal reports whether the address is loopback, private or link-local, as those of proxies
// are.
func isInternal(addr netip.Addr) bool {
	return addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// hop parses an address with or without a port. It returns the zero address if it cannot.
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

// cutLast splits s at the last separator. Without one, last is all of s and more is false.
func cutLast(s, separator string) (rest, last string, more bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}
	return "", s, false
}
