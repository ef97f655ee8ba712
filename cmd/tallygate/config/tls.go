package config

import (
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// TLSAuto is the value of Config.TLS with which the program obtains certificates itself.
const TLSAuto = "auto"

// UsesTLS reports whether this process serves its public origins over TLS itself.
func (c *Config) UsesTLS() bool {
	return c.TLS == TLSAuto && (c.Has(RoleControl) || c.Has(RoleData))
}

// TLSHosts returns the hosts that need a certificate, in the order of the settings, each once.
func (c *Config) TLSHosts() []string {
	var hosts []string
	for _, o := range c.Origins() {
		if host := HostOf(string(o.Origin)); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// checkTLS checks that the public origins can have certificates, and that their hosts distinguish
// the control from the data plane.
func (c *Config) checkTLS() error {
	if !c.UsesTLS() {
		return nil
	}

	if c.Has(RoleControl) && c.BaseURL == "" {
		return errors.New("--tls: auto requires --base-url")
	}
	if c.Has(RoleData) && c.AnalyticsURL == "" {
		return errors.New("--tls: auto requires --analytics-url")
	}
	for _, o := range c.Origins() {
		if err := checkTLSOrigin(o); err != nil {
			return err
		}
		if o.Role == RoleData && c.Has(RoleControl) && HostOf(string(o.Origin)) == HostOf(string(c.BaseURL)) {
			return fmt.Errorf("--tls: auto requires a host for %s that differs from TALLYGATE_BASE_URL", o.Setting)
		}
	}

	if c.TLSAddr == c.TLSHTTPAddr && !strings.HasSuffix(string(c.TLSAddr), ":0") {
		return errors.New("--tls-http-addr: this is the address of --tls-addr")
	}
	if c.TLSEmail != "" {
		if address, err := mail.ParseAddress(c.TLSEmail); err != nil || address.Address != c.TLSEmail {
			return fmt.Errorf("--tls-email: %q is not an e-mail address", c.TLSEmail)
		}
	}
	if u, err := url.Parse(c.TLSDirectory); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--tls-acme-directory: %q is not an address that begins with https://", c.TLSDirectory)
	}

	return nil
}

// checkTLSOrigin checks that authorities certify an origin's host.
func checkTLSOrigin(o NamedOrigin) error {
	host := HostOf(string(o.Origin))
	_, notAddress := netip.ParseAddr(host)
	_, notName := idna.Lookup.ToASCII(host)

	switch {
	case !o.Origin.IsHTTPS():
		return fmt.Errorf("--tls: auto requires %s to begin with https://", o.Setting)
	case !o.Origin.IsPublic(), notAddress == nil, notName != nil, !strings.Contains(host, "."):
		return fmt.Errorf("--tls: auto requires the host of %s to be a public name, and %q is none", o.Setting, host)
	}
	return nil
}
