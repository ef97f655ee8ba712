package model

import (
	"bytes"
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Campaign holds the values of a hit's campaign object (analytics contract, section 2): the five
// utm values in lower case and the click ids. Empty means absent.
type Campaign struct {
	Source  string `bun:"utm_source,nullzero"`
	Medium  string `bun:"utm_medium,nullzero"`
	Name    string `bun:"utm_campaign,nullzero"` // utm_campaign
	Content string `bun:"utm_content,nullzero"`
	Term    string `bun:"utm_term,nullzero"`
	Gclid   string `bun:",nullzero"`
	Gbraid  string `bun:",nullzero"`
	Wbraid  string `bun:",nullzero"`
	Fbclid  string `bun:",nullzero"`
	Msclkid string `bun:",nullzero"`
}

// VisitorID is the pseudonym of a visitor of one site on one UTC day. Two of a million visitors of
// a day share one with a probability of 3 in 100 million.
type VisitorID [8]byte

// Scan implements sql.Scanner. Databases store the bytes as an integer, see tables.Word.
func (v *VisitorID) Scan(stored any) error {
	number, ok := stored.(int64)
	if !ok {
		return fmt.Errorf("a visitor is stored as %T", stored)
	}
	binary.BigEndian.PutUint64(v[:], uint64(number))
	return nil
}

// VisitorKey identifies one visitor of one site.
type VisitorKey struct {
	SiteID  SiteID
	Visitor VisitorID
}

// ViewKey identifies a page view by its visitor and the id that its page assigned.
type ViewKey struct {
	Visitor    VisitorKey
	PageviewID int64
}

// Visit is a sequence of page views by one visitor on one UTC day. Its first page view sets its
// attribution. Site, day, visitor and N identify it.
type Visit struct {
	SiteID         SiteID
	Visitor        VisitorID
	StartedAt      Instant
	N              int16   // number of the visit among the visitor's visits of the UTC day, from 1
	LastPageviewAt Instant // of a visit without page views, its start if it awaits one, or 0; never decreases
	Pageviews      int32
	Recent         []RecentView // latest automatic page views, see visit.Remember; may be nil
	Awaited        []byte       // page views known only from their events, see visit.Await; may be nil
	Viewed         []byte       // ids of the latest page views, see visit.Add; may be nil
	UserID         []byte       // keyed hash of the owner's pseudonymous user id, 16 bytes; nil without an id
	Referrer       string       // host and path of another site's page; may be empty
	Channel        Channel
	Client         Client // of the first hit of a browser
	Campaign
}

// RecentView is an automatic page view that a visit remembers, because a manual page view may
// repeat it.
type RecentView struct {
	At   Instant
	Path uint32 // hash of its path
}

// recentPathSize is the size of the hash of a path in a stored list of recent views.
const recentPathSize = 4

// PackRecent returns a visit's recent views as the bytes that databases store. Each view has the
// hash of its path and its time relative to base, the time of the visit's last page view. Most
// visits take 5 bytes, because their only recent view is the last.
func PackRecent(views []RecentView, base Instant) []byte {
	packed := make([]byte, 0, len(views)*(recentPathSize+binary.MaxVarintLen32))
	for _, v := range views {
		packed = binary.BigEndian.AppendUint32(packed, v.Path)
		packed = binary.AppendVarint(packed, int64(v.At-base))
	}
	return packed
}

// UnpackRecent returns the recent views of stored bytes, and nil for empty bytes. It stops at the
// first view that it cannot read.
func UnpackRecent(packed []byte, base Instant) (views []RecentView) {
	for len(packed) > recentPathSize {
		after, size := binary.Varint(packed[recentPathSize:])
		if size <= 0 {
			break
		}

		views = append(views, RecentView{At: base + Instant(after), Path: binary.BigEndian.Uint32(packed)})
		packed = packed[recentPathSize+size:]
	}
	return views
}

// Day returns the UTC day of the visit. All of its page views and events are of this day, because
// visitors change at midnight.
func (v *Visit) Day() Day { return v.StartedAt.Day() }

// Compare orders visits by site, day, visitor and number.
func (v *Visit) Compare(other *Visit) int {
	return cmp.Or(
		cmp.Compare(v.SiteID, other.SiteID),
		cmp.Compare(v.Day(), other.Day()),
		bytes.Compare(v.Visitor[:], other.Visitor[:]),
		cmp.Compare(v.N, other.N),
	)
}

// Pageview is one view of one page.
type Pageview struct {
	SiteID     SiteID
	At         Instant
	ID         int64     // the 16 hexadecimal characters of the page view id, as a number
	Visitor    VisitorID // of its visit, which is of its day; likewise N
	N          int16
	Path       string
	Language   string // two letters; empty when unknown
	WidthRange int16  // lower bound of the screen width range in CSS pixels, see WidthRange; -1 when unknown
	Manual     bool   // sent by the page's own call svc('pageview')
}

// Event is one custom, automatic or e-commerce event.
type Event struct {
	SiteID        SiteID
	At            Instant
	ID            int64     // random
	Visitor       VisitorID // of its visit, which is of its day; likewise N
	N             int16
	Name          string
	Path          string
	Value         Money  // of an e-commerce event; negative for a refund
	Currency      string // three capital letters; empty: the event has no value
	TransactionID string // of a purchase or refund
	Properties    string // JSON object without the values that have their own fields; may be empty
}

// Transaction is the record that makes each purchase or refund count only once.
type Transaction struct {
	SiteID        SiteID
	TransactionID string
	Event         string // EventPurchase or EventRefund
	At            Instant
}

// TransactionKey identifies a purchase or refund of a site.
type TransactionKey struct {
	SiteID        SiteID
	TransactionID string
}

// EngagementKey identifies the engagement reported for a page view id on one UTC day.
type EngagementKey struct {
	SiteID     SiteID
	Day        Day
	PageviewID int64
}

// Compare orders by site, day, then page view id.
func (k EngagementKey) Compare(other EngagementKey) int {
	return cmp.Or(cmp.Compare(k.SiteID, other.SiteID), cmp.Compare(k.Day, other.Day),
		cmp.Compare(k.PageviewID, other.PageviewID))
}

// Engagement adds time in view and scroll depth to a page view id. The page view need not be
// stored: it is looked up when rows are read. It receives the reports of its UTC day and of the two
// days after it.
type Engagement struct {
	EngagementKey
	MS         int32   // 0 to 24 h in milliseconds
	Scroll     int16   // 0 to 100 percent
	RepeatedAt Instant // time of the newest page view that repeats this id; 0 if no page view does
}

// UsageKey identifies a site's count of page views and events in one month.
type UsageKey struct {
	SiteID SiteID
	Month  Month
}

const (
	// MaxEngagement bounds a page view's time in view.
	MaxEngagement = 24 * time.Hour

	// EngagementWindow is how long after a page view's day its engagement still counts.
	EngagementWindow = 48 * time.Hour
)

// Compare orders by site, then visitor.
func (k VisitorKey) Compare(other VisitorKey) int {
	return cmp.Or(cmp.Compare(k.SiteID, other.SiteID), bytes.Compare(k.Visitor[:], other.Visitor[:]))
}

// Compare orders by site, then month.
func (k UsageKey) Compare(other UsageKey) int {
	return cmp.Or(cmp.Compare(k.SiteID, other.SiteID), cmp.Compare(k.Month, other.Month))
}

// Compare orders by site, then transaction id.
func (k TransactionKey) Compare(other TransactionKey) int {
	return cmp.Or(cmp.Compare(k.SiteID, other.SiteID), cmp.Compare(k.TransactionID, other.TransactionID))
}

// The automatic events (analytics contract, section 2).
const (
	EventOutboundClick = "outbound_click"
	EventFileDownload  = "file_download"
	EventScroll        = "scroll"
	EventSiteSearch    = "site_search"
)

// The e-commerce events (analytics contract, section 2).
const (
	EventViewItem      = "view_item"
	EventAddToCart     = "add_to_cart"
	EventBeginCheckout = "begin_checkout"
	EventPurchase      = "purchase"
	EventRefund        = "refund"
)

// IsAutomaticEvent reports whether the script measures an event of this name by itself.
func IsAutomaticEvent(name string) bool {
	switch name {
	case EventOutboundClick, EventFileDownload, EventScroll, EventSiteSearch:
		return true
	}
	return false
}

// IsEcommerceEvent reports whether name is one of the five e-commerce events.
func IsEcommerceEvent(name string) bool {
	switch name {
	case EventViewItem, EventAddToCart, EventBeginCheckout, EventPurchase, EventRefund:
		return true
	}
	return false
}

// IsReservedEvent reports whether an owner cannot register the name, because it already has a
// meaning.
func IsReservedEvent(name string) bool {
	return IsAutomaticEvent(name) || IsEcommerceEvent(name) || name == "pageview" || name == "engagement"
}

// IsEventName reports whether s has the form of an event name: 1 to 48 lower-case letters, digits,
// underscores and hyphens (analytics contract, section 2).
func IsEventName(s string) bool {
	if len(s) < 1 || len(s) > 48 {
		return false
	}

	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}

	return true
}

// UnknownWidth is the width range of a page view without a screen width.
const UnknownWidth = -1

// widthRanges are the lower bounds of the screen width ranges in CSS pixels, ascending.
var widthRanges = [...]int16{0, 576, 768, 992, 1200, 1440, 1920}

// WidthRange returns the lower bound of the range that contains a screen width, or UnknownWidth if
// the width is not positive. Only the range is stored (analytics contract, section 2).
func WidthRange(pixels int) int16 {
	if pixels <= 0 {
		return UnknownWidth
	}

	bound := widthRanges[0]
	for _, b := range widthRanges {
		if pixels >= int(b) {
			bound = b
		}
	}

	return bound
}

// WidthRangeName formats a range as 768-991 or 1920+. It returns "" for an unknown one.
func WidthRangeName(bound int16) string {
	for i, b := range widthRanges {
		switch {
		case b != bound:
		case i == len(widthRanges)-1:
			return strconv.Itoa(int(b)) + "+"
		default:
			return strconv.Itoa(int(b)) + "-" + strconv.Itoa(int(widthRanges[i+1])-1)
		}
	}

	return ""
}

// The codes under which calls are counted that a stopped site refuses. Their senders get the code
// of an unknown site key or secret (analytics contract, section 7: "no active site has this key").
const (
	RefusedPaused    = "site_paused"
	RefusedSuspended = "account_suspended"
)

// RecordedPrivateIP is the code of recorded server-side events with an address that no visitor has,
// see IsPrivateIP.
const RecordedPrivateIP = "private_ip"

// IsPrivateIP reports whether an address is private, loopback, link-local or unspecified. A server
// that sends one as its visitor's is behind a proxy and sends the proxy's: all its visitors count
// as one.
func IsPrivateIP(addr netip.Addr) bool {
	return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified()
}

// RejectionAdvice returns one sentence for the owner of a site: what to do about calls with this
// error code or reason (analytics contract, sections 4 and 7).
func RejectionAdvice(code string) string {
	if advice, ok := rejectionAdvice[code]; ok {
		return advice
	}
	return "Calls were not recorded for this reason; see the reference of the endpoint."
}

// IsIgnored reports whether calls with this code are dropped on purpose and need no action.
func IsIgnored(code string) bool { return ignoredCodes[code] }

// IsRecorded reports whether calls with this code were recorded. They are counted because the owner
// should change something.
func IsRecorded(code string) bool { return code == RecordedPrivateIP }

var ignoredCodes = map[string]bool{
	"bot": true, "excluded_address": true, "duplicate_transaction": true, "duplicate_pageview": true, "own_link": true,
	"excluded_country": true, "excluded_path": true, "referrer_spam": true, "data_centre": true,
}

var rejectionAdvice = map[string]string{
	"bad_body": "The body was empty or larger than 8 KB, or broke off: send less in one call.",
	"bad_json": "The body was not one JSON object, had a key twice, or its t was not pageview, event " +
		"or engagement: correct the program that makes it.",
	"bad_path": "The page path did not begin with a slash: send the path of the page, without host " +
		"and query.",
	"unknown_event": "The event name is missing, not registered or not written as it was registered, or " +
		"events of this kind are switched off: register the name, or switch them on in the site's settings.",
	"bad_event": "A required e-commerce field (transaction_id, value, currency, item_id) was missing " +
		"or could not be read, a refund had the id of a purchase, or your server sent a name that is none: compare " +
		"them with the reference.",
	"visitor_required": "Your server sent no valid ip or user_agent: send those of the visitor.",
	RecordedPrivateIP: "Your server sent a private address as ip, probably its proxy's, so these visitors count " +
		"as one: send the visitor's address, which the proxy passes on, for example in X-Forwarded-For.",
	"domain_not_allowed": "The page is on a domain that is not the site's: add it as an extra domain if it is " +
		"yours.",
	RefusedPaused:    "The site is paused: resume it if its calls are to be recorded.",
	RefusedSuspended: "An operator has suspended the account: ask the operator of this installation.",
	"quota_exceeded": "The month's page views are used up: choose a larger plan, or wait for the next month.",
	"flood": "One network sent more calls than a large office does, and those above the limit were " +
		"left out: nothing to do if they were forged; if they were real, ask the operator to raise " +
		"TALLYGATE_FLOOD_BURST and TALLYGATE_FLOOD_RATE.",
	"server_flood": "Your servers sent more calls than a large shop does on a sale day, and those above the " +
		"limit were left out: send a backlog more slowly; replace the server secret if the calls are not yours; " +
		"if they were real, ask the operator to raise TALLYGATE_SERVER_FLOOD_BURST and TALLYGATE_SERVER_FLOOD_RATE.",
	"bot":              "These were bots and crawlers: nothing to do.",
	"excluded_address": "These came from addresses that you excluded: nothing to do.",
	"excluded_country": "These came from countries that you excluded: nothing to do.",
	"excluded_path":    "These were on pages that you excluded: nothing to do.",
	"referrer_spam":    "These named a page that advertises itself in reports as their referrer: nothing to do.",
	"data_centre": "These came from networks of data centres, as programs do: nothing to do, or switch the shield off if " +
		"your visitors use such networks.",
	"duplicate_transaction": "Purchases or refunds with these ids were recorded before: nothing to do.",
	"duplicate_pageview": "The page sent manually what the script had sent by itself: nothing to do, or remove " +
		"the call from the page.",
	"own_link": "These clicks led to your own domains: nothing to do.",
}

// Channel is the way in which a visitor came to the site, one of the contract's thirteen values;
// see package channel. Databases store its number.
type Channel string

// channels holds the values by their numbers. Stored numbers never change: new values come last.
var channels = []Channel{
	"", "direct", "organic search", "paid search", "organic social", "paid social", "organic video", "paid video",
	"email", "referral", "display", "affiliates", "other paid", "unassigned",
}

// Number returns the stored number of the channel. An unknown channel has the number of
// "unassigned".
func (c Channel) Number() int16 {
	if i := slices.Index(channels, c); i >= 0 {
		return int16(i)
	}
	return int16(len(channels) - 1)
}

// ChannelOf returns the channel of a stored number, or "unassigned" for an unknown one.
func ChannelOf(number int16) Channel {
	if number < 0 || int(number) >= len(channels) {
		return channels[len(channels)-1]
	}
	return channels[number]
}

// Value implements driver.Valuer.
func (c Channel) Value() (driver.Value, error) { return int64(c.Number()), nil }

// Scan implements sql.Scanner. NULL is no channel.
func (c *Channel) Scan(stored any) error {
	if stored == nil {
		*c = ""
		return nil
	}

	number, ok := stored.(int64)
	if !ok {
		return fmt.Errorf("a channel is stored as %T", stored)
	}
	*c = ChannelOf(int16(number))
	return nil
}
