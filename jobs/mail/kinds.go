package mail

import (
	"encoding/json"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs/alerts/texts"
	"github.com/tallygate/tallygate/jobs/mail/text"
	"github.com/tallygate/tallygate/jobs/mail/text/de"
	"github.com/tallygate/tallygate/jobs/mail/text/en"
)

// letter is a mail with the data that was read for it.
type letter struct {
	page string                 // path or URL of the page that the mail is about
	part func(text.Part) string // in the mail's language
}

// letterWriter reads the data of a kind of mail.
type letterWriter func(language model.Language, v *view, data []byte) (*letter, error)

// kinds has every kind of outbox.MailKinds: the page that it is about, and its text in each
// language.
var kinds = map[string]letterWriter{
	model.MailQuota80:         kind(usagePage, en.Quota80, de.Quota80),
	model.MailQuota100:        kind(usagePage, en.Quota100, de.Quota100),
	model.MailDeliveryFailed:  siteKind("webhooks", en.DeliveryFailed, de.DeliveryFailed),
	model.MailInvitation:      kind(invitationOf, en.Invitation, de.Invitation),
	model.MailPasswordReset:   kind(linkOf, en.PasswordReset, de.PasswordReset),
	model.MailSignUp:          kind(linkOf, en.SignUp, de.SignUp),
	model.MailSignUpKnown:     kind(linkOf, en.SignUpKnown, de.SignUpKnown),
	model.MailEmailChange:     kind(linkOf, en.EmailChange, de.EmailChange),
	model.MailEmailKnown:      kind(linkOf, en.EmailKnown, de.EmailKnown),
	model.MailEmailRequested:  pathKind("/account", en.EmailRequested, de.EmailRequested),
	model.MailEmailChanged:    pathKind("/sign-in", en.EmailChanged, de.EmailChanged),
	model.MailWebhookChanged:  siteKind("webhooks", en.WebhookChanged, de.WebhookChanged),
	model.MailPasswordChanged: pathKind("/account", en.PasswordChanged, de.PasswordChanged),
	model.MailTokenExpires:    pathKind("/account", en.TokenExpires, de.TokenExpires),
	model.MailSecondFactor:    pathKind("/security", en.SecondFactor, de.SecondFactor),
	model.MailRecoveryCode:    pathKind("/security", en.RecoveryCode, de.RecoveryCode),
	model.MailOperatorLink:    pathKind("/account", en.OperatorLink, de.OperatorLink),
	model.MailSuspended:       pathKind("/account", en.AccountSuspended, de.AccountSuspended),
	model.MailResumed:         pathKind("/", en.AccountResumed, de.AccountResumed),
	model.MailCaptchaAttack:   pathKind("/captcha", en.CaptchaAttack, de.CaptchaAttack),
	model.MailAlert:           kind(alertMessagePage, en.Alert, de.Alert),
	model.MailOwnAlert:        kind(alertMessagePage, en.Alert, de.Alert),
	model.MailAlertConfirm:    kind(confirmOf, en.AlertConfirm, de.AlertConfirm),
	model.MailTest:            pathKind("/", en.Test, de.Test),
}

// template is the text of a kind with data of type D, in one language.
type template[D any] = func(part text.Part, v *text.View, data *D) string

// kind returns the writer of a kind with data of type D. page returns the path or URL of its page.
func kind[D any](page func(v *view, data *D) string, english, german template[D]) letterWriter {
	write := map[model.Language]template[D]{model.English: english, model.German: german}

	return func(language model.Language, v *view, raw []byte) (*letter, error) {
		var data D
		if err := json.Unmarshal(raw, &data); err != nil {
			return nil, err
		}

		return &letter{
			page: page(v, &data),
			part: func(part text.Part) string { return strings.TrimSpace(write[language](part, &v.View, &data)) },
		}, nil
	}
}

// pathKind is like kind for a page with a fixed path.
func pathKind[D any](path string, english, german template[D]) letterWriter {
	return kind(func(*view, *D) string { return path }, english, german)
}

// siteKind is like kind for a page of the mail's site.
func siteKind[D any](page string, english, german template[D]) letterWriter {
	return kind(func(v *view, _ *D) string { return v.sitePage(page) }, english, german)
}

func linkOf(_ *view, data *outbox.LinkMail) string { return data.URL }

func invitationOf(_ *view, data *outbox.InvitationMail) string { return data.URL }

func usagePage(v *view, data *outbox.QuotaMail) string {
	if data.Product == model.ProductCaptcha {
		return "/captcha"
	}
	return v.sitePage("usage")
}

func confirmOf(_ *view, data *outbox.AlertConfirmMail) string { return data.URL }

// alertMessagePage returns the page that a message to a channel is about.
func alertMessagePage(v *view, data *outbox.AlertMail) string {
	return texts.Of(model.English, data.Event, data.Phase, &data.AlertData, v.siteID).Path
}
