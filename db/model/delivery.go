package model

import "time"

// Delivery is something that has to be sent to a site's owner, stored together with the fact that
// it tells.
type Delivery struct {
	SiteID        int64
	ID            int64 // grows with time, see NewTimeID
	Kind          string
	Event         string // the key event; of a daily export its day
	State         string
	Attempts      int32 // those of the schedule, at most MaxAttempts
	CreatedAt     Instant
	NextAttemptAt Instant
	Body          string // JSON, sent byte by byte as it is at each attempt; of a daily export a DailyPart
	Tries         int32  // all attempts, also those asked for by hand
	ClaimedUntil  Instant
	Fallback      string // the state before a redelivery by hand; empty: none is asked for
}

// Kinds and states of deliveries.
const (
	DeliveryConversion  = "conversion"
	DeliveryDailyExport = "daily_export"
	DeliveryTest        = "test"

	DeliveryPending   = "pending"
	DeliveryDelivered = "delivered"
	DeliveryFailed    = "failed"
)

// MaxAttempts is how often a delivery is tried by itself (analytics contract, section 8). What an
// owner asks for by hand does not count.
const MaxAttempts = 5

// What an owner may ask for by hand: so many further attempts of a delivery, and so many tests of a
// site in an hour.
const (
	MaxRedeliveries = 20
	MaxTestsPerHour = 20
)

// ShownAttempts is how many attempts of a delivery are shown, the last ones.
const ShownAttempts = 10

// AttemptsOf is how often a delivery of the kind is tried by itself: MaxAttempts, a test once.
func AttemptsOf(kind string) int32 {
	if kind == DeliveryTest {
		return 1
	}
	return MaxAttempts
}

// Lane is a queue of its own: what waits in one lane never holds up another.
type Lane struct {
	SiteID int64  `json:"site"`
	Kind   string `json:"kind"`
}

// DeliveryAttempt is one call of an owner's address.
type DeliveryAttempt struct {
	SiteID     int64
	DeliveryID int64
	N          int32 // 1 is the first
	Manual     bool  // asked for by hand
	At         Instant
	DurationMS int64  `bun:"duration_ms"`
	Status     int    // of HTTP; 0: no answer
	Error      string // one of the classes below; empty: delivered
	Answer     string // how the answer's body begins, at most MaxAnswer characters
}

// MaxAnswer is how much of an answer's body is kept, in characters.
const MaxAnswer = 1000

// Classes of failed attempts.
const (
	AttemptUnfinished  = "unfinished"   // under way, or its worker died: whether it arrived is not known
	AttemptNoWebhook   = "no_webhook"   // the site has no address any more
	AttemptBadURL      = "bad_url"      // the address is not one that may be called
	AttemptNoAddress   = "no_address"   // the name leads to no address that may be called; see also the reasons
	AttemptConnect     = "connect"      // no connection
	AttemptTLS         = "tls"          // no trusted connection
	AttemptTimeout     = "timeout"      // no answer in time
	AttemptHangUp      = "hang_up"      // the connection ended without an answer
	AttemptRedirect    = "redirect"     // 3xx: redirects are not followed
	AttemptGone        = "gone"         // 410
	AttemptRateLimited = "rate_limited" // 429
	AttemptClientError = "client_error" // other 4xx
	AttemptServerError = "server_error" // 5xx
	AttemptBadAnswer   = "bad_answer"   // neither: not HTTP, or another status
	AttemptInternal    = "internal"     // our own fault
)

// Reasons of AttemptNoAddress, for the operator's metrics alone. A tenant who could tell them apart
// would learn which names of the operator's own network exist.
const (
	ReasonBlocked = "blocked" // the name leads to an address that may not be called
	ReasonDNS     = "dns"     // the name leads nowhere
)

// retryDelays are the pauses after each failed attempt of the schedule. Together they last 2.6
// hours.
var retryDelays = [MaxAttempts - 1]time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}

// retryJitter is by what part at most a pause is longer or shorter, so that what failed together
// does not come back together.
const retryJitter = 0.1

// RetryDelay is the pause after so many failed attempts, 1 to MaxAttempts-1, of the delivery with
// this id. It is the same whenever it is asked for.
func RetryDelay(id int64, attempts int32) time.Duration {
	delay := retryDelays[min(max(attempts, 1), MaxAttempts-1)-1]
	// Neighbouring ids, multiplied by the golden ratio's fraction of 2^64, are spread evenly.
	// -1 to 1
	spread := float64(uint64(id+int64(attempts))*0x9e3779b97f4a7c15>>11)/(1<<53)*2 - 1
	return delay + time.Duration(retryJitter*spread*float64(delay))
}

// MaxRetryAfter bounds how long a receiver can put the next attempt off.
const MaxRetryAfter = 2 * time.Hour

// AfterFailure returns what becomes of a delivery, as it was when the attempt began, after a
// failure of the class: its state and, if that is pending, when it is due again. retryAfter is what
// the receiver asked for; 0 for nothing.
func (d *Delivery) AfterFailure(class string, retryAfter time.Duration, now Instant) (state string, next Instant) {
	if d.Fallback != "" && d.Fallback != DeliveryPending {
		return d.Fallback, now
	}
	if d.Attempts >= AttemptsOf(d.Kind) || class == AttemptGone || class == AttemptNoWebhook {
		return DeliveryFailed, now
	}

	delay := RetryDelay(d.ID, d.Attempts)
	return DeliveryPending, now.Add(max(delay, min(retryAfter, MaxRetryAfter)))
}

// DailyPart says which rows a part of a daily export has: the events of the day after After, up to
// and including Last, in the order of the export. It is what a delivery stores instead of the rows:
// they lie in the database already and, once the day is over, do not change.
type DailyPart struct {
	Day   Day          `json:"day"`
	Part  int          `json:"part"`  // 1 is the first
	Parts int          `json:"parts"` // at least 1: a day without events is one part without rows
	After *EventCursor `json:"after,omitempty"`
	Last  *EventCursor `json:"last,omitempty"` // nil: no rows
}

// EventCursor names an event by its place in the order of the export.
type EventCursor struct {
	At Instant `json:"at"`
	ID int64   `json:"id"`
}

// DailyPartRows is how many rows a part of a daily export has at most.
const DailyPartRows = 5000
