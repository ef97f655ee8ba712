package model

import "time"

// Mail is an e-mail to one recipient. The worker renders its text from the kind and the data.
type Mail struct {
	ID            int64 `bun:",pk,autoincrement"`
	AccountID     int64
	Recipient     string
	Kind          string
	Data          string // JSON object: the values of the kind's text; {} in a final state
	State         string
	Attempts      int32
	CreatedAt     Instant
	NextAttemptAt Instant
}

// Kinds of mails, with the data of each.
const (
	MailQuota80         = "quota_80"         // QuotaMail
	MailQuota100        = "quota_100"        // QuotaMail
	MailDeliveryFailed  = "delivery_failed"  // DeliveryFailedMail
	MailInvitation      = "invitation"       // LinkMail
	MailPasswordReset   = "password_reset"   // LinkMail
	MailSignUp          = "sign_up"          // LinkMail
	MailSignUpKnown     = "sign_up_known"    // LinkMail, without a secret
	MailWebhookChanged  = "webhook_changed"  // WebhookChangedMail
	MailPasswordChanged = "password_changed" // PasswordChangedMail
	MailReportSummary   = "report_summary"   // ReportSummaryMail
	MailTrafficAlert    = "traffic_alert"    // TrafficAlertMail
	MailOperatorLink    = "operator_link"    // none: the operator made a link to set a new password
	MailTest            = "test"             // none
)

// MailKinds lists every kind.
var MailKinds = []string{
	MailQuota80, MailQuota100, MailDeliveryFailed, MailInvitation, MailPasswordReset, MailSignUp, MailSignUpKnown,
	MailWebhookChanged, MailPasswordChanged, MailReportSummary, MailTrafficAlert, MailOperatorLink, MailTest,
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

// QuotaMail is the data of quota_80 and quota_100.
type QuotaMail struct {
	Product string `json:"product"`           // analytics or captcha
	Account string `json:"account,omitempty"` // its name
	Site    string `json:"site,omitempty"`
	Month   string `json:"month"`           // YYYY-MM
	Quota   int64  `json:"quota,omitempty"` // 0: unknown
}

// DeliveryFailedMail is the data of delivery_failed.
type DeliveryFailedMail struct {
	Account  string `json:"account,omitempty"` // its name
	Site     string `json:"site"`
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
	Site string  `json:"site"`
	Kind string  `json:"kind"` // of the deliveries: DeliveryConversion or DeliveryDailyExport
	By   string  `json:"by"`
	At   Instant `json:"at"`
	Old  string  `json:"old,omitempty"`  // host; empty: no webhook before
	New  string  `json:"new,omitempty"`  // host; empty: no webhook now
	Last bool    `json:"last,omitempty"` // whether later changes of the day are not mailed
}

// MaxPasswordMails is how many changes of one user's password are mailed within an hour.
const MaxPasswordMails = 5

// PasswordChangedMail is the data of password_changed.
type PasswordChangedMail struct {
	At     Instant  `json:"at"`
	Tokens []string `json:"tokens,omitempty"` // the API tokens that remain valid, see APIToken.String
	Page   string   `json:"page"`             // URL of the sign-in page
}

// LinkMail is the data of invitation, password_reset and the sign-ups. The link contains a secret,
// so the data is deleted when the mail reaches a final state.
type LinkMail struct {
	URL     string `json:"url"`
	Account string `json:"account,omitempty"` // its name
}
