package doctor

import (
	"context"
	"net/netip"
	"strings"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
	"github.com/tallygate/tallygate/db/model"
)

// leastCharacters is the number of different characters below which an application key looks typed
// rather than random.
const leastCharacters = 10

// checkSettings compares settings with each other, without a look at anything else.
func (e *examination) checkSettings(context.Context) bool {
	for _, unknown := range e.UnknownVariables {
		e.fault("variable-unknown", "Correct its name, or remove it; the service does not start with it.", "%s", unknown)
	}
	e.checkProxies()
	e.checkPublicNames()

	if n := differentCharacters(string(e.c.Secret)); e.c.Secret != "" && n < leastCharacters {
		e.fault("key-weak", "Set TALLYGATE_SECRET to a random text, for instance of: openssl rand -base64 48",
			"the application key has only %d different characters", n)
	}
	if e.c.Secret == "" && e.c.DatabaseURL != "" {
		e.warn("key-in-folder", "Give the key to every process on this database as TALLYGATE_SECRET.",
			"the application key is in the folder %s only, while the database is shared", e.c.DataDir)
	}

	if _, err := serve.Certificates(e.c.WebhookCAFile); err != nil {
		e.fault("webhook-ca-file", "Correct the file of TALLYGATE_WEBHOOK_CA_FILE; a worker does not start with it.",
			"the authorities for webhooks cannot be read: %v", err)
	}

	if _, err := serve.Certificates(e.c.OIDCCAFile); err != nil {
		e.fault("oidc-ca-file", "Correct the file of TALLYGATE_OIDC_CA_FILE; a control plane does not start with it.",
			"the authorities for providers cannot be read: %v", err)
	}

	if e.c.Signups == model.SignupsOpen && e.c.Has(config.RoleControl) && e.c.SMTPURL == "" {
		e.warn("signups-unverified", "Set TALLYGATE_SMTP_URL, or TALLYGATE_SIGNUPS to first-only or closed.",
			"sign-ups are open without a mail server: addresses are not verified")
	}

	return true
}

func differentCharacters(s string) int {
	seen := make(map[rune]bool)
	for _, r := range s {
		seen[r] = true
	}
	return len(seen)
}

// The prefixes below which a network contains public addresses besides a private range, in bits.
const (
	leastBits4 = 8
	leastBits6 = 16
)

// holdsStrangers reports whether a network is so wide that it contains addresses of unknown people.
func holdsStrangers(network config.Network) bool {
	if network.Addr().Is4() {
		return network.Bits() < leastBits4
	}
	return network.Bits() < leastBits6 && !network.Addr().IsPrivate()
}

// checkProxies compares the trusted proxies with the addresses.
func (e *examination) checkProxies() {
	const setting = "TALLYGATE_TRUSTED_PROXIES"

	for _, network := range e.c.TrustedProxies {
		switch {
		case holdsStrangers(network):
			e.fault("proxies-all", "Name only the addresses of your own proxies in "+setting+".",
				"%s trusts %s: any visitor can claim any address", setting, network)
		case network.IsWide():
			e.warn("proxies-wide", "Name only the addresses or the narrow network of your own proxies in "+setting+".",
				"%s trusts %s: clients in it can claim any address, and no limit by network applies to them", setting, network)
		}
	}

	if e.c.UsesTLS() {
		return // clients connect themselves
	}

	// Without TLS of its own the program is behind a proxy wherever an origin is https.
	var https *config.NamedOrigin
	for _, o := range e.c.Origins() {
		if o.Origin.IsHTTPS() {
			https = &o
		}
	}

	switch {
	case https == nil:
	case len(e.c.TrustedProxies) == 0:
		e.fault("proxies-none", "Set "+setting+" to the address from which the TLS proxy connects, for instance 127.0.0.1.",
			"%s is https, so a proxy is in front, and %s names none: all visitors share its address", https.Setting, setting)
	case e.listensOnLoopback() && !e.trustsLoopback():
		e.fault("proxies-loopback", "Add 127.0.0.1 to "+setting+".",
			"the listeners accept connections from this machine only, and %s does not name a loopback address", setting)
	}
}

// listensOnLoopback reports whether only this machine reaches each listener.
func (e *examination) listensOnLoopback() bool {
	for _, l := range listeners(e.c) {
		if l.name != "metrics" && l.name != "health" && !config.IsLoopback(config.HostOf(string(l.addr))) {
			return false
		}
	}
	return true
}

func (e *examination) trustsLoopback() bool {
	for _, network := range e.c.TrustedProxies {
		if network.Addr().IsLoopback() || network.Contains(netip.MustParseAddr("127.0.0.1")) || network.Contains(netip.IPv6Loopback()) {
			return true
		}
	}
	return false
}

// checkPublicNames compares the public origins with the listeners.
func (e *examination) checkPublicNames() {
	for _, o := range e.c.Origins() {
		if o.Origin.IsPlain() {
			e.warn("origin-plain", "Terminate TLS in front of it and set "+o.Setting+" to https.",
				"%s is http: passwords, sessions and visits cross the network in plain text", o.Setting)
		}
	}

	for _, missing := range []struct {
		setting string
		origin  config.Origin
		addr    config.Address
		role    config.Role
	}{
		{"TALLYGATE_BASE_URL", e.c.BaseURL, e.c.ControlAddr, config.RoleControl},
		{"TALLYGATE_ANALYTICS_URL", e.c.AnalyticsURL, e.c.DataAddr, config.RoleData},
	} {
		if missing.origin == "" && e.c.Has(missing.role) && !config.IsLoopback(config.HostOf(string(missing.addr))) {
			e.warn("origin-missing", "Set "+missing.setting+" to the address that browsers use.",
				"%s is not set, and the listener %s is open to other machines: links and script tags name that address",
				missing.setting, missing.addr)
		}
	}

	if e.c.Has(config.RoleWorker) && e.c.SMTPURL != "" && e.c.BaseURL == "" {
		e.warn("origin-missing-mail", "Set TALLYGATE_BASE_URL in the worker too.",
			"a worker sends mails without TALLYGATE_BASE_URL: they cannot link to the console")
	}

	if e.c.MetricsAddr != "" && !isPrivateHost(config.HostOf(string(e.c.MetricsAddr))) {
		e.warn("metrics-public", "Set TALLYGATE_METRICS_ADDR to a loopback or private address.",
			"/metrics is served on %s, perhaps to everybody", e.c.MetricsAddr)
	}
}

// isPrivateHost reports whether a host is a loopback or a private address. A name counts as
// private.
func isPrivateHost(host string) bool {
	if host == "" {
		return false
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err != nil || addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast()
}
