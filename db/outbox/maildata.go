package outbox

import "github.com/tallygate/tallygate/db/model"

// MailKinds maps every kind to an empty value of its data. Package jobs/mail has a template of each
// in each language. Data with the fields site and siteId, see model.MailSite, names and links to
// the site.
var MailKinds = map[string]any{
	model.MailQuota80:         QuotaMail{},
	model.MailQuota100:        QuotaMail{},
	model.MailDeliveryFailed:  DeliveryFailedMail{},
	model.MailInvitation:      InvitationMail{},
	model.MailPasswordReset:   LinkMail{},
	model.MailSignUp:          LinkMail{},
	model.MailSignUpKnown:     LinkMail{},
	model.MailEmailChange:     LinkMail{},
	model.MailEmailKnown:      LinkMail{},
	model.MailEmailRequested:  EmailMail{},
	model.MailEmailChanged:    EmailMail{},
	model.MailWebhookChanged:  WebhookChangedMail{},
	model.MailPasswordChanged: PasswordChangedMail{},
	model.MailTokenExpires:    TokenExpiresMail{},
	model.MailSecondFactor:    SecondFactorMail{},
	model.MailRecoveryCode:    RecoveryCodeMail{},
	model.MailOperatorLink:    struct{}{},
	model.MailSuspended:       SuspendedMail{},
	model.MailResumed:         struct{}{},
	model.MailCaptchaAttack:   CaptchaAttackMail{},
	model.MailAlert:           AlertMail{},
	model.MailOwnAlert:        AlertMail{},
	model.MailAlertConfirm:    AlertConfirmMail{},
	model.MailTest:            struct{}{},
}

// QuotaMail is the data of quota_80 and quota_100.
type QuotaMail struct {
	model.MailSite
	Product string `json:"product"`         // analytics or captcha
	Month   string `json:"month"`           // YYYY-MM
	Quota   int64  `json:"quota,omitempty"` // 0: unknown
}

// DeliveryFailedMail is the data of delivery_failed.
type DeliveryFailedMail struct {
	model.MailSite
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
	model.MailSite
	Kind     string        `json:"kind"` // of the deliveries: DeliveryConversion or DeliveryDailyExport
	By       string        `json:"by"`   // see ChangedBy
	Token    string        `json:"token,omitempty"`
	Operator bool          `json:"operator,omitempty"`
	At       model.Instant `json:"at"`
	Old      string        `json:"old,omitempty"`  // host; empty: no webhook before
	New      string        `json:"new,omitempty"`  // host; empty: no webhook now
	Last     bool          `json:"last,omitempty"` // whether later changes of the day are not mailed
}

// MaxPasswordMails is how many changes of one user's password are mailed within an hour.
const MaxPasswordMails = 5

// PasswordChangedMail is the data of password_changed.
type PasswordChangedMail struct {
	At     model.Instant `json:"at"`
	Tokens []string      `json:"tokens,omitempty"` // the API tokens that remain valid, see APIToken.String
}

// TokenExpiresMail is the data of token_expires.
type TokenExpiresMail struct {
	Name string        `json:"name"`
	Hint string        `json:"hint"` // the last characters of the token
	At   model.Instant `json:"at"`
}

// EmailMail is the data of email_requested and email_changed. It does not hold the new address,
// which the old one's reader need not know.
type EmailMail struct {
	At model.Instant `json:"at"`
}

// MaxSecondFactorMails is how many changes of one user's second factors are mailed within an hour.
const MaxSecondFactorMails = 20

// SecondFactorMail is the data of second_factor.
type SecondFactorMail struct {
	At       model.Instant `json:"at"`
	Passkey  string        `json:"passkey,omitempty"`  // its name; empty: an authenticator app
	Added    bool          `json:"added,omitempty"`    // false: removed
	Operator bool          `json:"operator,omitempty"` // the operator removed all second factors
}

// RecoveryCodeMail is the data of recovery_code.
type RecoveryCodeMail struct {
	At   model.Instant `json:"at"`
	Left int           `json:"left"` // unused codes
}

// SuspendedMail is the data of account_suspended.
type SuspendedMail struct {
	At     model.Instant `json:"at"`
	Reason string        `json:"reason"` // for the users, see ParseReason
}

// CaptchaAttackMail is the data of captcha_attack: an attack on a sitekey began.
type CaptchaAttackMail struct {
	Sitekey string        `json:"sitekey"` // its name
	At      model.Instant `json:"at"`

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
	By   string     `json:"by,omitempty"` // e-mail address of the inviting user; empty for the command line
	To   string     `json:"to,omitempty"` // the invited address
	Role model.Role `json:"role,omitempty"`

	Sites int `json:"sites,omitempty"` // how many sites a guest reaches; 0: the whole account
}

// LinkMail is the data of password_reset, email_change and the sign-ups. The link
// contains a secret, so the data is deleted when the mail reaches a final state.
type LinkMail struct {
	URL string `json:"url"`
}

// AlertMail is the data of alert and own_alert: a message to an e-mail address.
type AlertMail struct {
	model.AlertData
	ChannelID   int64            `json:"channelId"`
	ConfirmedAt model.Instant    `json:"confirmedAt"` // of the channel, see nodeid.IDs.OfChannelStop
	Channel     string           `json:"channel"`     // its name
	Event       string           `json:"event"`
	Phase       model.AlertPhase `json:"phase"`
}

// AlertConfirmMail is the data of alert_confirm. The data is deleted like the data of LinkMail.
type AlertConfirmMail struct {
	LinkMail
	model.MailSite
	By string `json:"by,omitempty"` // e-mail address of the user who made the channel
}
