package model

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// maxDomainLength is the longest DNS name in characters (RFC 1035, section 2.3.4).
const maxDomainLength = 253

// ParseDomain normalises a domain that an owner entered: lower case, no trailing dot,
// internationalised labels in their ASCII form. It refuses addresses, ports, paths, single labels,
// labels that begin or end with a hyphen, and localhost (analytics contract, section 5, rule 4).
// With allowLocal it accepts names ending in .localhost, for demos and tests, but never localhost
// itself. The error message contains the domain, since a request can have several.
func ParseDomain(s string, allowLocal bool) (string, error) {
	host, ok := normalHost(strings.TrimSpace(s))
	reason := ""

	switch {
	case strings.HasPrefix(strings.TrimSpace(s), "*."):
		reason = "has a wildcard. Enter the domain without \"*.\": its subdomains are implied."
	case !ok:
		reason = "is not a domain name. Enter one such as example.com, without https://, port or path."
	case isAddress(host):
		reason = "is an IP address, which cannot be a domain of a site or sitekey."
	case isLocal(host) && (!allowLocal || host == "localhost"):
		reason = "cannot be a site's domain: localhost is every visitor's own machine."
	case !strings.Contains(host, "."):
		reason = "is not a full domain name such as example.com."
	case hasOuterHyphen(host):
		reason = "is not a domain name: a label cannot begin or end with a hyphen."
	}

	if reason != "" {
		return "", InvalidField("domain", "invalid_domain", strconv.Quote(shown(s))+" "+reason)
	}

	return host, nil
}

// ParseNewSiteDomain is ParseDomain for a new site. It drops a leading "www.", because a site
// accepts its subdomains but `www.example.com` would refuse `example.com`. It refuses suffixes
// under which others register their domains, such as `co.uk`, but accepts `www.gov.uk`.
func ParseNewSiteDomain(s string, allowLocal bool) (string, error) {
	host, err := ParseDomain(s, allowLocal)
	if err != nil {
		return "", err
	}

	if isPublicSuffix(host) {
		return "", InvalidField("domain", "invalid_domain", strconv.Quote(shown(s))+
			" is not the domain of one owner: others register their domains under it. Enter your own, such as example."+host+".")
	}

	bare, hasWWW := strings.CutPrefix(host, "www.")
	if hasWWW && strings.Contains(bare, ".") && !isPublicSuffix(bare) {
		return bare, nil
	}
	return host, nil
}

// isPublicSuffix reports whether registries sell names under a host.
func isPublicSuffix(host string) bool {
	suffix, icann := publicsuffix.PublicSuffix(host)
	return icann && suffix == host
}

// DisplayDomain returns a normalised domain with international labels in their letters. A label
// with letters of several scripts, which could look like another one, stays in ASCII.
func DisplayDomain(domain string) string {
	if !strings.Contains(domain, "xn--") {
		return domain
	}

	labels := strings.Split(domain, ".")
	for i, label := range labels {
		if shown, err := idna.Display.ToUnicode(label); err == nil && hasOneScript(shown) {
			labels[i] = shown
		}
	}
	return strings.Join(labels, ".")
}

// hasOneScript reports whether all letters of a label belong together. Chinese, Japanese and Korean
// words mix the scripts of East Asia.
func hasOneScript(label string) bool {
	var first string
	for _, r := range label {
		if !unicode.IsLetter(r) {
			continue
		}

		script := scriptOf(r)
		if first == "" {
			first = script
		}
		if script != first {
			return false
		}
	}
	return true
}

// scriptOf returns the name of a letter's script.
func scriptOf(r rune) string {
	if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo) {
		return "East Asia"
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return ""
}

// ParseSitekeyDomain is ParseDomain for captcha sitekeys, which also accept localhost itself, for
// development. It still refuses addresses such as 127.0.0.1.
func ParseSitekeyDomain(s string, allowLocal bool) (string, error) {
	if host, ok := normalHost(strings.TrimSpace(s)); ok && host == "localhost" {
		return host, nil
	}
	return ParseDomain(s, allowLocal)
}

// HostServed reports whether host can use a sitekey that is bound to the domains: it belongs to
// them, or it is localhost and they contain localhost. Both arguments must be normalised.
func HostServed(host string, domains []string) bool {
	return HostBelongs(host, domains) || host == "localhost" && slices.Contains(domains, host)
}

// shown returns the first 80 characters of an owner's input, for an error message.
func shown(s string) string {
	const most = 80
	if s = Clean(strings.TrimSpace(s), most+1); utf8.RuneCountInString(s) > most {
		return Clean(s, most) + "…"
	}
	return s
}

// hasOuterHyphen reports whether a label begins or ends with a hyphen, which no registrar and no
// browser accepts (RFC 1123, section 2.1).
func hasOuterHyphen(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return true
		}
	}
	return false
}

// OriginHost returns the normalised host of an Origin or Referer header value. It returns false for
// anything that is not one http or https address with a host, such as "null".
func OriginHost(value string) (string, bool) {
	if host, ok := strings.CutPrefix(value, "https://"); ok && isPlainHost(host) && !hasPunycode(host) {
		// Nearly every hit takes this path, which parses nothing.
		return host, true
	}
	host, _, ok := PageAddress(value)
	return host, ok
}

// PageAddress is OriginHost for callers that also need the parsed address.
func PageAddress(value string) (host string, address *url.URL, ok bool) {
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
		return "", nil, false
	}
	host, ok = normalHost(u.Hostname())
	return host, u, ok
}

// HostBelongs reports whether host is one of the domains or their subdomains: for example,
// www.example.org belongs to example.org (analytics contract, section 5, rules 1 and 2). Both
// arguments must be normalised. Addresses and localhost never belong (rule 4).
func HostBelongs(host string, domains []string) bool {
	if host == "localhost" || isAddress(host) {
		return false
	}

	for _, d := range domains {
		if rest, ok := strings.CutSuffix(host, d); ok && (rest == "" || rest[len(rest)-1] == '.') {
			return true
		}
	}

	return false
}

// ShownDomain returns a normalised domain as people write it, with the letters of its language.
func ShownDomain(domain string) string {
	shown, err := idna.Display.ToUnicode(domain)
	if err != nil {
		return domain
	}
	return shown
}

// hostProfile maps hosts to the form that is compared. It follows browsers rather than the stricter
// rules of registrars, so that a name with an underscore is accepted.
var hostProfile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false))

func normalHost(s string) (string, bool) {
	s = strings.TrimSuffix(s, ".")
	if isPlainHost(s) && !hasPunycode(s) {
		return s, true
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String(), true
	}

	host, err := hostProfile.ToASCII(s)
	if err != nil || !isPlainHost(host) {
		return "", false
	}

	// Invalid text, and a label that only looks encoded, map to a form that maps to another form
	// again.
	again, err := hostProfile.ToASCII(host)
	return host, err == nil && again == host
}

// isPlainHost reports whether s is already in the compared form: dot-separated labels of lower-case
// letters, digits, hyphens and underscores.
func isPlainHost(s string) bool {
	if s == "" || len(s) > maxDomainLength {
		return false
	}

	label := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if label == 0 {
				return false
			}

			label = 0
			continue
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
			label++
		default:
			return false
		}

		// DNS limits a label to 63 bytes (RFC 1035, section 2.3.4).
		if label > 63 {
			return false
		}
	}

	return label > 0
}

// hasPunycode reports whether a label has the prefix of internationalised names, which require the
// full check.
func hasPunycode(s string) bool {
	return strings.HasPrefix(s, "xn--") || strings.Contains(s, ".xn--")
}

func isLocal(host string) bool { return host == "localhost" || strings.HasSuffix(host, ".localhost") }

// isAddress reports whether host is an IP address. A name with a number as its last label counts as
// an address: browsers read "127.1" and "0x7f.1" as addresses.
func isAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}

	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return false
	}
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}

	return strings.Trim(last, "0123456789") == ""
}

// ParseNetwork parses a network in CIDR form, or an IP address as a network of one address. It
// returns the zero Prefix, which is invalid, for anything else.
func ParseNetwork(s string) netip.Prefix {
	s = strings.TrimSpace(s)
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
	}

	network, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}
	}

	return UnmapNetwork(network)
}

// UnmapNetwork returns the IPv4 network of an IPv4-mapped network such as ::ffff:10.0.0.0/104, and
// any other network unchanged. Clients' addresses are unmapped before they are compared, so that a
// mapped network would not contain any of them. A mapped network with a prefix shorter than 96 bits
// contains more than IPv4: it returns the zero Prefix, which is invalid.
func UnmapNetwork(network netip.Prefix) netip.Prefix {
	const mappedBits = 96

	if !network.Addr().Is4In6() {
		return network
	}
	if network.Bits() < mappedBits {
		return netip.Prefix{}
	}

	return netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-mappedBits)
}
