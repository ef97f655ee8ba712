package analytics

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/dataplane/bot"
	"github.com/tallygate/tallygate/db/model"
)

// Limits of texts as they are stored, in characters. Longer ones are cut.
const (
	maxPath     = 2_048
	maxReferrer = 2_048 // host and path
)

// hit is an accepted call that is to be stored. It has a pageview, an event or an engagement.
type hit struct {
	site     *site
	at       model.Instant   // time of arrival
	deadline time.Time       // of the answer, set before the first lookup
	visitor  model.VisitorID // unset for engagement
	userID   []byte          // keyed hash of the pseudonymous user id, or nil
	entry    entry
	client   model.Client // of a browser, as far as the site keeps it
	size     int          // of the body, in bytes
	cell     int64        // of the site, as far as the site's rules say

	pageview   *model.Pageview // At, Visitor and N are set by the writer
	event      *event.Accepted
	path       string // of the event
	onPageview *int64 // id of the page view that a browser's event names, or nil
	engagement *model.Engagement
}

// Cell and Deadline implement batch.Item.
func (h *hit) Cell() int64         { return h.cell }
func (h *hit) Deadline() time.Time { return h.deadline }

func (h *hit) usageKey() model.UsageKey {
	return model.UsageKey{SiteID: h.site.id, Month: h.at.Month()}
}

func (h *hit) visitorKey() model.VisitorKey {
	return model.VisitorKey{SiteID: h.site.id, Visitor: h.visitor}
}

func (h *hit) isManual() bool { return h.pageview != nil && h.pageview.Manual }

// transactionKey returns the key of a purchase or refund. It reports false for other hits.
func (h *hit) transactionKey() (model.TransactionKey, bool) {
	if h.event == nil || h.event.TransactionID == "" {
		return model.TransactionKey{}, false
	}
	return model.TransactionKey{SiteID: h.site.id, TransactionID: h.event.TransactionID}, true
}

// viewKey returns the key of the page view that the hit is, or that its event names. It reports
// false for other hits.
func (h *hit) viewKey() (model.ViewKey, bool) {
	switch {
	case h.pageview != nil:
		return model.ViewKey{Visitor: h.visitorKey(), PageviewID: h.pageview.ID}, true
	case h.onPageview != nil:
		return model.ViewKey{Visitor: h.visitorKey(), PageviewID: *h.onPageview}, true
	}
	return model.ViewKey{}, false
}

// converts reports whether the hit calls the site's conversion webhook.
func (h *hit) converts() bool { return h.event != nil && h.site.keyEvents[h.event.Name] }

// entry is the attribution of the visit that the hit may start.
type entry struct {
	campaign model.Campaign
	referrer string
	channel  channel.Channel
}

// newEntry returns the attribution by campaign and referrer.
func newEntry(campaign model.Campaign, referrer string, domains []string) entry {
	host, page := ReferringPage(referrer, domains)
	return entry{campaign: campaign, referrer: page, channel: channel.Of(campaign, host)}
}

// newPageview returns the page view of a payload. A missing or malformed id is replaced by a random
// one.
func newPageview(p *payload.Payload, site *site, path string) *model.Pageview {
	id, ok := pageviewID(p.PageviewID)
	if !ok {
		id = rand.Int64()
	}

	return &model.Pageview{
		SiteID:     site.id,
		ID:         id,
		Path:       path,
		Language:   Language(p.Language),
		WidthRange: model.WidthRange(p.Width),
		Manual:     p.Manual,
	}
}

// newEngagement returns the engagement report of a payload, or nil if it names no page view.
func newEngagement(p *payload.Payload, site *site, at model.Instant) *model.Engagement {
	id, ok := pageviewID(p.PageviewID)
	if !ok {
		return nil
	}

	return &model.Engagement{
		EngagementKey: model.EngagementKey{SiteID: site.id, Day: at.Day(), PageviewID: id},
		MS:            int32(max(0, min(p.MS, int(model.MaxEngagement.Milliseconds())))),
		Scroll:        int16(max(0, min(p.Scroll, 100))),
	}
}

// PagePath returns the path of p as it was sent, without query and fragment. It reports false if p
// does not start with a slash.
func PagePath(p string) (string, bool) {
	if !strings.HasPrefix(p, "/") {
		return "", false
	}
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	return model.Storable(p, maxPath), true
}

// ReferringPage returns the host, and the host and path, of the referring page. It returns empty
// strings for an address of the site itself, for an unreadable one, and for a scheme that web pages
// do not have.
func ReferringPage(referrer string, domains []string) (host, page string) {
	if referrer == "" {
		return "", ""
	}

	// Android apps send their package name as an address.
	if app, ok := strings.CutPrefix(referrer, "android-app://"); ok {
		referrer = "https://" + app
	}

	host, u, ok := model.PageAddress(referrer)
	if !ok || model.HostBelongs(host, domains) {
		return "", ""
	}

	return host, model.Clean(host+strings.TrimSuffix(u.EscapedPath(), "/"), maxReferrer)
}

// pageviewID parses the 16 hexadecimal characters of a page view id.
func pageviewID(s string) (int64, bool) {
	if len(s) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 64)
	return int64(n), err == nil
}

// Language returns the language of a browser's language tag such as xx-YY: two lower-case letters,
// or an empty string.
func Language(l string) string {
	tag, _, _ := strings.Cut(l, "-")
	if len(tag) != 2 || !bot.IsLetter(tag[0]) || !bot.IsLetter(tag[1]) {
		return ""
	}
	return strings.ToLower(tag)
}

// cleanAgent normalises a user agent, so that a browser's header and a server's call of the same
// browser have the same pseudonym.
func cleanAgent(userAgent string) string {
	return strings.TrimSpace(model.Clean(userAgent, payload.MaxText))
}

// isExcluded reports whether the owner has excluded the address.
func isExcluded(addr netip.Addr, excluded []netip.Prefix) bool {
	return slices.ContainsFunc(excluded, func(network netip.Prefix) bool { return network.Contains(addr) })
}
