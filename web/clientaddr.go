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

// Clients returns the addresses of clients behind trusted proxies. It detects proxies that are not
// configured, and those in front of which another hop hides the clients. It is safe for concurrent
// use.
type Clients struct {
	trusted []netip.Prefix
	log     *slog.Logger
	now     func() time.Time

	unknownProxy, hidden sighting
}

// sharing is the reason why many clients share an address.
type sharing int

const (
	notShared sharing = iota
	// byUnknownProxy means that the address is loopback or private, and forwards others.
	byUnknownProxy
	// byHiddenClients means that X-Forwarded-For leads to an address within the trusted networks,
	// which is that of another hop.
	byHiddenClients
)

// sighting records when requests with a shared address were seen.
type sighting struct {
	mu           sync.Mutex
	seen, warned time.Time // last time that such a request was seen, and logged
}

// NewClients returns a Clients that trusts the given proxies, and logs a warning about others.
func NewClients(trusted []netip.Prefix, log *slog.Logger, now func() time.Time) *Clients {
	return &Clients{trusted: trusted, log: log, now: now}
}

// ProbeHeader is the header by which `tallygate doctor` asks an endpoint of browsers what has arrived
// through the proxies in front. Such a request may come from this machine, so it is no sighting.
const ProbeHeader = "Tallygate-Probe"

// Addr returns a request's client address: the socket's peer, unless that is a trusted proxy. Then
// it is the rightmost hop of X-Forwarded-For that is not a trusted proxy itself. Forwarding headers
// of other peers are ignored. Addr returns the zero address if it cannot read one.
func (c *Clients) Addr(r *http.Request) netip.Addr {
	addr, shared := findClient(r, c.trusted)
	switch {
	case len(r.Header[ProbeHeader]) > 0:
	case shared == byUnknownProxy:
		c.warn(&c.unknownProxy, proxyWarning)
	case shared == byHiddenClients:
		c.warn(&c.hidden, hiddenWarning)
	}
	return addr
}

// Shared reports whether many clients share the client address, so that limits by network must not
// apply to it. It belongs to a proxy that is not configured, a loopback or private address that
// forwards other addresses; or X-Forwarded-For leads to an address within the trusted networks, so
// that a hop in front of the proxy hides the clients.
func (c *Clients) Shared(r *http.Request) bool {
	_, shared := findClient(r, c.trusted)
	return shared != notShared
}

// Sharing is Shared with its reason: "unknown-proxy", "hidden-clients", or "none".
func (c *Clients) Sharing(r *http.Request) string {
	switch _, shared := findClient(r, c.trusted); shared {
	case byUnknownProxy:
		return "unknown-proxy"
	case byHiddenClients:
		return "hidden-clients"
	}
	return "none"
}

// warnEvery is the least time between two logged warnings, and the time for which Warning and
// HiddenWarning repeat one.
const warnEvery = time.Hour

const (
	proxyWarning = "requests come through a proxy that TALLYGATE_TRUSTED_PROXIES does not name, or that sends no " +
		"X-Forwarded-For: all its clients count as one, and no limit by network applies to them"
	hiddenWarning = "X-Forwarded-For leads to an address within TALLYGATE_TRUSTED_PROXIES: a load balancer or gateway in " +
		"front of the proxy hides its clients, or clients are in these networks; clients with one such address count as " +
		"one, and no limit by network applies to them"
)

// Warning returns a sentence for the operator if requests of a proxy that is not configured were
// seen within the last hour, or an empty string.
func (c *Clients) Warning() string { return c.recent(&c.unknownProxy, proxyWarning) }

// HiddenWarning is Warning for requests whose clients are hidden from the trusted proxies.
func (c *Clients) HiddenWarning() string { return c.recent(&c.hidden, hiddenWarning) }

// recent returns the warning if its sighting is recent.
func (c *Clients) recent(s *sighting, warning string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen.IsZero() || c.now().Sub(s.seen).Abs() >= warnEvery {
		return ""
	}
	return warning
}

// warn records a sighting, and logs its warning at most once in warnEvery. It logs no address.
func (c *Clients) warn(s *sighting, warning string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.seen = c.now()
	if !s.warned.IsZero() && s.seen.Sub(s.warned).Abs() < warnEvery {
		return
	}

	s.warned = s.seen
	c.log.Warn(warning, "setting", "TALLYGATE_TRUSTED_PROXIES")
}

// findClient returns a request's client address, and whether many clients share that address.
func findClient(r *http.Request, trusted []netip.Prefix) (addr netip.Addr, shared sharing) {
	addr = hop(r.RemoteAddr)
	if !contains(trusted, addr) {
		return addr, unknownProxyIf(isInternal(addr) && isForwarded(r))
	}

	headers := r.Header["X-Forwarded-For"]
	for i := len(headers) - 1; i >= 0; i-- {
		for rest, more := headers[i], true; more; {
			var last string
			rest, last, more = cutLast(rest, ",")
			forwarded := hop(strings.TrimSpace(last))

			// An unreadable entry makes those to its left untrustworthy. The address is that of the
			// trusted hop which sent the entry, not of a client.
			if !forwarded.IsValid() {
				return addr, byHiddenClients
			}

			addr = forwarded
			if !contains(trusted, addr) {
				return addr, unknownProxyIf(isInternal(addr) && (more || i > 0))
			}
		}
	}

	// A client in a trusted network looks the same as a hop that hides clients. The limits must
	// spare it: to treat a hop as one client would lock out all clients behind it.
	if len(headers) > 0 {
		return addr, byHiddenClients
	}

	return addr, unknownProxyIf(isInternal(addr) && isForwarded(r))
}

// unknownProxyIf returns byUnknownProxy if the condition holds.
func unknownProxyIf(condition bool) sharing {
	if condition {
		return byUnknownProxy
	}
	return notShared
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
