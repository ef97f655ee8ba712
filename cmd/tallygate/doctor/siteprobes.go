package doctor

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/web"
)

// checkProbes compares what the server sees of requests through the proxy with those that are sent
// directly.
func (s *siteCheck) checkProbes(ctx context.Context, e endpoint) {
	address := s.addressOf(e)
	direct, _, err := s.probe(ctx, s.server+"/"+e.path, e.body, http.Header{})
	if err != nil {
		direct = nil
	}
	through, id, err1 := s.probe(ctx, address, e.body, http.Header{
		"Cookie": {probeCookie}, "Authorization": {probeSecret}, "Referer": {s.origin() + "/page?query=1"},
	})
	claimed, claimedID, err2 := s.probe(ctx, address, e.body, http.Header{"X-Forwarded-For": {claimedAddr}})
	if err := errors.Join(err1, err2); err != nil {
		s.fault("site-unreachable", "Check the website.", "no answer from %s: %v", address, cause(err))
		return
	}

	if direct != nil {
		s.compareHeaders(address, through, direct, "Access-Control-Allow-Origin", "X-Content-Type-Options")
	}

	if through.probe == nil || claimed.probe == nil {
		if direct != nil && direct.probe == nil {
			s.warn("site-old-server", "Update the server.", "the server does not describe requests: cookies, caches and addresses cannot be seen")
		} else {
			s.warn("site-headers-removed", "Let the proxy pass the header "+web.ProbeHeader+" on, in both directions, while you check it.",
				"%s: the header %s does not pass the proxy: cookies, caches and addresses cannot be seen", address, web.ProbeHeader)
		}
		for _, area := range []string{areaHeaders, areaCookies, areaCache, areaAddress} {
			s.skipped(area)
		}
		return
	}

	s.done(areaCache)
	if through.probe["id"] != id || claimed.probe["id"] != claimedID {
		s.fault("site-cached", "Exclude this address from the cache: only the first of many hits arrives.", "%s is answered from a cache", address)
		for _, area := range []string{areaHeaders, areaCookies, areaAddress} {
			s.skipped(area)
		}
		return
	}

	s.checkHeaders(address, direct, through)
	s.checkAddress(ctx, address, direct, through, claimed)
}

// checkHeaders checks the request headers that the server needs, and those that it must not get.
func (s *siteCheck) checkHeaders(address string, direct, through *answer) {
	s.done(areaHeaders)
	if through.probe["origin"] == "0" {
		s.fault("site-origin", "Let the proxy pass the header Origin on: without it the server refuses hits with domain_not_allowed.",
			"%s: the header Origin does not arrive", address)
	}
	if direct != nil && direct.probe != nil && direct.probe["agent"] != through.probe["agent"] {
		s.fault("site-user-agent", "Let the proxy pass the header User-Agent on: visitors count as one, or as a bot, otherwise.",
			"%s: the header User-Agent arrives changed", address)
	}

	s.checkBrowserHeaders(address, direct, through)

	s.done(areaCookies)
	if through.probe["cookie"] == "1" {
		s.fault("site-cookies", "Let the proxy remove the header Cookie."+docOfProxies,
			"%s: the proxy sends the website's cookies to the server", address)
	}
	if through.probe["authorization"] == "1" {
		s.fault("site-authorization", "Let the proxy remove the header Authorization."+docOfProxies,
			"%s: the proxy sends the website's passwords to the server", address)
	}
	if through.probe["referer"] == "1" {
		s.warn("site-referer", "Let the proxy remove the header Referer: on the website's own host it has the query string, too."+docOfProxies,
			"%s: the proxy sends the full addresses of pages to the server", address)
	}
}

// checkBrowserHeaders checks the headers about the browser.
func (s *siteCheck) checkBrowserHeaders(address string, direct, through *answer) {
	if direct == nil || direct.probe == nil {
		return
	}

	var changed []string
	for _, name := range slices.Sorted(maps.Keys(browserValues)) {
		if through.probe[name] != direct.probe[name] {
			changed = append(changed, dataplane.BrowserHeaders[name])
		}
	}
	if len(changed) > 0 {
		s.warn("site-browser-headers", "Let the proxy pass these headers on: reports of browsers and the captcha's strict mode need them."+docOfProxies,
			"%s: headers of the browser are missing or changed: %s", address, strings.Join(changed, ", "))
	}
}

// checkAddress checks that the server sees the visitor's address, and that no visitor can claim
// another one.
func (s *siteCheck) checkAddress(ctx context.Context, address string, direct, through, claimed *answer) {
	const sets = "Let the proxy set X-Forwarded-For to the visitor's address, and name the proxy in TALLYGATE_TRUSTED_PROXIES." + docOfProxies

	switch through.probe["shared"] {
	case "unknown-proxy":
		s.done(areaAddress)
		s.fault("site-visitor-address", sets, "%s: TALLYGATE_TRUSTED_PROXIES does not name the proxy, or it sends no X-Forwarded-For", address)
		return
	case "hidden-clients":
		// On the server itself, this machine's address is a proxy's.
		if s.trustsOwnAddress(ctx, s.script) {
			s.skipped(areaAddress + " (run this from another machine: this one's address is within TALLYGATE_TRUSTED_PROXIES)")
			return
		}
		s.done(areaAddress)
		s.fault("site-visitor-address", "Let each hop in front of the server keep the visitor's address."+docOfProxies,
			"%s: the server sees the address of a trusted hop instead of the visitor's", address)
		return
	}

	if claimed.probe["client"] != through.probe["client"] {
		s.fault("site-claimed-address", "Let the proxy replace the X-Forwarded-For of visitors, or add to its end."+docOfProxies,
			"%s: a visitor can claim any address by X-Forwarded-For", address)
	}

	// Directly, this machine may be seen under an address of its own network.
	if direct == nil || direct.probe == nil || direct.probe["shared"] != "none" || direct.probe["internal"] != through.probe["internal"] ||
		s.network == "tcp" {
		s.skipped(areaAddress + " (run this from another network, where " + s.server + " can be reached)")
		return
	}
	s.done(areaAddress)
	if direct.probe["client"] != through.probe["client"] {
		s.fault("site-visitor-address", sets, "%s: the server sees another address of this machine than directly, probably the proxy's", address)
	}
}
