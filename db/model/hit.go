package model

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
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

// VisitorID is the pseudonym of a visitor of one site on one UTC day. Two of a million visitors of a
// day share one with a probability of 3 in 100 million.
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
	SiteID  int64
	Visitor VisitorID
}

// ViewKey identifies a page view by its visitor and the id that its page assigned.
type ViewKey struct {
	Visitor    VisitorKey
	PageviewID int64
}

// Visit is a sequence of page views by one visitor on one UTC day. Its attribution is that of its
// first page view. Site, day, visitor and N identify it.
type Visit struct {
	SiteID         int64
	Visitor        VisitorID
	StartedAt      Instant
	N              int16   // number of the visit among the visitor's visits of the UTC day, from 1
	LastPageviewAt Instant // includes awaited page views; never decreases; 0 while there is none
	Pageviews      int32
	Recent         []byte // latest automatic page views, see visit.Remember; nil for none
	Awaited        []byte // page views known only from their events, see visit.Await; nil for none
	Viewed         []byte // ids of the latest page views, see visit.Add; nil for none
	UserID         []byte // keyed hash of the owner's pseudonymous user id, 16 bytes; nil for none
	Referrer       string // host and path of another site's page; empty for none
	Channel        Channel
	Campaign
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
	ID         int64     // the 16 hexadecimal characters of the page view id, as a number
	Visitor    VisitorID // of its visit, which is of its day; likewise N
	N          int16
	Path       string
	Language   string // two letters; empty when unknown
	WidthRange int16  // lower bound of the screen width range in CSS pixels, see the analytics package; -1 when unknown
	Manual     bool   // sent by the page's own call svc('pageview')
}

// Event is one custom, automatic or e-commerce event.
type Event struct {
	SiteID        int64
	At            Instant
	ID            int64     // random
	Visitor       VisitorID // of its visit, which is of its day; likewise N
	N             int16
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

// EngagementKey identifies what was reported on a page view id on one UTC day.
type EngagementKey struct {
	SiteID     int64
	Day        Day
	PageviewID int64
}

// Compare orders by site, day, then page view id.
func (k EngagementKey) Compare(other EngagementKey) int {
	return cmp.Or(cmp.Compare(k.SiteID, other.SiteID), cmp.Compare(k.Day, other.Day),
		cmp.Compare(k.PageviewID, other.PageviewID))
}

// Engagement adds time in view and scroll depth to a page view id. The page view need not be
// stored: it is looked up when rows are read. It receives what was reported on its UTC day and the
// two after it.
type Engagement struct {
	EngagementKey
	MS         int32   // 0 to 24 h in milliseconds
	Scroll     int16   // 0 to 100 percent
	RepeatedAt Instant // of the newest page view that repeats the id of another one; 0 for none
}

// UsageKey identifies a site's count of page views and events in one month.
type UsageKey struct {
	SiteID int64
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
