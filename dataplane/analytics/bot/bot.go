// Package bot tells self-declared bots, crawlers, HTTP libraries and headless browsers from
// browsers (analytics contract, section 1), by the user agent alone. The collect and server
// handlers ask it once for every hit.
//
// It knows two lists of regular expressions, the public one in patterns.txt (see gen.go) with our
// amendments and our own in extra.txt, and a few rules about the shape of a user agent. It keeps
// nothing of what it is asked, so there is no cache to fill or to leak: one pass over the text
// finds the few expressions that can match at all, and only these are run.
package bot

import (
	"strings"
	"sync"
)

// longest is the length in bytes from which a user agent is nobody's: the longest of a person's
// that we saw has 588.
const longest = 2048

var patterns = sync.OnceValue(load)

// Is reports whether the user agent is that of a bot. An empty or absurdly long one is. Safe for
// concurrent use.
func Is(userAgent string) bool {
	switch {
	case len(userAgent) > longest, !likeABrowser(userAgent), holdsMailAddress(userAgent):
		return true
	case patterns().match(userAgent):
		// a students' app whose browser carries a link, as crawlers do
		return !strings.Contains(userAgent, "StudoBrowser/")
	}

	return false
}

// likeABrowser reports whether the user agent has the shape that browsers share: several words, and
// a remark, usually in parentheses, on the system they run on. That remark says "compatible" in a
// few old ones and in most crawlers.
func likeABrowser(ua string) bool {
	if hasPrefix(ua, textBrowsers) {
		return true
	}
	if strings.IndexByte(ua, ' ') < 0 {
		return false
	}

	// left: apps on iOS, phones of 2005, some makers' Android browsers
	if strings.IndexByte(ua, '(') < 0 {
		return strings.Contains(ua, " CFNetwork/") || strings.Contains(ua, "MIDP") || strings.Contains(ua, " Android/")
	}

	_, system, says := strings.Cut(ua, "compatible;")
	return !says || hasPrefix(strings.TrimLeft(system, " "), compatible)
}

var (
	textBrowsers = []string{"Lynx/", "w3m/", "Dillo/"}
	// compatible lists what follows "compatible;" in browsers.
	compatible = []string{
		"ABrowse", "Amiga", "Android", "IBrowse", "Konqueror", "Linux", "MSIE", "Macintosh", "U;", "WOW64", "Windows", "X11", "iPad", "iPhone",
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

// holdsMailAddress reports whether there is an @ with a letter or digit before it and a domain
// behind it. Apps write one too, before a version (Ecosia's ios@9.2) or a calendar (Instagram's
// en_SA@calendar=gregorian).
func holdsMailAddress(ua string) bool {
	before, domain, found := strings.Cut(ua, "@")
	if !found || before == "" || !isLetter(before[len(before)-1]) && !isDigit(before[len(before)-1]) {
		return false
	}

	label := 0
	for label < len(domain) && (isLetter(domain[label]) || isDigit(domain[label]) || domain[label] == '-') {
		label++
	}

	return label > 0 && isLetter(domain[0]) && label+1 < len(domain) && domain[label] == '.' && isLetter(domain[label+1])
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
