package importer

import (
	"strings"

	"github.com/tallygate/tallygate/db/reports/scan"
)

// pathOf returns the path of a page in the form that the site's own hits have: as location.pathname
// of a browser, which encodes characters as UTF-8. Services store paths encoded or decoded. What is
// encoded stays, and a percent sign that begins no escape was decoded, so that it becomes %25. An
// address loses its scheme, host, query and fragment. "(other)" and "(not set)" are no pages and
// stay.
func pathOf(page string) string {
	if page == "" || page == scan.OtherValue || page == notSet {
		return page
	}

	if _, rest, ok := cutScheme(page); ok {
		_, page = cutHost(rest)
	}
	if end := strings.IndexAny(page, "?#"); end >= 0 {
		page = page[:end]
	}
	page = browsed.Replace(page)
	if !strings.HasPrefix(page, "/") {
		page = "/" + page
	}
	if strings.Contains(page, "/.") || strings.Contains(page, "/%2") {
		page = withoutDots(page)
	}
	return bounded(escape(page))
}

// browsed replaces what browsers do not keep of an address
// (https://url.spec.whatwg.org/#url-parsing).
var browsed = strings.NewReplacer("\t", "", "\n", "", "\r", "", `\`, "/")

// cutScheme cuts an address after the scheme. ok is false for a text that does not begin with a
// scheme.
func cutScheme(address string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(address, "://")
	other := func(r rune) bool {
		return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("+-.", r)
	}
	return scheme, rest, ok && scheme != "" && strings.IndexFunc(scheme, other) < 0
}

// cutHost cuts an address without scheme after the host.
func cutHost(address string) (host, rest string) {
	end := strings.IndexAny(address, `/\?#`)
	if end < 0 {
		end = len(address)
	}
	return address[:end], address[end:]
}

// withoutDots resolves the segments . and .. of a path.
func withoutDots(path string) string {
	var kept []string
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		dots := strings.ReplaceAll(strings.ToLower(segment), "%2e", ".")
		switch dots {
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		case ".":
		default:
			kept = append(kept, segment)
			continue
		}
		if i == len(segments)-1 {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// escape encodes the characters of a path that Chromium encodes. The standard leaves out the
// vertical line.
func escape(path string) string {
	plain := func(i int) bool {
		c := path[i]
		if c == '%' {
			return i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2])
		}
		return c > ' ' && c < 0x7f && strings.IndexByte("\"<>^`{|}", c) < 0
	}

	var b strings.Builder
	for i := range len(path) {
		if plain(i) {
			b.WriteByte(path[i])
			continue
		}
		const digits = "0123456789ABCDEF"
		b.Write([]byte{'%', digits[path[i]>>4], digits[path[i]&15]})
	}
	return b.String()
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// address returns a referrer as an address with a path as browsers send it. Most services store referrers
// without a scheme.
func address(referrer string) string {
	if referrer == "" {
		return ""
	}
	scheme, rest, ok := cutScheme(referrer)
	if !ok {
		scheme, rest = "https", referrer
	}
	host, path := cutHost(rest)
	return scheme + "://" + host + pathOf(path)
}

// sourceOf returns a source in the form that own hits have: a host in ASCII, such as xn--bcher-kva.example,
// or a name in lower case.
func sourceOf(text string) string {
	if host := hostOf(text); host != "" {
		return host
	}
	return strings.ToLower(text)
}

// lower returns a text in lower case.
func lower(text string) string { return strings.ToLower(text) }

// page returns a field with the path or address of a page as it is stored; empty for a missing one.
func (t *table) page(column string) string {
	text := t.raw(column)
	if text == notSet {
		return text
	}
	return pathOf(value(text))
}
