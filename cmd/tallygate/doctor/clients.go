package doctor

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// checkClients asks the data listener what it sees of a call through the proxy in front of it. A
// proxy that forwards no address looks like a visitor, so the service cannot notice it. The proxy
// must be on this machine.
func (e *examination) checkClients(ctx context.Context, o config.NamedOrigin) {
	if o.Role != config.RoleData || e.c.UsesTLS() || !o.Origin.IsHTTPS() || len(e.c.TrustedProxies) == 0 {
		return
	}
	script, err := url.Parse(string(o.Origin) + "/svc.js")
	if err != nil || e.trustsOwnAddress(ctx, script) {
		return
	}

	s := newSiteCheck(script)
	collect := collectEndpoint("collect.php", "")
	through, _, err := s.probe(ctx, s.inFolder(collect.path), collect.body, http.Header{})
	if err == nil && through.probe["shared"] == "none" && e.isSeenAsProxy(ctx, s, through) {
		e.fault("origin-client-address", "Let the proxy set X-Forwarded-For to the visitor's address: "+
			"proxy_set_header X-Forwarded-For $remote_addr in nginx.", "%s: the proxy forwards no address: all visitors share its own", o.Setting)
	}
}

// trustsOwnAddress reports whether this machine reaches a host from an address within the trusted
// networks, or not at all. The service would take the calls for those of a hop that hides clients,
// and warn of it for an hour.
func (e *examination) trustsOwnAddress(ctx context.Context, u *url.URL) bool {
	conn, err := (&net.Dialer{Timeout: fetchTimeout}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), u.Scheme)))
	if err != nil {
		return true
	}
	defer conn.Close()

	own, err := netip.ParseAddrPort(conn.LocalAddr().String())
	return err != nil || e.trusts(own.Addr())
}

// isSeenAsProxy reports whether the service sees the same client in a call without a proxy, from
// the address of a trusted proxy on this machine.
func (e *examination) isSeenAsProxy(ctx context.Context, s *siteCheck, through *answer) bool {
	proxies := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, network := range e.c.TrustedProxies {
		if network.IsSingleIP() {
			proxies = append(proxies, network.Addr())
		}
	}

	collect := collectEndpoint("collect.php", "")
	for _, proxy := range slices.DeleteFunc(proxies, func(a netip.Addr) bool { return !e.trusts(a) }) {
		s.direct = directClient("tcp", &net.TCPAddr{IP: proxy.AsSlice()})
		got, _, err := s.probe(ctx, localURL(e.c.DataAddr)+"/"+collect.path, collect.body, http.Header{})
		if err == nil && got.probe != nil && got.probe["client"] == through.probe["client"] {
			return true
		}
	}
	return false
}

// trusts reports whether an address is within the trusted networks.
func (e *examination) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(e.c.TrustedProxies, func(n config.Network) bool { return n.Contains(addr.Unmap()) })
}
