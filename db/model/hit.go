package model

import (
	"bytes"
	"cmp"
	"math/rand/v2"
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

// VisitorID is the pseudonym of a visitor of one site on one UTC day.
type VisitorID [16]byte

// VisitorKey identifies one visitor of one site.
type VisitorKey struct {
	SiteID  int64
	Visitor VisitorID
}

// ViewKey identifies a page view by its visitor and the id that its page assigned.
type ViewKey struct {
	Visitor    VisitorKey
	PageviewID int64
}

// Compare orders by visitor, then page view id.
func (k ViewKey) Compare(other ViewKey) int {
	return cmp.Or(k.Visitor.Compare(other.Visitor), cmp.Compare(k.PageviewID, other.PageviewID))
}

// Visit is a sequence of page views by one visitor. Its attribution is that of its first page view.
type Visit struct {
	SiteID         int64
	ID             int64 // see NewTimeID
	Visitor        VisitorID
	StartedAt      Instant
	N              int16   // number of the visit among the visitor's visits of the UTC day, from 1
	LastPageviewAt Instant // includes awaited page views; never decreases; 0 while there is none
	Pageviews      int32
	Recent         []byte // latest automatic page views, see visit.Remember; nil for none
	Awaited        []byte // page views known only from their events, see visit.Await; nil for none
	UserID         []byte // keyed hash of the owner's pseudonymous user id, 16 bytes; nil for none
	Referrer       string // host and path of another site's page; empty for none
	Channel        string
	Campaign
}

// idEpoch is 2020-01-01 00:00 UTC, so that time-based ids fit 63 bits until 2091.
const idEpoch = Instant(1_577_836_800_000_000)

// NewTimeID returns an id for a row of the given time: microseconds since 2020 in the upper 51
// bits, 12 random bits below. Such ids increase with time, which keeps their index dense and lets a
// table be partitioned by month.
func NewTimeID(at Instant) int64 { return FirstTimeID(at) | rand.Int64N(1<<12) }

// FirstTimeID returns the smallest id that NewTimeID returns for the given time.
func FirstTimeID(at Instant) int64 { return int64(at-idEpoch) << 12 }

// TimeOfID returns the time from which NewTimeID made an id.
func TimeOfID(id int64) Instant { return Instant(id>>12) + idEpoch }

// Pageview is one view of one page.
type Pageview struct {
	SiteID     int64
	At         Instant
	ID         int64 // the 16 hexadecimal characters of the page view id, as a number
	VisitID    int64
	Path       string
	Language   string // two letters; empty when unknown
	WidthRange int16  // lower bound of the screen width range in CSS pixels, see the analytics package; -1 when unknown
	EngagedMS  int32  // time in view, milliseconds, 0 to 24 h
	Scroll     int16  // scroll depth, 0 to 100 percent
	Manual     bool   // sent by the page's own call svc('pageview')
}

// Event is one custom, automatic or e-commerce event.
type Event struct {
	SiteID        int64
	At            Instant
	ID            int64 // random
	VisitID       int64
	Name          string
	Path          string
	Value         Money  // of an e-commerce event; negative for a refund
	Currency      string // three capital letters; empty: the event has no value
	TransactionID string // of a purchase or refund
	Properties    string // JSON object without the values that have their own fields; empty for none
}

// Transaction is the record that makes each purchase or refund count only once.
type Transaction struct {
	SiteID        int64
	TransactionID string
	Event         string // EventPurchase or EventRefund
	At            Instant
}

// TransactionKey identifies a purchase or refund of a site.
type TransactionKey struct {
	SiteID        int64
	TransactionID string
}

// Engagement adds time in view and scroll depth to a page view.
type Engagement struct {
	SiteID     int64
	PageviewID int64
	MS         int32 // 0 to 24 h in milliseconds
	Scroll     int16 // 0 to 100 percent
}

// UsageKey identifies a site's count of page views and events in one month.
type UsageKey struct {
	SiteID int64
	Month  Month
}

// MaxEngagement bounds a page view's time in view.
const MaxEngagement = 24 * time.Hour

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
