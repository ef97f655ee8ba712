package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Origin is the scheme, host and port under which browsers reach a service, without a trailing
// slash.
type Origin string

// UnmarshalFlag parses an origin.
func (o *Origin) UnmarshalFlag(text string) error {
	s := strings.TrimSuffix(text, "/")
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || s != u.Scheme+"://"+u.Host {
		return fmt.Errorf("%q is not an origin such as https://app.example.com", text)
	}
	*o = Origin(s)
	return nil
}

// HostOf returns the host of an authority or origin without its port, in lower case, and without a
// trailing dot or brackets.
func HostOf(authority string) string {
	if _, rest, found := strings.Cut(authority, "://"); found {
		authority = rest
	}
	host := (&url.URL{Host: authority}).Hostname()
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// IsLoopback reports whether a host always means this machine.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// IsHTTPS reports whether browsers reach an origin over TLS.
func (o Origin) IsHTTPS() bool { return strings.HasPrefix(string(o), "https://") }

// IsPublic reports whether browsers on other machines can reach an origin.
func (o Origin) IsPublic() bool {
	host := HostOf(string(o))
	return !IsLoopback(host) && !strings.HasSuffix(host, ".localhost")
}

// NamedOrigin is a public origin with its setting.
type NamedOrigin struct {
	Setting string // variable
	Origin  Origin
	Role    Role // serves it
}

// Origins returns the public origins that this process's roles serve.
func (c *Config) Origins() []NamedOrigin {
	all := []NamedOrigin{
		{"TALLYGATE_BASE_URL", c.BaseURL, RoleControl},
		{"TALLYGATE_ANALYTICS_URL", c.AnalyticsURL, RoleData},
		{"TALLYGATE_CAPTCHA_URL", c.CaptchaURL, RoleData},
	}
	return slices.DeleteFunc(all, func(o NamedOrigin) bool { return !c.Has(o.Role) || o.Origin == "" })
}

// IsPlain reports whether browsers on other machines reach an origin without TLS.
func (o Origin) IsPlain() bool { return !o.IsHTTPS() && o.IsPublic() }
