package model

import "time"

// Mail is an e-mail to one recipient. The worker makes its text from the kind and the data.
type Mail struct {
	ID            int64 `bun:",pk,autoincrement"`
	AccountID     int64
	Recipient     string
	Kind          string
	Data          string // JSON object: what the kind's text needs; {} once the mail has ended
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
	MailOperatorLink    = "operator_link"    // none: the operator made a link to set a new password
	MailTest            = "test"             // none
)

// MailKinds lists every kind.
var MailKinds = []string{
	MailQuota80, MailQuota100, MailDeliveryFailed, MailInvitation, MailPasswordReset, MailSignUp, MailSignUpKnown,
	MailWebhookChanged, MailPasswordChanged, MailOperatorLink, MailTest,
}

// States of mails.
const (
	MailPending = "pending"
	MailSent    = "sent"
	MailFailed  = "failed"
	MailSkipped = "skipped" // there was no mail server when it was due, or nobody to mail to
)

// MaxMailAttempts is how often a mail is tried.
const MaxMailAttempts = 8

// NoMailData is the data of a mail without any, and of one that has ended.
const NoMailData = "{}"

// End sets the final state of a mail and deletes its data, which may open an account.
func (m *Mail) End(state string) { m.State, m.Data = state, NoMailData }

// linkLifetimes are for how long the links in mails are good, by kind.
var linkLifetimes = map[string]time.Duration{MailInvitation: InvitationLifetime, MailPasswordReset: ResetLifetime, MailSignUp: SignUpLifetime}

// IsVoid reports whether the mail's link is good for nothing at a moment. A mail without a link is
// never void.
func (m *Mail) IsVoid(at Instant) bool {
	lifetime, ok := linkLifetimes[m.Kind]
	return ok && at >= m.CreatedAt.Add(lifetime)
}

// MailRetryDelay is the pause after so many failed attempts: 1, 4, 16 minutes and so on, at most 4
// hours. All attempts together last about half a day.
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
	Quota   int64  `json:"quota,omitempty"` // 0: not known
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

// MaxWebhookMails is how many changes of a site's webhook addresses are mailed on one UTC day.
const MaxWebhookMails = 5

// WebhookChangedMail is the data of webhook_changed. It has the hosts only: path and query of an
// address may hold secrets.
type WebhookChangedMail struct {
	Site string  `json:"site"`
	Kind string  `json:"kind"` // of the deliveries: DeliveryConversion or DeliveryDailyExport
	By   string  `json:"by"`
	At   Instant `json:"at"`
	Old  string  `json:"old,omitempty"`  // host; empty: nothing was sent
	New  string  `json:"new,omitempty"`  // host; empty: nothing is sent any more
	Last bool    `json:"last,omitempty"` // later changes of the day are not mailed
}

// MaxPasswordMails is how many changes of one user's password are mailed within an hour.
const MaxPasswordMails = 5

// PasswordChangedMail is the data of password_changed.
type PasswordChangedMail struct {
	At     Instant  `json:"at"`
	Tokens []string `json:"tokens,omitempty"` // the API tokens that stay valid, as texts
	Page   string   `json:"page"`             // where the user signs in
}

// LinkMail is the data of invitation, password_reset and the sign-ups. The link has a secret in it,
// so nothing of it stays when the mail has ended.
type LinkMail struct {
	URL     string `json:"url"`
	Account string `json:"account,omitempty"` // its name
}
