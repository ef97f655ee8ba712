package model

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Site is one measured website (analytics contract, section 2).
type Site struct {
	ID               SiteID    `bun:",pk,autoincrement"`
	AccountID        AccountID `bun:",notnull"`
	SiteKey          string    `bun:",notnull"` // 32 hexadecimal characters; public
	Domain           string    `bun:",notnull"` // normalised, see ParseDomain
	Name             string    `bun:",notnull"`
	Plan             Plan      `bun:",notnull"`
	MonthlyPageviews int64     `bun:",notnull"` // quota of page views and events per UTC month
	TimeZone         string    `bun:",notnull"` // IANA name, see ParseTimeZone; reports use its days
	CreatedAt        Instant   `bun:",notnull"`

	MeasureSiteSearch       bool // site_search events are accepted
	MeasureEcommerce        bool // e-commerce events are accepted
	AllowPseudonymousUserID bool `bun:"allow_pseudonymous_user_id"`
	AutomaticEvents         bool // automatic events are accepted; on for a new site

	VisitDetails      List[VisitDetail] `bun:",notnull"` // what visits keep of browsers, in the order of VisitDetails
	ExcludedCountries List[string]      `bun:",notnull"` // sorted; hits of their addresses are not stored
	ExcludedPaths     List[string]      `bun:",notnull"` // patterns, sorted; hits of these pages are not stored
	Shields           List[Shield]      `bun:",notnull"` // in the order of Shields
	SmallGroup        int               `bun:",notnull"` // visitors, 1 to MaxSmallGroup; smaller groups are one row of shared reports

	ServerSecretHash        []byte `bun:",nullzero"` // SHA-256, see HashToken; nil without a server secret
	ServerSecretHint        string `bun:",nullzero"` // the last characters of the server secret
	ConversionWebhookURL    string `bun:"conversion_webhook_url,nullzero"`
	ConversionWebhookSecret []byte `bun:",nullzero"` // encrypted; nil without one
	DailyExportURL          string `bun:"daily_export_url,nullzero"`
	DailyExportDay          Day    // the next day to export; meaningless without a URL

	// Secrets that a rotation replaced and that are valid until a time; nil and 0 without such a
	// secret.
	OldServerSecretHash   []byte  `bun:",nullzero"` // SHA-256
	OldServerSecretHint   string  `bun:",nullzero"`
	OldServerSecretUntil  Instant `bun:",nullzero"`
	OldWebhookSecret      []byte  `bun:",nullzero"` // encrypted
	OldWebhookSecretUntil Instant `bun:",nullzero"`

	PausedAt  Instant `bun:",notnull"` // 0: not paused
	DeletedAt Instant `bun:",notnull"` // 0: not deleted
	Purged    bool    `bun:"-"`        // deleted permanently; set only in results of a deletion

	Cell       int64 `bun:",notnull"` // the cell that stores its hits, see db.Cell
	CellClosed bool  `bun:",notnull"` // its hits are being moved to another cell, and no hit is stored
}

// DisplayDomain returns the domain for people, see DisplayDomain.
func (s *Site) DisplayDomain() string { return DisplayDomain(s.Domain) }

// WebhookURL returns the address of a webhook, DeliveryConversion or DeliveryDailyExport; empty
// without one.
func (s *Site) WebhookURL(webhook string) string {
	if webhook == DeliveryDailyExport {
		return s.DailyExportURL
	}
	return s.ConversionWebhookURL
}

// SiteState says whether a site stores its hits, unless its account is suspended.
type SiteState string

// The states. A deleted site keeps its data for RestorePeriod.
const (
	SiteActive  SiteState = "ACTIVE"  // stores hits
	SitePaused  SiteState = "PAUSED"  // refuses hits; its reports and exports continue
	SiteDeleted SiteState = "DELETED" // refuses hits, and is unknown to everything but its restoration
)

// State returns the site's state. A paused site that is deleted is paused again after its
// restoration.
func (s *Site) State() SiteState {
	switch {
	case s.DeletedAt != 0:
		return SiteDeleted
	case s.PausedAt != 0:
		return SitePaused
	}
	return SiteActive
}

// RestorePeriod is how long a deleted site can be restored. After it housekeeping deletes the site
// and all its rows.
const RestorePeriod = 7 * 24 * time.Hour

// RestorableUntil returns when a deleted site can no longer be restored; 0 for a site that cannot
// be restored or is not deleted.
func (s *Site) RestorableUntil() Instant {
	if s.DeletedAt == 0 || s.Purged {
		return 0
	}
	return s.DeletedAt.Add(RestorePeriod)
}

// MaxDeletedSites is how many deleted sites an account keeps for their restoration. Housekeeping
// permanently deletes further sites, longest deleted first.
const MaxDeletedSites = 1_000

// MaxSites is how many sites an account can have. The contract sets no limit.
const MaxSites = 1_000

// DefaultSiteLimit is how many sites on the default plan an account can have unless the operator
// permits more. It bounds the storage of one account: 50 free sites have 500,000 page views and
// events a month.
const DefaultSiteLimit = 50

// Limits of one site (analytics contract, section 8).
const (
	MaxExtraDomains     = 20
	MaxRegisteredEvents = 50
	MaxExcludedNetworks = 200 // the contract sets no limit
	MaxExcludedPaths    = 50  // the same
	MaxExcludedPath     = 500 // characters of one, as browsers send it
)

// SiteRules is a site with everything that the data plane needs to accept or reject its hits. The
// data plane keeps it in memory.
type SiteRules struct {
	Site
	ExtraDomains []string // normalised
	Registered   []string // the site's own event names
	KeyEvents    []string // marked by the owner; purchase is always one and not listed
	Excluded     []netip.Prefix
	Suspended    bool // the account is
}

// Stopped returns the code under which the site's calls are refused and counted, or an empty string
// if they are accepted.
func (s *SiteRules) Stopped() string {
	switch {
	case s.Suspended:
		return RefusedSuspended
	case s.PausedAt != 0:
		return RefusedPaused
	}
	return ""
}

// Domains returns every domain with pages that can send hits for the site; subdomains are implied.
func (s *SiteRules) Domains() []string { return append([]string{s.Domain}, s.ExtraDomains...) }

// Zone returns the site's time zone. It fails for a zone that this machine does not know, which a
// process with a newer time zone database has set.
func (s *Site) Zone() (*time.Location, error) { return TimeZone(s.TimeZone) }

// NewSiteKey returns 32 random hexadecimal characters.
func NewSiteKey() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// IsSiteKey reports whether s has the form of a site key.
func IsSiteKey(s string) bool { return len(s) == 32 && isLowerHex(s) }

func isLowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Plan is a site's price plan (analytics contract, section 8).
type Plan string

// The plans. An Enterprise site's volume is agreed with its owner, or it has no limit.
const (
	PlanFree       Plan = "FREE"
	PlanPro100K    Plan = "PRO_100K"
	PlanPro500K    Plan = "PRO_500K"
	PlanPro1M      Plan = "PRO_1M"
	PlanPro2M      Plan = "PRO_2M"
	PlanPro5M      Plan = "PRO_5M"
	PlanEnterprise Plan = "ENTERPRISE"
)

var planPageviews = map[Plan]int64{
	PlanFree:    10_000,
	PlanPro100K: 100_000,
	PlanPro500K: 500_000,
	PlanPro1M:   1_000_000,
	PlanPro2M:   2_000_000,
	PlanPro5M:   5_000_000,

	PlanEnterprise: MaxMonthlyPageviews,
}

// MaxMonthlyPageviews is the largest quota of a site: up to 2^53 every JSON parser keeps integers
// exact. No site reaches it in a month, so it stands for no limit.
const MaxMonthlyPageviews = 1 << 53

// MonthlyPageviews returns the plan's quota per UTC month: for Enterprise MaxMonthlyPageviews, which
// an agreed volume replaces. It returns false for an unknown plan.
func (p Plan) MonthlyPageviews() (int64, bool) {
	n, ok := planPageviews[p]
	return n, ok
}

// Limit returns the site's quota, or nil for no limit.
func (s *Site) Limit() *int64 {
	if s.MonthlyPageviews == MaxMonthlyPageviews {
		return nil
	}
	return &s.MonthlyPageviews
}

// UnmarshalFlag reads a plan, and unlimited as Enterprise. It does not check that the plan exists.
func (p *Plan) UnmarshalFlag(text string) error {
	*p = Plan(planOf(text))
	return nil
}

// planOf returns the name of a plan that an operator writes as text.
func planOf(text string) string {
	if strings.EqualFold(text, "unlimited") {
		return string(PlanEnterprise)
	}
	return text
}

// UserIDKey hashes the pseudonymous user ids that sites' owners send. The stored ids do not link
// across sites and cannot be computed without the application key, see keys.Store.UserIDKey.
type UserIDKey []byte

// Of returns the 16-byte hash that a visit of the site stores for a user id. The id must have the
// form that IsUserID checks.
func (k UserIDKey) Of(siteID SiteID, id string) []byte {
	mac := hmac.New(sha256.New, k)
	// Writing to a hash never fails.
	_ = binary.Write(mac, binary.BigEndian, siteID)
	mac.Write([]byte(id))
	return mac.Sum(nil)[:16]
}

// IsUserID reports whether s has the form of a pseudonymous user id: a SHA-256 hash in lower-case
// hexadecimal.
func IsUserID(s string) bool {
	return len(s) == 2*sha256.Size && isLowerHex(s)
}

// MaxErasures is how many erasures of an account's sites can be in progress at once. Each one reads
// all visits of a site.
const MaxErasures = 20

// UserErasure is a request to erase everything stored about one pseudonymous user id of a site
// until the request, with its progress.
type UserErasure struct {
	ID          ErasureID `bun:",pk,autoincrement"`
	SiteID      SiteID    `bun:",notnull"`
	Subject     []byte    `bun:",notnull"` // see UserIDKey
	RequestedAt Instant   `bun:",notnull"`
	LastDay     Day       `bun:",notnull"` // key of the last visit that was checked; likewise the next two
	LastVisitor int64     `bun:",notnull"` // as it is stored
	LastN       int16     `bun:"last_n,notnull"`
	Visits      int64     `bun:",notnull"` // rows erased so far; likewise the next three
	Pageviews   int64     `bun:",notnull"`
	Events      int64     `bun:",notnull"`
	Deliveries  int64     `bun:",notnull"`
	FinishedAt  Instant   `bun:",notnull"` // 0: not yet
}

// Products that have a monthly quota.
const (
	ProductAnalytics = "analytics"
	ProductCaptcha   = "captcha"
)

// QuotaThresholds are the percentages of a quota at which owners are notified, once a month each.
var QuotaThresholds = []int{80, 100}

// QuotaReached returns the highest of QuotaThresholds that a use reaches; 0 below the lowest, or
// without any use.
func QuotaReached(used, quota int64) int16 {
	for _, percent := range slices.Backward(QuotaThresholds) {
		if used > 0 && used*100 >= quota*int64(percent) {
			return int16(percent)
		}
	}
	return 0
}
