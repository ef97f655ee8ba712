package model

import "time"

// Delivery is a message to a site's owner. It is stored in the transaction of the fact that it
// reports.
type Delivery struct {
	SiteID            int64
	ID                int64 // grows with time, see NewTimeID
	Kind              string
	Event             string // name of the key event; the day of a daily export
	State             string
	ScheduledAttempts int32 `bun:"attempts"` // attempts of the schedule, at most MaxAttempts
	CreatedAt         Instant
	NextAttemptAt     Instant
	Body              string // JSON, sent unchanged by each attempt; a DailyPart for a daily export
	Attempts          int32  `bun:"tries"` // all attempts, including manual ones
	ClaimedUntil      Instant
	ResumeState       string `bun:"fallback"` // the state before a manual redelivery; empty if none is pending
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

// MaxAttempts is how many scheduled attempts a delivery has (analytics contract, section 8). Manual
// redeliveries do not count.
const MaxAttempts = 5

// Limits of an owner's manual requests: redeliveries of one delivery, and tests of one site in an
// hour.
const (
	MaxRedeliveries = 20
	MaxTestsPerHour = 20
)

// ShownAttempts is how many attempts of a delivery are listed, newest only.
const ShownAttempts = 10

// AttemptsOf returns how many scheduled attempts a delivery of the kind has: 1 for a test,
// otherwise MaxAttempts.
func AttemptsOf(kind string) int32 {
	if kind == DeliveryTest {
		return 1
	}
	return MaxAttempts
}

// Lane identifies the queue of one site and kind. Deliveries of one lane never delay those of
// another.
type Lane struct {
	SiteID int64  `json:"site"`
	Kind   string `json:"kind"`
}

// DeliveryAttempt is one call of an owner's webhook.
type DeliveryAttempt struct {
	SiteID     int64
	DeliveryID int64
	N          int32 // 1 is the first
	Manual     bool  // requested by an owner
	At         Instant
	DurationMS int64  `bun:"duration_ms"`
	Status     int    // HTTP status; 0: no answer
	Error      string // one of the classes below; empty: delivered
	Answer     string // first MaxAnswer characters of the response body
}

// MaxAnswer is how many characters of a response body are stored.
const MaxAnswer = 1000

// Classes of failed attempts.
const (
	AttemptUnfinished  = "unfinished"   // in progress, or its worker died: the outcome is unknown
	AttemptNoWebhook   = "no_webhook"   // the site has no address any more
	AttemptBadURL      = "bad_url"      // the address must not be called
	AttemptNoAddress   = "no_address"   // the name resolves to no permitted address; see also the reasons
	AttemptConnect     = "connect"      // no connection
	AttemptTLS         = "tls"          // no trusted connection
	AttemptTimeout     = "timeout"      // no answer in time
	AttemptHangUp      = "hang_up"      // the connection ended without an answer
	AttemptRedirect    = "redirect"     // 3xx: redirects are not followed
	AttemptGone        = "gone"         // 410
	AttemptRateLimited = "rate_limited" // 429
	AttemptClientError = "client_error" // other 4xx
	AttemptServerError = "server_error" // 5xx
	AttemptBadAnswer   = "bad_answer"   // not HTTP, or another status
	AttemptInternal    = "internal"     // internal error
)

// Reasons of AttemptNoAddress, used only in the operator's metrics. A tenant who could distinguish
// them would learn which names exist in the operator's network.
const (
	ReasonBlocked = "blocked" // the name resolves to a forbidden address
	ReasonDNS     = "dns"     // the name does not resolve
)

// retryDelays are the pauses after each failed attempt of the schedule, 2.6 hours in total.
var retryDelays = [MaxAttempts - 1]time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}

// retryJitter is the largest fraction by which a pause is lengthened or shortened. It spreads the
// retries of deliveries that failed at the same time.
const retryJitter = 0.1

// RetryDelay returns the pause after the given number of failed attempts, 1 to MaxAttempts-1, of
// the delivery with this id. The result depends only on the arguments.
func RetryDelay(id int64, attempts int32) time.Duration {
	delay := retryDelays[min(max(attempts, 1), MaxAttempts-1)-1]
	// Multiplying by the golden ratio's fraction of 2^64 spreads neighbouring ids evenly over -1 to
	// 1.
	spread := float64(uint64(id+int64(attempts))*0x9e3779b97f4a7c15>>11)/(1<<53)*2 - 1
	return delay + time.Duration(retryJitter*spread*float64(delay))
}

// MaxRetryAfter bounds how long a receiver can postpone the next attempt.
const MaxRetryAfter = 2 * time.Hour

// AfterFailure returns the state of a delivery after a failed attempt and, if that is pending, when
// the next attempt is due. The delivery is as it was when the attempt began. retryAfter is the
// receiver's Retry-After, or 0.
func (d *Delivery) AfterFailure(class string, retryAfter time.Duration, now Instant) (state string, next Instant) {
	if d.ResumeState != "" && d.ResumeState != DeliveryPending {
		return d.ResumeState, now
	}
	if d.ScheduledAttempts >= AttemptsOf(d.Kind) || class == AttemptGone || class == AttemptNoWebhook {
		return DeliveryFailed, now
	}

	delay := RetryDelay(d.ID, d.ScheduledAttempts)
	return DeliveryPending, now.Add(max(delay, min(retryAfter, MaxRetryAfter)))
}

// DailyPart identifies the rows of one part of a daily export: the events of the day after After,
// up to and including Last, in the order of the export. A delivery stores it instead of the rows:
// they are in the database already and do not change after the day is over.
type DailyPart struct {
	Day   Day          `json:"day"`
	Part  int          `json:"part"`  // 1 is the first
	Parts int          `json:"parts"` // at least 1: a day without events is one part without rows
	After *EventCursor `json:"after,omitempty"`
	Last  *EventCursor `json:"last,omitempty"` // nil: no rows
}

// EventCursor identifies an event by its position in the order of the export.
type EventCursor struct {
	At Instant `json:"at"`
	ID int64   `json:"id"`
}

// DailyPartRows is the maximum number of rows in one part of a daily export.
const DailyPartRows = 5000
