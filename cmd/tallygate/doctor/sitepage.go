package doctor

import (
	"bytes"
	"cmp"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// tracker is a script that measures pages.
type tracker struct {
	product string // that the script takes the place of; "" for svc.js
	mark    string // in the text of this script only
	file    string // on the server
	calls   string // path of its calls
}

var trackers = []tracker{
	{"", "collect.php", "svc.js", "collect.php"},
	{"Umami", "umami", "script.js", "api/send"},
	{"Plausible", "plausible", "js/script.js", "api/event"},
	{"GoatCounter", "goatcounter", "count.js", "count"},
	{"Matomo", "matomo", "matomo.js", "matomo.php"},
}

// ownMark is in all trackers, and not in the scripts of the other products.
const ownMark = "svc_debug"

var (
	// trackerNames matches the paths of trackers on the server.
	trackerNames = regexp.MustCompile(
		`/(?:svc(?:\.[0-9a-f]{12})?\.js|script\.js|umami\.js|count\.js|matomo\.js|piwik\.js|js/(?:|(?:script|plausible|index|pa-)[^/]*\.js))$`)

	// keyShape matches a site key that is a word.
	keyShape = regexp.MustCompile(`(?:^|[^0-9a-z])([0-9a-f]{32})(?:[^0-9a-z]|$)`)

	// folderOfKey matches the part of an address up to the folder of a site key.
	folderOfKey = regexp.MustCompile(`.*/[0-9a-f]{32}/`)

	// quotedAddress and quotedID match values in an inline script that adds a tracker's tag.
	quotedAddress = regexp.MustCompile(`["']((?:https?:)?//[^"'\s]+)["']`)
	quotedID      = regexp.MustCompile(`["'](?:setSiteId|data-site|data-website-id|data-domain)["']\s*,\s*["']?([^"')\]]+)`)
)

// recognise finds out which tracker a script is, and reports whether it is one.
func (s *siteCheck) recognise(script []byte) bool {
	for _, t := range trackers {
		if !bytes.Contains(script, []byte(t.mark)) || t.product != "" && !bytes.Contains(script, []byte(ownMark)) {
			continue
		}

		s.tracker = t
		if t.product != "" {
			s.done("script for " + t.product)
			s.key = cmp.Or(s.key, firstKey([]string{s.script.Path}))
		}
		return true
	}
	return false
}

// readPage finds the tag of a tracker on a page. A page without such a tag is a finding.
func (s *siteCheck) readPage(page []byte) bool {
	s.page = s.script
	tokens := html.NewTokenizer(bytes.NewReader(page))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		token := tokens.Token()
		if kind != html.StartTagToken || token.DataAtom != atom.Script {
			continue
		}

		attributes := make(map[string]string)
		for _, a := range token.Attr {
			attributes[a.Key] = strings.TrimSpace(a.Val)
		}
		inline := ""
		if attributes["src"] == "" && tokens.Next() == html.TextToken {
			inline = string(tokens.Text())
		}
		if s.readTag(attributes, inline) {
			s.done("tag of " + s.script.String())
			return true
		}
	}

	s.fault("site-script-missing", "Put the tag on the page. If other scripts add it, give the address of the tag's script here.",
		"%s has no tag of Tallygate", s.page)
	return false
}

// readTag reads a script element of the page, or the inline script that adds one, and reports
// whether it is a tracker's.
func (s *siteCheck) readTag(attributes map[string]string, inline string) bool {
	ids := []string{attributes["data-site"], attributes["data-website-id"], attributes["data-domain"]}
	addresses := []string{attributes["src"]}
	for _, match := range quotedAddress.FindAllStringSubmatch(inline, -1) {
		address := match[1]
		if strings.HasSuffix(address, "/") && strings.Contains(inline, "matomo.js") {
			address += "matomo.js" // the usual snippet joins the two
		}
		if strings.Contains(address, ".js") {
			addresses = append(addresses, address)
		}
	}
	for _, match := range quotedID.FindAllStringSubmatch(inline, -1) {
		ids = append(ids, match[1])
	}

	for _, address := range addresses {
		script, err := s.page.Parse(address)
		if address == "" || err != nil || !s.isTracker(script, attributes["data-goatcounter"]+strings.Join(ids, "")) {
			continue
		}

		s.script = script
		s.calls = cmp.Or(attributes["data-goatcounter"], attributes["data-api"])
		if host := attributes["data-host-url"]; host != "" {
			s.calls = strings.TrimRight(host, "/") + "/api/send"
		}

		// In another product's tag, a key in an address precedes the id, which may be that product's.
		s.key = firstKey(append([]string{attributes["data-site"], s.calls, script.Path}, ids...))
		return true
	}
	return false
}

// isTracker reports whether an address is a tracker's: on the server by its name, and on the
// website, where it has any name, if the tag has an id.
func (s *siteCheck) isTracker(script *url.URL, id string) bool {
	server, _ := url.Parse(s.server)
	return script.Host == server.Host && trackerNames.MatchString(script.Path) || script.Host == s.page.Host && id != ""
}

// firstKey returns the first site key in texts, or "". Hyphens are ignored, as the scripts do.
func firstKey(texts []string) string {
	for _, text := range texts {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "/pa-", "/"), "-", "")
		if match := keyShape.FindStringSubmatch(strings.ToLower(text)); match != nil {
			return match[1]
		}
	}
	return ""
}

// collectEndpoint returns the endpoint of a tracker's calls. Its body reports an engagement without
// a page view, which is neither stored nor counted even if key is a site's.
func collectEndpoint(path, key string) endpoint {
	key = cmp.Or(key, strings.Repeat("0", 32))
	return endpoint{path, `{"k":"` + key + `","t":"engagement","p":"/"}`, `"unknown_site_key"`}
}

// addressOf returns the address at which pages call an endpoint.
func (s *siteCheck) addressOf(e endpoint) string {
	if s.calls != "" {
		if address, err := s.page.Parse(s.calls); err == nil {
			return address.String()
		}
	}
	if s.tracker.product != "Plausible" || e.path != s.tracker.calls {
		return s.inFolder(e.path)
	}

	// Without a key in its address, Plausible's script calls the origin.
	return cmp.Or(folderOfKey.FindString(s.script.String()), s.script.ResolveReference(&url.URL{Path: "/"}).String()) + e.path
}

// reportKey adds a finding if the server refuses a call for its site key, and reports whether it
// does. A script's address alone need not have a key.
func (s *siteCheck) reportKey(got *answer) bool {
	from := cmp.Or(s.page, s.script)
	switch {
	case bytes.Contains(got.body, []byte(`"domain_not_allowed"`)):
		s.fault("site-domain", "Add the domain to the site, or copy the tag of the domain's site.",
			"%s: the site of the key does not accept pages on %s", from, s.origin())
	case !bytes.Contains(got.body, []byte(`"unknown_site_key"`)):
		return false
	case s.key != "":
		s.fault("site-key", "Copy the tag from the site's installation page.", "%s: no active site has the key %s", from, s.key)
	case s.page != nil:
		s.fault("site-key", "Put the site key into the address: "+s.server+"/KEY/"+s.tracker.file+".",
			"%s: the tag of %s has no site key", from, s.script)
	default:
		return false
	}
	return true
}
