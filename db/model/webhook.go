package model

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxURLLength bounds a webhook URL, in bytes.
const MaxURLLength = 2048

// ChangedBy identifies the author and time of a change that the account's owners are notified of by
// mail.
type ChangedBy struct {
	Name     string // e-mail address of a user; empty: see Operator
	Token    string // name of the user's API token; empty: a session
	Operator bool   // the operator's command line; without it and a name, owners are not notified
	At       Instant
}

// MinWebhookSecret and MaxWebhookSecret bound the length of a webhook secret in characters, without
// the prefix of Standard Webhooks. Shorter secrets that were stored before there was a minimum
// remain valid.
const (
	MinWebhookSecret = 16
	MaxWebhookSecret = 256
)

// StandardSecretPrefix is the prefix of a secret in the form of Standard Webhooks; base64 follows.
const StandardSecretPrefix = "whsec_"

// webhookPorts are the ports that webhooks can be called on.
var webhookPorts = []uint16{443, 8443}

// notPublic are the networks of IPv4, and of IPv6 within 2000::/3, that do not contain hosts on the
// internet, or with addresses that embed other addresses. All of IPv6 outside 2000::/3 is refused
// without a list.
var notPublic = prefixes(
	"0.0.0.0/8",         // this network
	"10.0.0.0/8",        // private
	"100.64.0.0/10",     // shared by a provider's customers; one cloud's metadata
	"127.0.0.0/8",       // this machine
	"168.63.129.16/32",  // one cloud's platform
	"169.254.0.0/16",    // link-local; most clouds' metadata
	"172.16.0.0/12",     // private
	"192.0.0.0/24",      // protocol assignments; one cloud's metadata
	"192.0.2.0/24",      // documentation
	"192.31.196.0/24",   // AS112, answers for private reverse names
	"192.52.193.0/24",   // multicast tunnels
	"192.88.99.0/24",    // relays to IPv6
	"192.168.0.0/16",    // private
	"192.175.48.0/24",   // AS112
	"198.18.0.0/15",     // benchmarks
	"198.51.100.0/24",   // documentation
	"203.0.113.0/24",    // documentation
	"224.0.0.0/4",       // multicast
	"240.0.0.0/4",       // reserved, broadcast
	"2001::/23",         // protocol assignments: Teredo, which carries IPv4, benchmarks, ORCHID
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4, which carries IPv4
	"2620:4f:8000::/48", // answers for private reverse names
	"3fff::/20",         // documentation
)

var globalIPv6 = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// MayCall reports whether a webhook can connect to the address: a host on the internet on port 443
// or 8443, or any port in one of the allowed networks.
func MayCall(to netip.AddrPort, allowed []netip.Prefix) bool {
	addr := to.Addr().Unmap()
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	return contains(allowed, addr) || isPublic(addr) && slices.Contains(webhookPorts, to.Port())
}

// IsPublic reports whether an address is a host on the internet.
func IsPublic(addr netip.Addr) bool { return isPublic(addr.Unmap()) }

func isPublic(addr netip.Addr) bool {
	return (addr.Is4() || globalIPv6.Contains(addr)) && !contains(notPublic, addr)
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// CheckWebhookURL checks an address that an owner entered for calls of this program: https, a host
// name or a public address, no user name or password, port 443 or 8443. If networks are allowed in
// addition, it also accepts names without a dot, names under localhost and other ports: their
// addresses are known, and checked, only when the call is made. Its error is for the input field.
func CheckWebhookURL(field, address string, allowed []netip.Prefix) error {
	bad := func(message string) error { return InvalidField(field, "invalid_url", message) }
	u, ok := parseWebhookURL(address)
	if !ok {
		return bad("Enter an https address with a host name, and without user name or password.")
	}

	port, ok := webhookPort(u)
	if !ok {
		return bad("The port must be 443 or 8443.")
	}

	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		if !MayCall(netip.AddrPortFrom(addr, port), allowed) {
			return bad("This address cannot be called from here.")
		}

		return nil
	}

	host, ok := normalHost(u.Hostname())
	if !ok || isAddress(host) {
		return bad("Enter an https address with a host name.")
	}
	if len(allowed) > 0 {
		return nil
	}
	if isLocal(host) || !strings.Contains(host, ".") {
		return bad("Enter a full host name such as example.com.")
	}

	if !slices.Contains(webhookPorts, port) {
		return bad("The port must be 443 or 8443.")
	}

	return nil
}

// CheckWebhookSecret checks a secret that signs webhooks; nil and "" mean no secret. Its error is
// for the field secret.
func CheckWebhookSecret(secret *string) error {
	if secret == nil || *secret == "" {
		return nil
	}
	if !IsClean(*secret) || utf8.RuneCountInString(*secret) > MaxWebhookSecret {
		message := fmt.Sprintf("Use at most %d printable characters.", MaxWebhookSecret)
		return InvalidField("secret", "invalid_secret", message)
	}
	if utf8.RuneCountInString(strings.TrimPrefix(*secret, StandardSecretPrefix)) < MinWebhookSecret {
		message := fmt.Sprintf("Use at least %d characters: a shorter secret can be guessed.", MinWebhookSecret)
		return InvalidField("secret", "secret_too_short", message)
	}

	return nil
}

// IsWebhookURL reports whether an address has the form of a webhook URL. It does not check whether
// the address can be called.
func IsWebhookURL(address string) bool {
	_, ok := parseWebhookURL(address)
	return ok
}

// WebhookHost returns the host of a webhook URL in ASCII, with the port if it has one. It can be
// shown to people who must not see the path and query. It returns "" for an invalid URL.
func WebhookHost(address string) string {
	u, ok := parseWebhookURL(address)
	if !ok {
		return ""
	}

	host, ok := normalHost(u.Hostname())
	if !ok {
		return "an unreadable host"
	}
	if u.Port() != "" {
		return net.JoinHostPort(host, u.Port())
	}

	return host
}

func parseWebhookURL(address string) (*url.URL, bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		len(address) > MaxURLLength || !IsClean(address) {
		return nil, false
	}
	return u, true
}

func webhookPort(u *url.URL) (uint16, bool) {
	if u.Port() == "" {
		return 443, !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return uint16(n), err == nil && n > 0
}

// TestWebhookBody returns the body of a call that only tests whether a webhook works. webhook is
// DeliveryConversion or DeliveryDailyExport.
func TestWebhookBody(webhook, siteKey string, at Instant) string {
	of := ""
	if webhook == DeliveryDailyExport {
		of = `"webhook":"daily_export",`
	}
	return `{"type":"` + DeliveryTest + `",` + of + `"site_key":"` + siteKey + `","sent_at":"` + at.Time().Format(time.RFC3339) + `"}`
}

// Delivery is a message to a site's owner. It is stored in the transaction of the fact that it
// reports.
type Delivery struct {
	SiteID            SiteID
	ID                int64 // grows with time, see NewTimeID
	Kind              string
	Event             string // name of the key event; the day of a daily export; a TestEvent
	State             string
	ScheduledAttempts int32 `bun:"attempts"` // attempts of the schedule, at most MaxAttempts
	CreatedAt         Instant
	NextAttemptAt     Instant
	Body              string  // JSON, sent unchanged by each attempt; a DailyPart for a daily export
	Attempts          int32   `bun:"tries"` // all attempts, including manual ones
	LeasedUntil       Instant `bun:"claimed_until"`
	ResumeState       string  `bun:"fallback"` // the state before a pending manual redelivery, otherwise empty
	CalledURL         string  `bun:"url"`      // address of the last attempt; empty before the first one
}

// Kinds and states of deliveries.
const (
	DeliveryConversion  = "conversion"
	DeliveryDailyExport = "daily_export"
	DeliveryTest        = "test"

	DeliveryPending   = "pending"
	DeliveryWaiting   = "waiting" // for the site to get an address
	DeliveryDelivered = "delivered"
	DeliveryFailed    = "failed"
)

// Events of tests.
const (
	TestEvent       = "test"              // of the conversion webhook
	TestExportEvent = "test_daily_export" // of the daily export webhook
)

// Webhook returns which of the site's webhooks the delivery is for: DeliveryConversion or
// DeliveryDailyExport.
func (d *Delivery) Webhook() string {
	if d.Kind == DeliveryDailyExport || d.Kind == DeliveryTest && d.Event == TestExportEvent {
		return DeliveryDailyExport
	}
	return DeliveryConversion
}

// MaxAddressWait is how long after its event a delivery waits for the site to get an address.
const MaxAddressWait = 7 * 24 * time.Hour

// MayWait reports whether a delivery waits while its site has no address. A test, an old delivery,
// and a delivery that was sent again after its end do not.
func (d *Delivery) MayWait(now Instant) bool {
	repeated := d.ResumeState == DeliveryDelivered || d.ResumeState == DeliveryFailed
	return d.Kind != DeliveryTest && !repeated && d.CreatedAt > now.Add(-MaxAddressWait)
}

// MaxAttempts is how many scheduled attempts a delivery has (analytics contract, section 8). Manual
// redeliveries do not count.
const MaxAttempts = 5

// Limits of an owner's manual requests: redeliveries of one delivery, and tests of one site in an
// hour.
const (
	MaxRedeliveries = 20
	MaxTestsPerHour = 20
)

// MaxRedeliveredAtOnce is how many failed deliveries one request sends again.
const MaxRedeliveredAtOnce = 1_000

// MaxExportParts is how many parts of daily exports a site can have in an hour before a request for
// another day is refused.
const MaxExportParts = 1_000

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

// Lane identifies the queue of one site and kind. Deliveries of one lane never delay another lane.
type Lane struct {
	SiteID SiteID `json:"site"`
	Kind   string `json:"kind"`

	// ChannelID is the alert channel of messages, which have a lane for each channel and no site.
	ChannelID int64 `json:"channel,omitempty"`
}

// DeliveryAttempt is one call of an owner's webhook, or of an alert channel.
type DeliveryAttempt struct {
	SiteID     SiteID // 0: of a channel
	DeliveryID int64  // or the id of the message
	N          int32  // 1 is the first
	Manual     bool   // requested by an owner
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
	AttemptNoWebhook   = "no_webhook"   // the site has no address any more, and the delivery does not wait
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

// retryDelays are the pauses after each failed attempt of the schedule, 11 hours in total: a
// receiver that fails in the evening is called again the next morning (ADR 032).
var retryDelays = [MaxAttempts - 1]time.Duration{5 * time.Second, 5 * time.Minute, time.Hour, MaxRetryPause}

// MaxRetryPause is the longest pause of the schedule, without its jitter.
const MaxRetryPause = 10 * time.Hour

// retryJitter is the largest change of a pause, as a fraction. It spreads the retries of deliveries
// that failed at the same time.
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
