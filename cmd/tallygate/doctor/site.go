package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/web"
)

// siteTimeout bounds all checks of a website's proxy.
const siteTimeout = time.Minute

// What the checks send: a browser's user agent, an address that no visitor has (RFC 5737), a
// cookie, and a website's password ("doctor:doctor").
const (
	probeAgent   = "Mozilla/5.0 (compatible with tallygate-doctor; X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	claimedAddr  = "192.0.2.123"
	probeCookie  = "tallygate-doctor=1"
	maxScript    = 1 << 20
	probeSecret  = "Basic ZG9jdG9yOmRvY3Rvcg=="
	docOfProxies = " See docs/owner/first-party.md."
)

// browserValues are the values of dataplane.BrowserHeaders that the checks send.
var browserValues = map[string]string{
	"language": "en-GB, en;q=0.5", "brands": `"Chromium";v="145"`, "mobile": "?0", "platform": `"Linux"`,
}

// The names of what the checks of a website's proxy find out.
const (
	areaScript  = "script"
	areaFiles   = "files of the captcha"
	areaCalls   = "calls"
	areaHeaders = "headers"
	areaCookies = "cookies"
	areaCache   = "cache"
	areaAddress = "visitor's address"
)

// siteCheck is a check of one proxy.
type siteCheck struct {
	examination
	page    *url.URL // with the script's tag; nil if the script's address was given
	script  *url.URL // as the website's pages load it
	tracker tracker  // of the script, unless it is the widget
	key     string   // site key that the page names, or ""
	calls   string   // address of the calls that the page names, or ""
	server  string   // {analytics_url}, or {captcha_url} for the widget
	session string   // of the probes
	probes  int
	network string // "tcp4" or "tcp6" if both hosts have such addresses, else "tcp"
	direct  *http.Client
}

// endpoint is an endpoint that pages call, with a body that it refuses and the answer to this body.
type endpoint struct{ path, body, answer string }

// dropInPaths are the paths of scripts that load the widget under another product's interface.
const dropInPaths = "/recaptcha/api.js, /recaptcha/enterprise.js, /1/api.js or /turnstile/v0/api.js"

// noSitekey is the captcha's answer to an object without a sitekey. Without a body the answer is
// another one.
const noSitekey = `"The field sitekey is missing`

// The endpoints of the widget. Nothing is stored for the bodies.
var (
	configEndpoint = endpoint{"api/v1/pow/config", "{}", noSitekey}
	verifyEndpoint = endpoint{"api/v1/pow/verify", "{}", noSitekey}
)

// ParseSite parses the address of a script as the pages of a website load it, or of such a page.
func ParseSite(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%q is not the address of a page or of a script, such as https://shop.example.com/x/app.js", text)
	}
	u.Fragment = ""
	return u, nil
}

// ExamineSite checks the proxy by which a website serves Tallygate under its own address, from
// outside: it loads the script, and calls the endpoints in the script's folder with calls that
// store nothing. It compares the answers with answers of the server at {analytics_url} or
// {captcha_url}. Given a page, it checks the script of the page's tag, which may be at the server
// itself.
func ExamineSite(ctx context.Context, c *config.Config, script *url.URL) (*Report, error) {
	if c.AnalyticsURL == "" {
		return nil, errors.New("--site compares with the server: set TALLYGATE_ANALYTICS_URL to its public address")
	}

	ctx, cancel := context.WithTimeout(ctx, siteTimeout)
	defer cancel()

	s := newSiteCheck(script)
	s.report = Report{Findings: []health.Finding{}, Checked: []string{}, Skipped: []string{}}
	s.c = c
	s.server = string(c.AnalyticsURL)

	if s.isServer() {
		return nil, fmt.Errorf("--site: %s is the server's own address, not that of a website", script)
	}

	s.chooseNetwork(ctx)
	s.check(ctx)
	return &s.report, nil
}

// isServer reports whether the script's address is at the server itself.
func (s *siteCheck) isServer() bool {
	origin := s.script.Scheme + "://" + s.script.Host
	return origin == string(s.c.AnalyticsURL) || origin == string(s.c.CaptchaURL)
}

// chooseNetwork chooses a version of IP by which both the website and the server can be reached,
// because the server sees different addresses of this machine in different versions.
func (s *siteCheck) chooseNetwork(ctx context.Context) {
	server, _ := url.Parse(s.server)
	for _, version := range []string{"4", "6"} {
		_, err1 := net.DefaultResolver.LookupIP(ctx, "ip"+version, s.script.Hostname())
		_, err2 := net.DefaultResolver.LookupIP(ctx, "ip"+version, server.Hostname())
		if err1 == nil && err2 == nil {
			s.network = "tcp" + version
			break
		}
	}

	s.direct = directClient(s.network, nil)
}

// directClient returns a client that uses no proxy and follows no redirects. local is the address
// that it connects from; nil: any.
func directClient(network string, local net.Addr) *http.Client {
	dialer := &net.Dialer{Timeout: fetchTimeout, LocalAddr: local}
	return &http.Client{
		Timeout: fetchTimeout,
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// newSiteCheck returns a check of a script, with a session of its own.
func newSiteCheck(script *url.URL) *siteCheck {
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	return &siteCheck{script: script, session: hex.EncodeToString(random), network: "tcp", direct: directClient("tcp", nil)}
}

func (s *siteCheck) done(area string)    { s.report.Checked = append(s.report.Checked, area) }
func (s *siteCheck) skipped(area string) { s.report.Skipped = append(s.report.Skipped, area) }

// answer is an answer of the website or of the server.
type answer struct {
	status int
	header http.Header
	body   []byte
	probe  map[string]string // what the server says about the request, or nil
}

// send sends a request. Redirects are not followed.
func (s *siteCheck) send(ctx context.Context, method, address, body string, header http.Header) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	request.Header.Set("User-Agent", probeAgent)

	response, err := s.direct.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(io.LimitReader(response.Body, maxScript))
	if err != nil {
		return nil, err
	}
	return &answer{response.StatusCode, response.Header, text, parseProbe(response.Header.Get(web.ProbeHeader))}, nil
}

// parseProbe parses the server's description of a request: "id=…; client=…".
func parseProbe(text string) map[string]string {
	if text == "" {
		return nil
	}
	found := make(map[string]string)
	for item := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		found[name] = value
	}
	return found
}

// check runs all checks.
func (s *siteCheck) check(ctx context.Context) {
	s.done(areaScript)
	isWidget, ok := s.checkScript(ctx)
	if !ok {
		for _, area := range []string{areaCalls, areaHeaders, areaCookies, areaCache, areaAddress} {
			s.skipped(area)
		}
		return
	}

	endpoints := []endpoint{collectEndpoint(s.tracker.calls, s.key)}
	if isWidget {
		endpoints = []endpoint{configEndpoint, verifyEndpoint}
		s.checkFiles(ctx)
	}

	all := true
	for _, e := range endpoints {
		all = s.checkMapped(ctx, e) && all
	}
	s.done(areaCalls)
	if !all {
		for _, area := range []string{areaHeaders, areaCookies, areaCache, areaAddress} {
			s.skipped(area)
		}
		return
	}

	// Pages may load the script from the server itself.
	if s.page == nil || !s.isServer() {
		s.checkProbes(ctx, endpoints[0])
	}
}

// inFolder returns the address of a file in the script's folder.
func (s *siteCheck) inFolder(name string) string {
	return s.script.ResolveReference(&url.URL{Path: "./" + name}).String()
}

// checkScript checks that the address has the server's script, or its widget. If it is a page's, it
// checks the script that the page's tag names.
func (s *siteCheck) checkScript(ctx context.Context) (isWidget, ok bool) {
	got, err := s.send(ctx, http.MethodGet, s.script.String(), "", http.Header{})
	if err != nil {
		s.fault("site-unreachable", "Check the address and the website.", "no answer from %s: %v", s.script, cause(err))
		return false, false
	}
	if !s.isAnswered(got, s.script.String(), areaScript) {
		return false, false
	}

	if s.page == nil && strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		if !s.readPage(got.body) {
			return false, false
		}
		return s.checkScript(ctx)
	}

	isWidget = bytes.Contains(got.body, []byte("captcha-worker"))
	if !isWidget && bytes.Contains(got.body, []byte("service-captcha")) {
		s.fault("site-drop-in", "Give the address of captcha.js in the same folder.",
			"%s is a loader, such as %s: this check needs the widget itself", s.script, dropInPaths)
		return false, false
	}
	if !isWidget && !s.recognise(got.body) {
		s.fault("site-script-missing", "Let the proxy pass this address on to "+s.server+"/svc.js."+docOfProxies,
			"%s is not a script of Tallygate", s.script)
		return false, false
	}

	name := "/" + s.tracker.file
	if isWidget {
		name = "/captcha.js"
		if s.c.CaptchaURL != "" {
			s.server = string(s.c.CaptchaURL)
		}
	}
	want, err := s.send(ctx, http.MethodGet, s.server+name, "", http.Header{})
	if err != nil || want.status != http.StatusOK {
		s.warn("site-server", "Run this where "+s.server+" can be reached.", "%s cannot be loaded for comparison", s.server+name)
		return isWidget, true
	}
	s.compareFile(s.script.String(), s.server+name, got, want)
	return isWidget, true
}

// isAnswered reports whether the answer is a file, and adds a finding otherwise.
func (s *siteCheck) isAnswered(got *answer, address, what string) bool {
	switch {
	case got.status >= 300 && got.status < 400:
		s.fault("site-redirect", "Let the proxy answer itself, or give the address to which a page is redirected."+docOfProxies,
			"%s is redirected with status %d", address, got.status)
	case got.status != http.StatusOK:
		s.fault("site-script-missing", "Let the proxy pass this address on to "+s.server+"."+docOfProxies,
			"%s: the %s is answered with status %d", address, what, got.status)
	default:
		return true
	}
	return false
}

// compareFile compares a file of the website with the server's.
func (s *siteCheck) compareFile(address, original string, got, want *answer) {
	if !bytes.Equal(got.body, want.body) {
		s.fault("site-script-changed", "Empty the cache in front of the website, and turn off what rewrites its scripts.",
			"%s differs from %s: a cache has another version, or the proxy changes scripts", address, original)
	}

	kind, _, _ := strings.Cut(want.header.Get("Content-Type"), ";")
	if is, _, _ := strings.Cut(got.header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(is), kind) {
		s.fault("site-content-type", "Let the proxy keep the Content-Type of the server.",
			"%s has the Content-Type %q instead of %q", address, got.header.Get("Content-Type"), kind)
	}
	if is, should := got.header.Get("Cache-Control"), want.header.Get("Cache-Control"); is != should {
		s.warn("site-cache-control", "Let the proxy keep the Cache-Control of the server, so that new releases arrive.",
			"%s has the Cache-Control %q instead of %q", address, is, should)
	}
	s.compareHeaders(address, got, want, "X-Content-Type-Options", "Cross-Origin-Resource-Policy")
}

// compareHeaders reports headers of the server that are missing.
func (s *siteCheck) compareHeaders(address string, got, want *answer, names ...string) {
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return want.header.Get(name) == "" || got.header.Get(name) != ""
	})
	if len(missing) > 0 {
		s.warn("site-headers-removed", "Let the proxy keep the headers of the answers.", "%s: the proxy removes %s",
			address, strings.Join(missing, ", "))
	}
}

// checkFiles checks the other files of the widget.
func (s *siteCheck) checkFiles(ctx context.Context) {
	s.done(areaFiles)
	for _, name := range []string{"captcha-worker.js", "captcha.wasm", "captcha-scalar.wasm"} {
		address := s.inFolder(name)
		got, err := s.send(ctx, http.MethodGet, address, "", http.Header{})
		if err != nil {
			s.fault("site-unreachable", "Check the website.", "no answer from %s: %v", address, cause(err))
			continue
		}
		if !s.isAnswered(got, address, "file") {
			continue
		}
		if want, err := s.send(ctx, http.MethodGet, s.server+"/"+name, "", http.Header{}); err == nil && want.status == http.StatusOK {
			s.compareFile(address, s.server+"/"+name, got, want)
		}
	}
}

// origin returns the website's origin.
func (s *siteCheck) origin() string {
	address := cmp.Or(s.page, s.script)
	return address.Scheme + "://" + address.Host
}

// probe calls an endpoint as a page of the website does, and asks the server what arrives.
func (s *siteCheck) probe(ctx context.Context, address, body string, header http.Header) (*answer, string, error) {
	s.probes++
	id := s.session + "-" + strconv.Itoa(s.probes)
	header.Set("Origin", s.origin())
	header.Set("Content-Type", "text/plain;charset=UTF-8")
	header.Set(web.ProbeHeader, id)
	for name, value := range browserValues {
		header.Set(dataplane.BrowserHeaders[name], value)
	}
	got, err := s.send(ctx, http.MethodPost, address, body, header)
	return got, id, err
}

// checkMapped checks that calls of an endpoint arrive at the server as they were sent.
func (s *siteCheck) checkMapped(ctx context.Context, e endpoint) bool {
	address := s.addressOf(e)
	got, _, err := s.probe(ctx, address, e.body, http.Header{})
	if err != nil {
		s.fault("site-unreachable", "Check the website.", "no answer from %s: %v", address, cause(err))
		return false
	}

	// The server's own answers are JSON with an error. The captcha's error is a sentence.
	isOurs := strings.Contains(got.header.Get("Content-Type"), "application/json") && bytes.Contains(got.body, []byte(`"error"`))
	const onAction = "Let the proxy pass POST requests for this address on to "

	switch {
	case got.status >= 300 && got.status < 400:
		s.fault("site-redirect", "Let the proxy answer itself: browsers repeat a redirected call as a GET, or not at all."+docOfProxies,
			"%s is redirected with status %d", address, got.status)
	case isOurs && got.status == http.StatusMethodNotAllowed:
		s.fault("site-method", "Let the proxy pass the method on.", "%s: the proxy passes a POST on with another method", address)
	case isOurs && (bytes.Contains(got.body, []byte(`"bad_body"`)) || bytes.Contains(got.body, []byte(`"The body is `))):
		s.fault("site-body", "Let the proxy pass the body on.", "%s: the body of a POST does not arrive", address)
	case got.status == http.StatusNoContent,
		isOurs && got.status == http.StatusForbidden && got.probe["origin"] == "0": // the probes report the missing Origin
		return true
	case isOurs && s.reportKey(got):
	case isOurs && bytes.Contains(got.body, []byte(e.answer)) && !bytes.Contains(got.body, []byte(`"not_found"`)) &&
		!bytes.Contains(got.body, []byte("Unknown path")):
		return true
	case got.status == http.StatusMethodNotAllowed, got.status == http.StatusNotImplemented, got.status == http.StatusForbidden:
		s.fault("site-method", onAction+s.server+"/"+e.path+"."+docOfProxies,
			"%s: a POST is refused with status %d, by the website, or because the proxy passes it on under another path", address, got.status)
	case got.status == http.StatusBadGateway, got.status == http.StatusServiceUnavailable, got.status == http.StatusGatewayTimeout:
		s.fault("site-server", "Start the server, or correct its address in the proxy.", "%s: the proxy does not reach the server: status %d",
			address, got.status)
	default:
		s.fault("site-not-mapped", onAction+s.server+"/"+e.path+"."+docOfProxies,
			"%s does not lead to the server: a POST is answered with status %d", address, got.status)
	}
	return false
}
