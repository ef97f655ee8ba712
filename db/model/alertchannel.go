package model

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// AlertChannelKind is how a channel receives its messages.
type AlertChannelKind string

// The kinds of channels. All except e-mail are calls of a URL.
const (
	ChannelEmail   AlertChannelKind = "email"
	ChannelSlack   AlertChannelKind = "slack"
	ChannelDiscord AlertChannelKind = "discord"
	ChannelTeams   AlertChannelKind = "teams"
	ChannelWebhook AlertChannelKind = "webhook" // signed JSON
)

// IsGone reports whether a response means that the receiver was removed. Slack, Discord and Teams
// answer 404 for a webhook that was deleted. Another receiver's 404 can be a fault of a deployment.
func (k AlertChannelKind) IsGone(status int) bool {
	return status == http.StatusGone || status == http.StatusNotFound && k != ChannelWebhook
}

// Limits of channels.
const (
	MaxAlertChannels     = 20        // of an account itself
	MaxSiteAlertChannels = 10        // of one site
	MaxChannelMessages   = 100       // to one channel in 24 hours; further alerts are dropped
	DroppedEvery         = time.Hour // of the dropped alerts one is stored as failed
	MaxAlertMails        = 100       // to one address in 24 hours, of all accounts
	MaxAlertConfirmMails = 3         // to one address in 24 hours, of all accounts

	AlertConfirmLifetime = 7 * 24 * time.Hour

	// AlertDay is the time in which messages and mails are counted.
	AlertDay = 24 * time.Hour
)

// States of channels.
const (
	ChannelUnconfirmed = "unconfirmed"
	ChannelActive      = "active"
	ChannelStopped     = "stopped"
)

// Reasons why a channel is stopped.
const (
	ChannelGone      = "gone"      // its receiver answered that it does not exist any more
	ChannelRecipient = "recipient" // the recipient used the link of a mail
)

// AlertChannel is a place that alerts are sent to.
type AlertChannel struct {
	ID        int64            `bun:",pk,autoincrement"`
	AccountID AccountID        `bun:",notnull"`
	SiteID    SiteID           `bun:",nullzero"` // 0: the account's
	UserID    UserID           `bun:",nullzero"` // whose own channel it is, see Follow; 0: the site's or the account's
	Kind      AlertChannelKind `bun:",notnull"`
	Name      string           `bun:",notnull"`
	Language  Language         `bun:",notnull"` // of its messages
	Address   []byte           `bun:",notnull"` // an e-mail address or a URL, encrypted
	Hint      string           `bun:",notnull"` // what is shown of a URL, see AlertAddressHint
	Secret    []byte           `bun:",nullzero"`
	Events    []AlertEvent     `bun:",notnull"` // as JSON

	// Planned messages of a site's channel, and when each is due: see package alerts.
	Weekly       bool    `bun:",notnull"`
	Monthly      bool    `bun:",notnull"`
	SpikeAbove   *int    // visitors at once; nil: never
	DropBelow    *int    // visitors of a day; nil: never
	WeeklyDueAt  Instant `bun:",notnull"`
	MonthlyDueAt Instant `bun:",notnull"`
	SpikeDueAt   Instant `bun:",notnull"`
	DropDueAt    Instant `bun:",notnull"`

	Quiet QuietHours `bun:"embed:quiet_"`

	ConfirmHash      []byte  `bun:",nullzero"` // SHA-256 of the mailed secret
	ConfirmExpiresAt Instant `bun:",notnull"`
	ConfirmedAt      Instant `bun:",notnull"` // 0: an e-mail address that gets nothing yet
	StoppedAt        Instant `bun:",notnull"` // 0: not stopped
	StopReason       string  `bun:",notnull"`

	OperatorID UserID `bun:",nullzero"` // who made it get the installation's events, see Attribute; 0: none

	CreatedBy UserID  `bun:",nullzero"` // user; 0: deleted
	CreatedAt Instant `bun:",notnull"`
}

// CheckAlertEvents checks the events that a channel wants: of a site's channel those of a site, and
// the installation's only if an operator changes the channel. was are the events that it wants
// already. It returns each once, in the order of AlertEvents.
func CheckAlertEvents(wanted, was []AlertEvent, ofSite, byOperator bool) ([]AlertEvent, error) {
	events := []AlertEvent{}
	for _, event := range AlertEvents {
		if !slices.Contains(wanted, event) {
			continue
		}
		if ofSite && !event.OfSite() || event.OfInstallation() && !byOperator && !slices.Contains(was, event) {
			return nil, InvalidField("events", "invalid_alert_event", "This channel cannot get alerts about "+string(event)+".")
		}
		events = append(events, event)
	}
	return events, nil
}

// MaxAlertThreshold is the largest threshold of a channel, in visitors.
const MaxAlertThreshold = 1_000_000_000

// CheckThreshold checks a threshold of a channel of a site. nil is none.
func CheckThreshold(field string, threshold *int, ofSite bool) error {
	switch {
	case threshold == nil:
		return nil
	case !ofSite:
		return InvalidField(field, "invalid_threshold", "Only the channel of a site has thresholds.")
	case *threshold < 1 || *threshold > MaxAlertThreshold:
		return InvalidField(field, "invalid_threshold", fmt.Sprintf("Use a number from 1 to %d.", MaxAlertThreshold))
	}
	return nil
}

// WantsNothing reports whether the channel would never get a message.
func (c *AlertChannel) WantsNothing() bool {
	return len(c.Events) == 0 && !c.Weekly && !c.Monthly && c.SpikeAbove == nil && c.DropBelow == nil
}

// CheckWants returns an error for a channel that would never get a message.
func (c *AlertChannel) CheckWants() error {
	if c.WantsNothing() {
		return InvalidField("events", "no_alert_event",
			"Choose at least one event, summary or threshold: the channel would get nothing.")
	}
	return nil
}

// Follow gives a user's own channel the user's address, as its name, and the user's language.
func (c *AlertChannel) Follow(user *User) { c.Name, c.Language = user.Email, user.Language }

// Attribute records the operator who makes the channel get the installation's events, after a user
// has changed its events or its address. Such alerts are sent while this user is an operator. It
// fails if another user sends them to another address.
func (c *AlertChannel) Attribute(by *User, newEvents, newAddress bool) error {
	switch {
	case !slices.ContainsFunc(c.Events, AlertEvent.OfInstallation):
		c.OperatorID = 0
	case by.Operator && (newEvents || newAddress):
		c.OperatorID = by.ID
	case newAddress:
		return InvalidField("address", "invalid_alert_event",
			"This channel gets alerts about the installation. Only an operator can change its address.")
	}
	return nil
}

// Receives reports whether messages are written for the channel.
func (c *AlertChannel) Receives() bool { return c.ConfirmedAt != 0 && c.StoppedAt == 0 }

// State returns the state of the channel: unconfirmed, active or stopped.
func (c *AlertChannel) State() string {
	switch {
	case c.ConfirmedAt == 0:
		return ChannelUnconfirmed
	case c.StoppedAt != 0:
		return ChannelStopped
	}
	return ChannelActive
}

// Wants reports whether the channel wants an event.
func (c *AlertChannel) Wants(event AlertEvent) bool { return slices.Contains(c.Events, event) }

// AlertAddressHint returns what is shown of the URL of a channel: its host and last characters. The
// rest of it is a secret.
func AlertAddressHint(address string) string {
	const shown = 4
	host := WebhookHost(address)
	if host == "" {
		return ""
	}
	path := strings.TrimPrefix(address, "https://")
	if i := strings.IndexAny(path, "/?#"); i < 0 || len(path)-i < 4*shown {
		return host
	}
	return host + "/…" + address[len(address)-shown:]
}

// QuietHours are a part of each day in which a channel gets no messages. They may include midnight.
type QuietHours struct {
	From int    // minute of the day, included
	To   int    // minute of the day, excluded; the same as From: no quiet hours
	Zone string // IANA name
}

const minutesADay = 24 * 60

// Check returns an error for quiet hours that cannot be.
func (q QuietHours) Check(field string) error {
	if q.From < 0 || q.From >= minutesADay || q.To < 0 || q.To >= minutesADay {
		return InvalidField(field, "invalid_quiet_hours", fmt.Sprintf("Use minutes of the day, 0 to %d.", minutesADay-1))
	}
	if q.Zone == "" && q.From == q.To {
		return nil
	}
	if q.From == q.To {
		return InvalidField(field, "invalid_quiet_hours", "The quiet hours begin and end at the same time.")
	}
	if _, err := time.LoadLocation(q.Zone); err != nil || q.Zone == "" || q.Zone == "Local" {
		return InvalidField(field, "invalid_quiet_hours", "Use a time zone such as Europe/Berlin.")
	}
	return nil
}

// Until returns when the quiet hours end that contain the time at, or at itself outside of them.
// Where the clock is changed, the ends are read from the wall clock: a skipped end is the time at
// which the clock continues, and of a repeated end one counts.
func (q QuietHours) Until(at Instant) Instant {
	zone, err := time.LoadLocation(q.Zone)
	if q.From == q.To || err != nil {
		return at
	}

	local := at.Time().In(zone)
	minute := local.Hour()*60 + local.Minute()
	after := func(days int) Instant {
		y, m, d := local.Date()
		return At(time.Date(y, m, d+days, q.To/60, q.To%60, 0, 0, zone))
	}

	switch {
	case q.From < q.To && (minute < q.From || minute >= q.To):
		return at
	case q.From > q.To && minute >= q.To && minute < q.From:
		return at
	case q.From > q.To && minute >= q.From:
		return max(at, after(1))
	}
	return max(at, after(0))
}

// Events of messages that are not alerts. All but the test are planned: see package alerts.
const (
	MessageTest    = "test"
	MessageWeekly  = "weekly"         // summary of a week from Monday to Sunday
	MessageMonthly = "monthly"        // summary of a month
	MessageSpike   = "visitors_above" // more visitors at once than a threshold
	MessageDrop    = "visitors_below" // fewer visitors on a day than a threshold
)

// AlertMessage is a message to a channel. Its attempts have the rules of deliveries.
type AlertMessage struct {
	ID                int64      `bun:",pk,autoincrement"`
	ChannelID         int64      `bun:",notnull"`
	AlertID           int64      `bun:",nullzero"` // 0: a test or a planned message
	Event             string     `bun:",notnull"`  // an AlertEvent or one of the above
	Phase             AlertPhase `bun:",notnull"`
	Data              AlertData  `bun:",notnull"`
	State             string     `bun:",notnull"` // of deliveries
	ScheduledAttempts int32      `bun:"attempts,notnull"`
	Attempts          int32      `bun:"tries,notnull"`
	LeasedUntil       Instant    `bun:"claimed_until,notnull"`
	ResumeState       string     `bun:"fallback,notnull"`
	CreatedAt         Instant    `bun:",notnull"`
	NextAttemptAt     Instant    `bun:",notnull"`
	MailID            int64      `bun:",nullzero"` // the mail that carries it
}

// Delivery returns the message as a delivery, for the rules of attempts.
func (m *AlertMessage) Delivery() *Delivery {
	kind := DeliveryAlert
	if m.Event == MessageTest {
		kind = DeliveryTest
	}
	return &Delivery{
		ID: m.ID, Kind: kind, Event: m.Event, State: m.State, ScheduledAttempts: m.ScheduledAttempts,
		CreatedAt: m.CreatedAt, NextAttemptAt: m.NextAttemptAt, Attempts: m.Attempts, LeasedUntil: m.LeasedUntil,
		ResumeState: m.ResumeState,
	}
}

// DeliveryAlert is the kind of a message to a channel, as a lane of its own. No row of deliveries
// has it.
const DeliveryAlert = "alert"

// AlertData is what a message reports. It names its objects as they were when it was written.
type AlertData struct {
	MailSite
	Account   string       `json:"account,omitempty"`
	Sitekey   string       `json:"sitekey,omitempty"` // its name
	SitekeyID SitekeyID    `json:"sitekeyId,omitempty"`
	Subject   string       `json:"subject,omitempty"`
	BeganAt   Instant      `json:"beganAt,omitempty"`
	EndedAt   Instant      `json:"endedAt,omitempty"`
	Figures   AlertFigures `json:"figures"`

	// Of a summary; of MessageDrop the days.
	From    string         `json:"from,omitempty"` // YYYY-MM-DD
	To      string         `json:"to,omitempty"`
	Summary *ReportSummary `json:"summary,omitempty"`
}
