// Package bot detects self-declared bots, crawlers, HTTP libraries and headless browsers by their
// user agent (analytics contract, section 1). The collect and server endpoints call it once per
// hit, and the captcha once per challenge.
//
// It has two lists of regular expressions, the public one in patterns.txt (see gen.go) with our
// amendments and our own in extra.txt, and a few rules about the form of a user agent. It caches no
// user agent: one pass over the text finds the few expressions that can match at all, and only
// these are run.
package bot

import (
	"strings"
	"sync"
)

// maxUserAgent is the longest user agent accepted as a browser's, in bytes. The longest real one
// that we have seen has 588.
const maxUserAgent = 2048

var patterns = sync.OnceValue(load)

// Is reports whether the user agent belongs to a bot. An empty or overlong one does. It is safe for
// concurrent use.
func Is(userAgent string) bool {
	switch {
	case len(userAgent) > maxUserAgent, !likeABrowser(userAgent), containsMailAddress(userAgent):
		return true
	case !patterns().match(userAgent), !patterns().match(withoutDevice(userAgent)):
		return false
	}

	// The browser of this students' app contains a link, as crawlers do.
	return !strings.Contains(userAgent, "StudoBrowser/")
}

// withoutDevice returns the user agent of a phone without the list in parentheses or brackets that
// an app adds about the device, such as "(34/14; 440dpi; 1080x2176; Xiaomi/Redmi; 22101316G; ruby;
// …)". Phones have words as names that are programs, too. Crawlers declare themselves in
// parentheses with "compatible" or an address.
func withoutDevice(ua string) string {
	browser := strings.LastIndex(ua, " Mobile Safari/")
	if browser < 0 {
		browser = strings.LastIndex(ua, " Mobile/")
	}
	if browser < 0 {
		return ua
	}

	app := ua[browser:]
	open := strings.IndexAny(app, "([")
	if open < 0 {
		return ua
	}
	list, rest := app[open:], ""
	if end := strings.IndexAny(list, ")]"); end >= 0 {
		list, rest = list[:end], list[end:]
	}

	if strings.Count(list, ";") < 2 || strings.Contains(list, "compatible") || strings.Contains(list, "http") {
		return ua
	}
	return ua[:browser] + app[:open] + rest
}

// likeABrowser reports whether the user agent has the form that browsers share: several words, and
// a remark about the operating system, usually in parentheses. That remark contains "compatible" in
// a few old browsers and in most crawlers.
func likeABrowser(ua string) bool {
	if hasPrefix(ua, textBrowsers) {
		return true
	}
	if strings.IndexByte(ua, ' ') < 0 {
		return false
	}

	// Without parentheses, only iOS apps, phones of 2005 and some Android browsers are left.
	if strings.IndexByte(ua, '(') < 0 {
		return strings.Contains(ua, " CFNetwork/") || strings.Contains(ua, "MIDP") || strings.Contains(ua, " Android/")
	}

	_, system, found := strings.Cut(ua, "compatible;")
	return !found || hasPrefix(strings.TrimLeft(system, " "), compatible)
}

var (
	textBrowsers = []string{"Lynx/", "w3m/", "Dillo/"}
	// compatible lists what follows "compatible;" in browsers.
	compatible = []string{
		"ABrowse", "Amiga", "Android", "IBrowse", "Konqueror", "Linux", "MSIE", "Macintosh", "U;",
		"WOW64", "Windows", "X11", "iPad", "iPhone",
	}
)

func hasPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// containsMailAddress reports whether there is an @ between a letter or digit and a domain. Apps
// use an @ as well, before a version (Ecosia's ios@9.2) or a calendar (Instagram's
// en_SA@calendar=gregorian).
func containsMailAddress(ua string) bool {
	before, domain, found := strings.Cut(ua, "@")
	if !found || before == "" || !IsLetter(before[len(before)-1]) && !isDigit(before[len(before)-1]) {
		return false
	}

	label := 0
	for label < len(domain) && (IsLetter(domain[label]) || isDigit(domain[label]) || domain[label] == '-') {
		label++
	}

	return label > 0 && IsLetter(domain[0]) && label+1 < len(domain) && domain[label] == '.' && IsLetter(domain[label+1])
}

// IsLetter reports whether a byte is an ASCII letter.
func IsLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
