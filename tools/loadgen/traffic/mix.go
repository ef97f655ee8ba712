// Package traffic makes the hits of a run and records the acknowledged ones. Every hit carries a
// mark, so that package verify finds its row.
package traffic

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// Kind is the type of a hit. It decides the expected result of the server.
type Kind uint8

const (
	pageview  Kind = iota // stored
	manual                // a page view sent by the page's own code, of pages used by no other kind: stored
	own                   // one of the site's own events
	automatic             // an event that the script sends automatically
	item                  // an e-commerce event without a transaction
	purchase
	refund
	Bot // answered with success, never stored
	Bad // refused, never stored

	Engagement // an engagement report, with the mark of its page view
	repetition // a repeated purchase, with the mark of the first one
)

// IsStored reports whether an acknowledged hit of this kind must be found in the database.
func (k Kind) IsStored() bool { return k != Bot && k != Bad }

// share is the frequency of a kind, in hits per thousand.
type share struct {
	kind     Kind
	permille int
}

// Mixes are the traffic mixes by name.
var Mixes = map[string][]share{
	// A day of a few shops and magazines: about a third of an event and one or two engagement
	// reports per page view, one purchase per fifty visitors, and a few hits that must not be
	// stored.
	"realistic": {
		{pageview, 600}, {manual, 10}, {Engagement, 240}, {automatic, 60}, {own, 35}, {item, 15}, {purchase, 6},
		{repetition, 2},
		{refund, 1}, {Bot, 20}, {Bad, 11},
	},
	// Page views only, for comparisons with other programs and other versions.
	"pageviews": {{pageview, 1000}},
}

const (
	paths   = 200   // of each site
	skus    = 500   // articles of each shop
	skewed  = 1.2   // exponent of the Zipf distributions
	flatten = 3     // lowers the share of the most frequent value
	expired = 1_000 // hits of the connection after which a purchase is not repeated
)

// Traffic is the part of a run that all connections share.
type Traffic struct {
	run          uint16
	Seed         uint64
	Host         string // of the data plane
	Mix          []share
	Sites        []target.Site
	Visitors     int // of each site
	FirstVisitor int // number of the first visitor; Visitors more than in another run: no visitor in common
	features     target.Features
}

// hit is one request.
type hit struct {
	kind    Kind
	mark    Mark
	site    int // index in Traffic.Sites
	visitor int
	want    int // expected HTTP status
	variant int // selects a variant of the kind
}

// Mixer makes the hits of one connection. Its hits depend only on the seed and the connection,
// never on responses, so that a run can be repeated.
type Mixer struct {
	*Traffic
	connection                 int
	random                     *rand.Rand
	sitePick, visitorPick, url *rand.Zipf
	number                     uint32
	table                      [1000]Kind

	viewed *hit // last page view without an engagement report
	bought *hit // last purchase

	body, request []byte
}

// NewMixer returns the mixer of one connection.
func NewMixer(t *Traffic, connection int) *Mixer {
	m := &Mixer{Traffic: t, connection: connection}
	m.random = rand.New(rand.NewPCG(t.Seed, uint64(connection)))
	m.sitePick = PickSite(m.random, len(t.Sites))
	m.visitorPick = rand.NewZipf(m.random, skewed, 1000, uint64(t.Visitors-1))
	m.url = rand.NewZipf(m.random, skewed, flatten, paths-1)
	filled := 0

	for _, s := range t.Mix {
		for range s.permille {
			m.table[filled] = possible(t.features, s.kind)
			filled++
		}
	}

	return m
}

// PickSite returns a generator of site indexes below n. A few sites get most of the hits.
func PickSite(random *rand.Rand, n int) *rand.Zipf {
	return rand.NewZipf(random, skewed, flatten, uint64(n-1))
}

// possible replaces a kind that the target does not support.
func possible(f target.Features, k Kind) Kind {
	switch {
	case k == own && !f.OwnEvents, (k == item || k == purchase || k == refund || k == repetition) && !f.Ecommerce:
		return automatic
	}
	return k
}

// hit returns the next hit.
func (m *Mixer) hit() hit {
	m.number++
	h := hit{kind: m.table[m.random.IntN(len(m.table))], want: 204, variant: m.random.IntN(1 << 16)}
	switch h.kind {
	case Engagement:
		if m.viewed != nil {
			h.mark, h.site, h.visitor = m.viewed.mark, m.viewed.site, m.viewed.visitor
			m.viewed = nil
			return h
		}

		// Without a page view to report on, view a page first.
		h.kind = pageview
	case repetition:
		if m.bought != nil && m.number-m.bought.mark.Parts().number < expired {
			h.mark, h.site, h.visitor, h.variant = m.bought.mark, m.bought.site, m.bought.visitor, m.bought.variant
			return h
		}

		// Without a recent purchase to repeat, buy first.
		h.kind = purchase
	}

	h.mark = newMark(Parts{Run: m.run, connection: uint16(m.connection), number: m.number, Kind: h.kind})
	h.site, h.visitor = int(m.sitePick.Uint64()), m.FirstVisitor+int(m.visitorPick.Uint64())
	switch kept := h; h.kind {
	case pageview:
		m.viewed = &kept
	case purchase:
		m.bought = &kept
	case Bad:
		h.want = badCalls[h.variant%len(badCalls)].status
	}

	return h
}

// badCall is a call that the server must refuse.
type badCall struct {
	status int
	spoil  func(m *Mixer, h *hit) (origin string)
}

// badCalls are typical calls of scanners, outdated pages and misconfigured sites.
var badCalls = []badCall{
	{404, func(m *Mixer, h *hit) string { // an unknown site key
		m.pageview(h, fmt.Sprintf("%032x", uint64(h.mark)))
		return m.Sites[h.site].Origin()
	}},
	{403, func(m *Mixer, h *hit) string { // a page of another domain
		m.pageview(h, m.Sites[h.site].Key)
		return "https://copied.example"
	}},
	{400, func(m *Mixer, h *hit) string { // a truncated body
		m.pageview(h, m.Sites[h.site].Key)
		m.body = m.body[:len(m.body)-2]
		return m.Sites[h.site].Origin()
	}},
	{400, func(m *Mixer, h *hit) string { // an unregistered event
		m.begin(m.Sites[h.site].Key, "event", "/")
		m.body = append(m.body, `,"e":"unheard_of"}`...)
		return m.Sites[h.site].Origin()
	}},
}

// next returns the bytes of a hit's request.
func (m *Mixer) next(h *hit) []byte {
	s := &m.Sites[h.site]
	agent := Agents[h.visitor%len(Agents)]
	origin := s.Origin()

	switch h.kind {
	case Engagement:
		m.begin(s.Key, "engagement", m.path(h))
		m.appendText("i", h.mark)
		m.body = fmt.Appendf(m.body, `,"ms":%d,"sc":%d}`, h.mark.EngagedMS(), h.variant%101)
	case own, automatic, item, purchase, repetition, refund:
		if (h.kind == purchase || h.kind == repetition) && s.Secret != "" && h.variant%2 == 0 {
			return m.serverCall(h)
		}

		m.begin(s.Key, "event", m.path(h))
		m.event(h, "e", "m")
		m.body = append(m.body, '}')
	case Bad:
		origin = badCalls[h.variant%len(badCalls)].spoil(m, h)
	case Bot:
		agent = bots[h.variant%len(bots)]
		m.pageview(h, s.Key)
	default:
		m.pageview(h, s.Key)
	}

	return m.browserCall(origin, agent, h.visitor)
}

// begin starts a payload with the members of every call.
func (m *Mixer) begin(key, t, path string) {
	m.body = fmt.Appendf(m.body[:0], `{"k":"%s","t":"%s","p":"%s"`, key, t, path)
}

// appendText appends a member with a mark as its value.
func (m *Mixer) appendText(name string, value Mark) {
	m.body = append(append(append(m.body, `,"`...), name...), `":"`...)
	m.body = append(value.Append(m.body), '"')
}

func (m *Mixer) pageview(h *hit, key string) {
	path := m.path(h)

	// The server ignores a manual page view soon after an automatic one of the same page.
	if h.kind == manual {
		path = "/app" + path
	}

	m.begin(key, "pageview", path)
	m.appendText("i", h.mark)
	v := h.variant
	m.body = append(append(append(m.body, `,"r":`...), referrers[v%len(referrers)]...), `,"u":`...)
	m.body = append(m.body, campaigns[v/16%len(campaigns)]...)
	m.body = fmt.Appendf(m.body, `,"w":%d,"l":"%s"`, widths[h.visitor%len(widths)], languages[h.visitor%len(languages)])

	if h.kind == manual {
		m.body = append(m.body, `,"x":1`...)
	}

	m.body = append(m.body, '}')
}

// event appends an event's name and properties under the endpoint's member names.
func (m *Mixer) event(h *hit, name, properties string) {
	v := h.variant
	sku, price := v%skus, 5+v%200
	m.body = append(append(append(m.body, `,"`...), name...), `":"`...)

	switch h.kind {
	case own:
		m.body = append(append(m.body, target.OwnEvents[v%len(target.OwnEvents)]...), `","`...)
		m.body = append(append(m.body, properties...), `":{"plan":"pro"`...)
		m.appendText("mark", h.mark)
	case automatic:
		m.automatic(h, properties)
	case item:
		m.body = append(append(m.body, []string{"view_item", "add_to_cart"}[v%2]...), `","`...)
		m.body = append(m.body, properties...)
		m.body = fmt.Appendf(m.body, `":{"item_id":"sku-%d","item_name":"Article %d","price":%d.99,"quantity":1`,
			sku, sku, price)
		m.appendText("mark", h.mark)
	default:
		event, prefix := "purchase", "T-"

		if h.kind == refund {
			event, prefix = "refund", "R-"
		}

		m.body = fmt.Appendf(m.body,
			`%s","%s":{"value":%d.98,"currency":"EUR","items":[{"item_id":"sku-%d","price":%d.99,"quantity":2}],"transaction_id":"%s`,
			event, properties, 2*price, sku, price, prefix)

		m.body = append(h.mark.Append(m.body), '"')
	}

	m.body = append(m.body, '}')
}

// automatic appends an automatic event. Its properties are fixed, so one of their values holds the
// mark.
func (m *Mixer) automatic(h *hit, properties string) {
	if h.variant%2 == 0 {
		m.body = append(append(append(m.body, `outbound_click","`...), properties...), `":{"host":"`...)
		m.body = append(h.mark.Append(m.body), `.example.net"`...)
		return
	}
	m.body = append(append(append(m.body, `file_download","`...), properties...), `":{"ext":"pdf","file":"/files/`...)
	m.body = append(h.mark.Append(m.body), `.pdf"`...)
}

// path returns a page. An engagement report may name any page, because the server finds the page
// view by its id.
func (m *Mixer) path(h *hit) string {
	return PagePaths[m.url.Uint64()]
}

// browserCall wraps the body into the request of a browser behind a trusted proxy.
func (m *Mixer) browserCall(origin, agent string, visitor int) []byte {
	b := append(m.request[:0], "POST /collect.php HTTP/1.1\r\nHost: "...)
	b = append(append(append(b, m.Host...), "\r\nOrigin: "...), origin...)
	b = append(append(append(b, "\r\nReferer: "...), origin...), "/\r\nUser-Agent: "...)
	b = append(b, agent...)
	b = append(b, "\r\nAccept: */*\r\nAccept-Language: de-DE,de;q=0.9,en;q=0.8\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n"+
		"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: empty\r\nContent-Type: text/plain;charset=UTF-8\r\n"+
		"X-Forwarded-For: "...)

	b = appendAddress(b, visitor)
	return m.finish(b)
}

// serverCall returns a purchase that a shop's server reports.
func (m *Mixer) serverCall(h *hit) []byte {
	s := &m.Sites[h.site]
	m.body = append(m.body[:0], `{"ip":"`...)
	m.body = appendAddress(m.body, h.visitor)
	m.body = fmt.Appendf(m.body, `","user_agent":"%s","path":"%s"`, Agents[h.visitor%len(Agents)], m.path(h))
	m.event(h, "event", "meta")
	m.body = append(m.body, '}')
	h.want = 200
	b := append(m.request[:0], "POST /server.php HTTP/1.1\r\nHost: "...)
	b = append(append(append(b, m.Host...), "\r\nAuthorization: Bearer "...), s.Secret...)
	b = append(b, "\r\nContent-Type: application/json"...)

	return m.finish(b)
}

func (m *Mixer) finish(b []byte) []byte {
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(m.body)), 10)
	b = append(b, "\r\n\r\n"...)
	m.request = append(b, m.body...)
	return m.request
}

// appendAddress appends the visitor's address within 10.0.0.0/8.
func appendAddress(b []byte, visitor int) []byte {
	return fmt.Appendf(b, "10.%d.%d.%d", visitor>>16&255, visitor>>8&255, visitor&255)
}
