package model

import (
	"time"
)

// Mail is an e-mail to one recipient. The worker renders it from the kind, the data and the
// language.
type Mail struct {
	ID            int64 `bun:",pk,autoincrement"`
	AccountID     AccountID
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

// Kinds of mails. Package outbox has the data of each.
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
	MailSecondFactor    = "second_factor"
	MailRecoveryCode    = "recovery_code"
	MailOperatorLink    = "operator_link" // the operator made a link to set a new password
	MailSuspended       = "account_suspended"
	MailResumed         = "account_resumed"
	MailCaptchaAttack   = "captcha_attack"
	MailAlert           = "alert"         // to the address of a channel
	MailOwnAlert        = "own_alert"     // to the user of an own channel
	MailAlertConfirm    = "alert_confirm" // to the address of a channel that is not confirmed
	MailTest            = "test"
)

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
	SiteID SiteID `json:"siteId,omitempty"`
}

// StopMailPath is the path of the control plane's page that stops the mails of a channel.
const StopMailPath = "/stop-mail"

// ReportFigures are the figures of a period that a message shows. Visitors are counted as in
// reports.
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
