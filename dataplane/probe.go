package dataplane

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/web"
)

// ProbePattern describes the values of web.ProbeHeader: a session and a number.
var ProbePattern = regexp.MustCompile(`^([0-9a-f]{16})-[0-9]{1,3}$`)

// Prober describes requests to their sender. The description has no address: it has keyed hashes,
// by which a client that reaches the server in two ways learns whether the server sees the same
// address.
type Prober struct {
	Key     []byte // of the installation, so that the hashes of all nodes agree and cannot be guessed
	Clients *web.Clients
}

// describe adds the description to the response if the request asks for it. It changes nothing
// else.
func (p *Prober) describe(w http.ResponseWriter, r *http.Request) {
	values := r.Header[web.ProbeHeader]
	if p == nil || len(values) != 1 {
		return
	}
	asked := ProbePattern.FindStringSubmatch(values[0])
	if asked == nil {
		return
	}

	addr := p.Clients.Addr(r)
	has := func(name string) int { return min(len(r.Header[name]), 1) }
	w.Header()[web.ProbeHeader] = []string{fmt.Sprintf(
		"id=%s; client=%s; agent=%s; internal=%d; shared=%s; origin=%d; cookie=%d; authorization=%d; referer=%d",
		asked[0], p.hash(asked[1], "client", addr.String()), p.hash(asked[1], "agent", r.UserAgent()), internal(addr),
		p.Clients.Sharing(r), has("Origin"), has("Cookie"), has("Authorization"), has("Referer")) + p.browser(asked[1], r.Header)}
}

// BrowserHeaders are the further headers that the server evaluates of a browser, by their names in
// a description. The captcha reads the language, and reports of browsers and systems need the
// client hints.
var BrowserHeaders = map[string]string{
	"language": "Accept-Language", "brands": "Sec-Ch-Ua", "mobile": "Sec-Ch-Ua-Mobile", "platform": "Sec-Ch-Ua-Platform",
}

// browser returns the part of a description with hashes of BrowserHeaders. Presence alone does not
// suffice: some proxies set Accept-Language if the visitor's value is missing.
func (p *Prober) browser(session string, header http.Header) (description string) {
	for _, name := range slices.Sorted(maps.Keys(BrowserHeaders)) {
		description += "; " + name + "=" + p.hash(session, name, strings.Join(header[BrowserHeaders[name]], ", "))
	}
	return description
}

// hash returns 16 hexadecimal characters that are the same for the same value in one session.
func (p *Prober) hash(session, kind, value string) string {
	mac := hmac.New(sha256.New, p.Key)
	fmt.Fprintf(mac, "%s %s %s", session, kind, value)
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// internal returns 1 for an address of a private network or of the machine itself.
func internal(addr netip.Addr) int {
	if addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast() {
		return 1
	}
	return 0
}
