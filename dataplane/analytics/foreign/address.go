package foreign

import (
	"net/url"
	"strings"

	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/db/model"
)

// setPage sets path and campaign from the address of a page. With hashRoutes, a fragment that begins
// with / or !/ is the route of an app: it becomes the path.
func setPage(p *payload.Payload, address string, hashRoutes bool) {
	page, fragment, _ := strings.Cut(address, "#")
	page, query, _ := strings.Cut(page, "?")

	p.Path = pathOf(page)
	p.Campaign = campaignOf(query)

	route := strings.TrimPrefix(fragment, "!")
	if hashRoutes && strings.HasPrefix(route, "/") {
		p.Path = escape(withoutQuery(route))
	}
}

// withoutQuery returns an address without query and fragment.
func withoutQuery(address string) string {
	if i := strings.IndexAny(address, "?#"); i >= 0 {
		return address[:i]
	}
	return address
}

// pathOf returns the path of an address without query and fragment, or of a path. It returns an
// empty string for an address that is not a page's, which collect refuses as bad_path.
func pathOf(page string) string {
	if strings.HasPrefix(page, "/") {
		return escape(page)
	}

	scheme, rest, _ := strings.Cut(page, "://")
	if !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") || rest == "" {
		return ""
	}

	// The host is not checked: domain binding compares the calling page's origin.
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return "/"
	}
	return escape(rest[slash:])
}

// escape escapes what location.pathname has in escaped form (WHATWG URL, path percent-encode set).
// Some versions of Umami's code decode the address before they send it, and a page must have one
// path for all scripts.
func escape(path string) string {
	if strings.IndexFunc(path, isEscaped) < 0 {
		return path
	}

	var b strings.Builder
	for _, r := range path {
		if isEscaped(r) {
			b.WriteString(url.PathEscape(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isEscaped(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>`{}", r) }

// campaignOf returns the campaign of a query, by the names that svc.js reads. All other parameters
// are dropped.
func campaignOf(query string) (c model.Campaign) {
	for parameter := range strings.SplitSeq(query, "&") {
		name, escaped, _ := strings.Cut(parameter, "=")
		name, isUTM := strings.CutPrefix(name, "utm_")
		field, isClickID := payload.CampaignField(&c, name)
		if field == nil || isUTM == isClickID || *field != "" {
			continue
		}

		// Browsers keep an invalid escape as it is.
		value, err := url.QueryUnescape(escaped)
		if err != nil {
			value = escaped
		}

		if isUTM {
			*field = strings.ToLower(strings.TrimSpace(model.Clean(value, payload.MaxCampaign)))
		} else {
			*field = model.Clean(value, payload.MaxClickID)
		}
	}

	return channel.Complete(c)
}
