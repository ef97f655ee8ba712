package model

import (
	"fmt"
	"time"
)

// Mail is an e-mail to one recipient. The worker renders it from the kind, the data and the language.
type Mail struct {
	ID            int64 `bun:",pk,autoincrement"`
	AccountID     int64
	Recipient     string
	Language      Language // the recipient's; of the request for an address without a user
	Kind          string
	Data          string // JSON object: the values of the kind's text; {} in a final state
	State         string
	Attempts      int32
	CreatedAt     Instant
	NextAttemptAt Instant

	Account string `bun:"-"` // the account's name; set by a lease, empty for a mail of no account
}

// Kinds of mails. MailKinds has the data of each.
const (
	MailQuota80         = "quota_80"
	MailQuota100        = "quota_100"
	MailDeliveryFailed  = "delivery_failed"
	MailInvitation      = "invitation"
	MailPasswordReset   = "password_reset"
	MailSignUp          = "sign_up"
	MailSignUpKnown     = "sign_up_known"   // its link has no secret
	MailEmailChange     = "email_change"    // to the new address
	MailEmailKnown      = "email_known"     // to the new address, which another user has; its link has no secret
	MailEmailRequested  = "email_requested" // to the old address
	MailEmailChanged    = "email_changed"   // to the old address
	MailWebhookChanged  = "webhook_changed"
	MailPasswordChanged = "password_changed"
	MailTokenExpires    = "token_expires"
	MailReportSummary   = "report_summary"
	MailTrafficAlert    = "traffic_alert"
	MailSecondFactor    = "second_factor"
	MailRecoveryCode    = "recovery_code"
	MailOperatorLink    = "operator_link" // the operator made a link to set a new password
	MailSuspended       = "account_suspended"
	MailResumed         = "account_resumed"
	MailCaptchaAttack   = "captcha_attack"
	MailAlert           = "alert"         // to the address of a channel
	MailAlertConfirm    = "alert_confirm" // to the address of a channel that is not confirmed
	MailTest            = "test"
)

// MailKinds maps every kind to an empty value of its data. Package jobs/mail has a template of each
// in each language. Data with the fields site and siteId, see MailSite, names and links to the site.
var MailKinds = map[string]any{
	MailQuota80:         QuotaMail{},
	MailQuota100:        QuotaMail{},
	MailDeliveryFailed:  DeliveryFailedMail{},
	MailInvitation:      InvitationMail{},
	MailPasswordReset:   LinkMail{},
	MailSignUp:          LinkMail{},
	MailSignUpKnown:     LinkMail{},
	MailEmailChange:     LinkMail{},
	MailEmailKnown:      LinkMail{},
	MailEmailRequested:  EmailMail{},
	MailEmailChanged:    EmailMail{},
	MailWebhookChanged:  WebhookChangedMail{},
	MailPasswordChanged: PasswordChangedMail{},
	MailTokenExpires:    TokenExpiresMail{},
	MailReportSummary:   ReportSummaryMail{},
	MailTrafficAlert:    TrafficAlertMail{},
	MailSecondFactor:    SecondFactorMail{},
	MailRecoveryCode:    RecoveryCodeMail{},
	MailOperatorLink:    struct{}{},
	MailSuspended:       SuspendedMail{},
	MailResumed:         struct{}{},
	MailCaptchaAttack:   CaptchaAttackMail{},
	MailAlert:           AlertMail{},
	MailAlertConfirm:    AlertConfirmMail{},
	MailTest:            struct{}{},
}

// States of mails.
const (
	MailPending = "pending"
	MailSent    = "sent"
	MailFailed  = "failed"
	MailSkipped = "skipped" // no mail server when it was due, or no recipient
)

// MaxMailAttempts is how many attempts a mail has.
const MaxMailAttempts = 8

// NoMailData is the data of a mail without any, and of a mail in a final state.
const NoMailData = "{}"

// End sets the final state of a mail and deletes its data, which can hold a secret link.
func (m *Mail) End(state string) { m.State, m.Data = state, NoMailData }

// linkLifetimes are how long the links in mails are valid, by kind.
var linkLifetimes = map[string]time.Duration{
	MailInvitation: InvitationLifetime, MailPasswordReset: ResetLifetime, MailSignUp: SignUpLifetime,
	MailEmailChange: EmailChangeLifetime, MailAlertConfirm: AlertConfirmLifetime,
}

// LinkExpired reports whether the mail's link has expired at the given time. It is false for a mail
// without a link.
func (m *Mail) LinkExpired(at Instant) bool {
	lifetime, ok := linkLifetimes[m.Kind]
	return ok && at >= m.CreatedAt.Add(lifetime)
}

// MailRetryDelay returns the pause after the given number of failed attempts: 1, 4, 16 minutes and
// so on, at most 4 hours. All attempts together take about half a day.
func MailRetryDelay(attempts int32) time.Duration {
	delay := time.Minute
	for range min(attempts, 8) - 1 {
		delay *= 4
	}
	return min(delay, 4*time.Hour)
}

// MailSite is the part of a mail's data that names a site. It is empty for a deleted site.
type MailSite struct {
	Site   string `json:"site,omitempty"` // its domain
	SiteID int64  `json:"siteId,omitempty"`
}

// QuotaMail is the data of quota_80 and quota_100.
type QuotaMail struct {
	MailSite
	Product string `json:"product"`         // analytics or captcha
	Month   string `json:"month"`           // YYYY-MM
	Quota   int64  `json:"quota,omitempty"` // 0: unknown
}

// DeliveryFailedMail is the data of delivery_failed.
type DeliveryFailedMail struct {
	MailSite
	Kind     string `json:"kind"`
	Event    string `json:"event"`
	Attempts int32  `json:"attempts"`
	Error    string `json:"error"`
}

// MaxWebhookMails is how many changes of a site's webhook URLs are mailed on one UTC day.
const MaxWebhookMails = 5

// WebhookChangedMail is the data of webhook_changed. It holds hosts only: the path and query of a
// URL can contain secrets.
type WebhookChangedMail struct {
	MailSite
	Kind     string  `json:"kind"` // of the deliveries: DeliveryConversion or DeliveryDailyExport
	By       string  `json:"by"`   // see ChangedBy
	Token    string  `json:"token,omitempty"`
	Operator bool    `json:"operator,omitempty"`
	At       Instant `json:"at"`
	Old      string  `json:"old,omitempty"`  // host; empty: no webhook before
	New      string  `json:"new,omitempty"`  // host; empty: no webhook now
	Last     bool    `json:"last,omitempty"` // whether later changes of the day are not mailed
}

// MaxPasswordMails is how many changes of one user's password are mailed within an hour.
const MaxPasswordMails = 5

// PasswordChangedMail is the data of password_changed.
type PasswordChangedMail struct {
	At     Instant  `json:"at"`
	Tokens []string `json:"tokens,omitempty"` // the API tokens that remain valid, see APIToken.String
}

// TokenExpiresMail is the data of token_expires.
type TokenExpiresMail struct {
	Name string  `json:"name"`
	Hint string  `json:"hint"` // the last characters of the token
	At   Instant `json:"at"`
}

// EmailMail is the data of email_requested and email_changed. It does not hold the new address, which
// the old one's reader need not know.
type EmailMail struct {
	At Instant `json:"at"`
}

// MaxSecondFactorMails is how many changes of one user's second factors are mailed within an hour.
const MaxSecondFactorMails = 20

// SecondFactorMail is the data of second_factor.
type SecondFactorMail struct {
	At       Instant `json:"at"`
	Passkey  string  `json:"passkey,omitempty"`  // its name; empty: an authenticator app
	Added    bool    `json:"added,omitempty"`    // false: removed
	Operator bool    `json:"operator,omitempty"` // the operator removed all second factors
}

// RecoveryCodeMail is the data of recovery_code.
type RecoveryCodeMail struct {
	At   Instant `json:"at"`
	Left int     `json:"left"` // unused codes
}

// SuspendedMail is the data of account_suspended.
type SuspendedMail struct {
	At     Instant `json:"at"`
	Reason string  `json:"reason"` // for the users, see ParseReason
}

// CaptchaAttackMail is the data of captcha_attack: an attack on a sitekey began.
type CaptchaAttackMail struct {
	Sitekey string  `json:"sitekey"` // its name
	At      Instant `json:"at"`

	// In the ten minutes so far.
	Networks   int64 `json:"networks"`
	Challenges int64 `json:"challenges"`
	Refused    int64 `json:"refused"` // tokens
	Usual      int64 `json:"usual"`   // networks

	Factor int  `json:"factor"`          // of the work
	IsOff  bool `json:"isOff,omitempty"` // the policy forbids that an attack changes the work
}

// InvitationMail is the data of invitation. The data is deleted like the data of LinkMail.
type InvitationMail struct {
	LinkMail
	By   string `json:"by,omitempty"` // e-mail address of the inviting user; empty for the command line
	To   string `json:"to,omitempty"` // the invited address
	Role Role   `json:"role,omitempty"`

	Sites int `json:"sites,omitempty"` // how many sites a guest reaches; 0: the whole account
}

// LinkMail is the data of password_reset, email_change and the sign-ups. The link
// contains a secret, so the data is deleted when the mail reaches a final state.
type LinkMail struct {
	URL string `json:"url"`
}

// AlertMail is the data of alert: a message to an e-mail address.
type AlertMail struct {
	AlertData
	ChannelID   int64      `json:"channelId"`
	ConfirmedAt Instant    `json:"confirmedAt"` // of the channel, see NodeIDs.OfChannelStop
	Channel     string     `json:"channel"`     // its name
	Event       string     `json:"event"`
	Phase       AlertPhase `json:"phase"`
}

// AlertConfirmMail is the data of alert_confirm. The data is deleted like the data of LinkMail.
type AlertConfirmMail struct {
	LinkMail
	MailSite
	By string `json:"by,omitempty"` // e-mail address of the user who made the channel
}

// StopMailPath is the path of the control plane's page that stops report mails.
const StopMailPath = "/stop-mail"

// ReportMailKind is a kind of mail about the traffic of a site.
type ReportMailKind string

// The kinds of mails that a user can get about a site.
const (
	ReportWeekly  ReportMailKind = "weekly"  // summary of a week from Monday to Sunday
	ReportMonthly ReportMailKind = "monthly" // summary of a month
	ReportSpike   ReportMailKind = "spike"   // more visitors at once than a threshold
	ReportDrop    ReportMailKind = "drop"    // fewer visitors on a day than a threshold
)

const (
	// MaxReportThreshold is the largest threshold of a notice, in visitors.
	MaxReportThreshold = 1_000_000_000

	// SpikeCheck is the pause between two looks for a spike.
	SpikeCheck = 5 * time.Minute
	// SpikePause is the pause after a notice of a spike.
	SpikePause = 12 * time.Hour

	reportHour = 6 // of the site's time zone, at which mails about finished days are due
)

// CheckReportThreshold checks the threshold of a notice.
func CheckReportThreshold(field string, threshold int) error {
	if threshold < 1 || threshold > MaxReportThreshold {
		return InvalidField(field, "invalid_threshold", fmt.Sprintf("Use a number from 1 to %d.", MaxReportThreshold))
	}
	return nil
}

// ReportMail is a user's subscription to one kind of mail about a site.
type ReportMail struct {
	SiteID    int64          `bun:",pk"`
	UserID    int64          `bun:",pk"`
	Kind      ReportMailKind `bun:",pk"`
	Threshold int64          `bun:",notnull"` // visitors; of spikes and drops
	Day       Day            `bun:",notnull"` // of the site's time zone, on which it is due
	DueAt     Instant        `bun:",notnull"`
}

// ReportMails are all mails about a site that a user gets.
type ReportMails struct {
	Weekly, Monthly       bool
	SpikeAbove, DropBelow int64 // 0: never
}

// LocalDay returns the day of a time zone that contains the time, counted like UTC days.
func LocalDay(at Instant, zone *time.Location) Day {
	y, m, d := at.Time().In(zone).Date()
	return At(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)).Day()
}

// CatchUp moves a due mail to the last period that ended before at, so that only the last of
// several missed periods is mailed.
func (m *ReportMail) CatchUp(at Instant, zone *time.Location) {
	for day := LocalDay(at, zone); day > m.Day; day-- {
		if m.Kind.startsOn(day) && reportTime(day, zone) <= at {
			m.Day = day
		}
	}
}

// Schedule sets when the mail is due next after the time at.
func (m *ReportMail) Schedule(at Instant, zone *time.Location) {
	if m.Kind == ReportSpike {
		m.Day, m.DueAt = LocalDay(at, zone), at.Add(SpikeCheck)
		return
	}

	for day := LocalDay(at, zone); ; day++ {
		if due := reportTime(day, zone); m.Kind.startsOn(day) && due > at {
			m.Day, m.DueAt = day, due
			return
		}
	}
}

// startsOn reports whether a period of the kind begins on the day, so that the previous period is
// over.
func (k ReportMailKind) startsOn(day Day) bool {
	switch date := day.Start().Time(); k {
	case ReportWeekly:
		return date.Weekday() == time.Monday
	case ReportMonthly:
		return date.Day() == 1
	}
	return true
}

// Period returns the first and the last day that the mail is about, as days of the site's time zone.
func (m *ReportMail) Period() (from, to Day) {
	switch to := m.Day - 1; m.Kind {
	case ReportWeekly:
		return m.Day - 7, to
	case ReportMonthly:
		return At(m.Day.Start().Time().AddDate(0, -1, 0)).Day(), to
	default:
		return to, to
	}
}

// reportTime returns when mails about the days before are due: reportHour of the day, or the time
// that stands for it where the zone skips that hour.
func reportTime(day Day, zone *time.Location) Instant {
	y, m, d := day.Start().Time().Date()
	return At(time.Date(y, m, d, reportHour, 0, 0, 0, zone))
}

// ReportFigures are the figures of a period that a mail shows. Visitors are counted as in reports.
type ReportFigures struct {
	Visitors  int64 `json:"visitors"`
	Visits    int64 `json:"visits"`
	Pageviews int64 `json:"pageviews"`
}

// ReportRow is a value of a dimension with its visitors.
type ReportRow struct {
	Value    string `json:"value"`
	Visitors int64  `json:"visitors"`
}

// ReportSummary contains the figures of one period.
type ReportSummary struct {
	Figures  ReportFigures `json:"figures"`
	Previous ReportFigures `json:"previous"` // of as many days before
	Pages    []ReportRow   `json:"pages,omitempty"`
	Sources  []ReportRow   `json:"sources,omitempty"`
}

// ReportSummaryMail is the data of report_summary.
type ReportSummaryMail struct {
	MailSite
	UserID  int64          `json:"userId,omitempty"`
	Kind    ReportMailKind `json:"kind"` // ReportWeekly or ReportMonthly
	From    string         `json:"from"` // YYYY-MM-DD
	To      string         `json:"to"`
	Summary ReportSummary  `json:"summary"`
}

// TrafficAlertMail is the data of traffic_alert.
type TrafficAlertMail struct {
	MailSite
	UserID    int64          `json:"userId,omitempty"`
	Kind      ReportMailKind `json:"kind"`          // ReportSpike or ReportDrop
	Day       string         `json:"day,omitempty"` // YYYY-MM-DD; of a drop
	Visitors  int64          `json:"visitors"`
	Threshold int64          `json:"threshold"`
}
