package analytics

import (
	"net/http"
	"net/netip"

	"github.com/tallygate/tallygate/dataplane/analytics/agent"
	"github.com/tallygate/tallygate/db/model"
)

// details are what a site keeps of the browsers of its visits.
type details struct {
	country, hostname       bool
	browser, system, device bool
}

func newDetails(list model.List[model.VisitDetail]) (d details) {
	for _, detail := range list {
		switch detail {
		case model.DetailCountry:
			d.country = true
		case model.DetailHostname:
			d.hostname = true
		case model.DetailBrowser:
			d.browser = true
		case model.DetailSystem:
			d.system = true
		case model.DetailDevice:
			d.device = true
		}
	}
	return d
}

// leftOut says which hits a site does not store, in addition to hits from excluded addresses. They
// are ignored as well, each counted under its reason.
type leftOut struct {
	countries         map[string]bool        // nil: none
	path              func(path string) bool // nil: none
	spam, dataCentres bool
}

func newLeftOut(s *model.Site) (out leftOut) {
	if len(s.ExcludedCountries) > 0 {
		out.countries = setOf(s.ExcludedCountries)
	}
	if len(s.ExcludedPaths) > 0 {
		out.path = model.ExcludedPaths(s.ExcludedPaths)
	}
	for _, shield := range s.Shields {
		switch shield {
		case model.ShieldReferrerSpam:
			out.spam = true
		case model.ShieldDataCentres:
			out.dataCentres = true
		}
	}
	return out
}

// places look up addresses and hosts in the operator's files; see Options.
type places struct {
	country      func(netip.Addr) string
	isDataCentre func(netip.Addr) bool
	isSpam       func(host string) bool
}

func newPlaces(o *Options) places {
	p := places{country: o.Country, isDataCentre: o.IsDataCentre, isSpam: o.IsSpam}
	if p.country == nil {
		p.country = func(netip.Addr) string { return "" }
	}
	if p.isDataCentre == nil {
		p.isDataCentre = func(netip.Addr) bool { return false }
	}
	if p.isSpam == nil {
		p.isSpam = func(string) bool { return false }
	}
	return p
}

// countryOf returns the country of a browser's address if the site asks for it. Addresses that
// servers send are never looked up, because they are used for the pseudonym only (analytics
// contract, section 4).
func (s *Service) countryOf(site *site, addr netip.Addr) string {
	if !site.keeps.country && site.leavesOut.countries == nil {
		return ""
	}
	return s.places.country(addr)
}

// leavesOut returns the reason why a site leaves a browser's hit out, or an empty string.
func (s *Service) leavesOut(site *site, addr netip.Addr, country, path, referrer string) string {
	out := &site.leavesOut
	switch {
	case out.countries[country]:
		return ignoredCountry
	case out.dataCentres && s.places.isDataCentre(addr):
		return ignoredDataCentre
	case out.path != nil && out.path(path):
		return ignoredPath
	case out.spam && referrer != "":
		if host, _ := ReferringPage(referrer, site.domains); host != "" && s.places.isSpam(host) {
			return ignoredSpam
		}
	}
	return ""
}

// clientOf returns what the visit of a browser's hit keeps. host is the host of the page.
func clientOf(r *http.Request, site *site, host, country, userAgent string) (c model.Client) {
	keeps := &site.keeps
	if keeps.country {
		c.Country = country
	}
	if keeps.hostname {
		c.Host = host
	}
	if !keeps.browser && !keeps.system && !keeps.device {
		return c
	}

	browser, system, device := agent.Of(userAgent, r.Header)
	if keeps.browser {
		c.Browser = browser
	}
	if keeps.system {
		c.System = system
	}
	if keeps.device {
		c.Device = device
	}
	return c
}
