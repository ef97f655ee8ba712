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

// MailKinds maps every kind to an empty value of its data. Package jobs/mail has a template of each
// in each language. Data with the fields site and siteId, see MailSite, names and links to the
// site.
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
	MailSecondFactor:    SecondFactorMail{},
	MailRecoveryCode:    RecoveryCodeMail{},
	MailOperatorLink:    struct{}{},
	MailSuspended:       SuspendedMail{},
	MailResumed:         struct{}{},
	MailCaptchaAttack:   CaptchaAttackMail{},
	MailAlert:           AlertMail{},
	MailOwnAlert:        AlertMail{},
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
	SiteID SiteID `json:"siteId,omitempty"`
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

// EmailMail is the data of email_requested and email_changed. It does not hold the new address,
// which the old one's reader need not know.
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

// AlertMail is the data of alert and own_alert: a message to an e-mail address.
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
