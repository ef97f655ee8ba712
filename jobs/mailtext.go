package jobs

import (
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// mailText is what a mail says, in either form.
type mailText struct {
	Subject    string
	Paragraphs []string
	Link       string // follows the paragraphs; an address, or home; empty: none
	LinkText   string
	Sender     string // last line: the installation that sends the mail; empty: none
}

// home is a Link to the installation.
const home = "/"

// from makes the text name the installation that sends it, and completes a link to it. Without a
// base URL it does neither.
func (t *mailText) from(baseURL string) {
	if t.Link == home {
		t.Link = ""

		if baseURL != "" {
			t.Link = baseURL + home
		}
	}

	if baseURL != "" {
		t.Sender = "This mail was sent by Tallygate at " + baseURL + "."
	}
}

// plain is the text form.
func (t *mailText) plain() string {
	parts := t.Paragraphs

	if t.Link != "" {
		parts = append(parts[:len(parts):len(parts)], t.LinkText+":\n"+t.Link)
	}
	if t.Sender != "" {
		parts = append(parts[:len(parts):len(parts)], t.Sender)
	}

	return strings.Join(parts, "\n\n") + "\n"
}

// mailHTML is the HTML form.
var mailHTML = template.Must(template.New("mail").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Subject}}</title></head>
<body style="font-family: sans-serif; max-width: 36em; line-height: 1.5">
{{- range .Paragraphs}}
<p>{{.}}</p>
{{- end}}
{{- if .Link}}
<p><a href="{{.Link}}">{{.LinkText}}</a></p>
{{- end}}
{{- if .Sender}}
<p>{{.Sender}}</p>
{{- end}}
</body></html>
`))

func (t *mailText) html() (string, error) {
	var b strings.Builder
	err := mailHTML.Execute(&b, t)
	return b.String(), err
}

// mailTexts make the text of each kind of model.MailKinds.
var mailTexts = map[string]func(data []byte) (*mailText, error){
	model.MailQuota80:         withData(quota80Text),
	model.MailQuota100:        withData(quota100Text),
	model.MailDeliveryFailed:  withData(deliveryFailedText),
	model.MailInvitation:      withData(invitationText),
	model.MailPasswordReset:   withData(passwordResetText),
	model.MailSignUp:          withData(signUpText),
	model.MailSignUpKnown:     withData(signUpKnownText),
	model.MailWebhookChanged:  withData(webhookChangedText),
	model.MailPasswordChanged: withData(passwordChangedText),
	model.MailOperatorLink:    withData(operatorLinkText),
	model.MailTest:            withData(testText),
}

func withData[Data any](text func(*Data) *mailText) func([]byte) (*mailText, error) {
	return func(raw []byte) (*mailText, error) {
		var data Data
		if err := json.Unmarshal(raw, &data); err != nil {
			return nil, err
		}
		return text(&data), nil
	}
}

// accountName is an account's name in the middle of a sentence. An older mail does not have it.
func accountName(name string) string {
	if name == "" {
		return "your account"
	}
	return "the account " + model.MailName(name)
}

// used names what a quota is of.
func used(d *model.QuotaMail) (subject, what string) {
	if d.Product == model.ProductCaptcha {
		return "captcha of " + accountName(d.Account), "captcha verifications of " + accountName(d.Account)
	}
	return "analytics of " + d.Site, fmt.Sprintf("page views and events of %s, a site of %s,", d.Site, accountName(d.Account))
}

func ofQuota(d *model.QuotaMail) string {
	if d.Quota == 0 {
		return "the month's quota"
	}
	return "the month's quota of " + thousands(d.Quota)
}

// thousands writes a number of at least 0 with commas between groups of three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// counted is a number with its noun in the singular or plural.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// monthName writes YYYY-MM as "November 2026".
func monthName(month string) string {
	at, err := time.Parse("2006-01", month)
	if err != nil {
		return month
	}
	return at.Format("January 2006")
}

// pastQuota is what happens beyond 100 %. The captcha has a reserve (captcha contract, section 3).
func pastQuota(d *model.QuotaMail) string {
	if d.Product == model.ProductCaptcha {
		return "they are accepted up to 110 %, for at most 7 days; then they are refused until the month ends (UTC) or the plan is changed."
	}
	return "they are rejected until the month ends (UTC) or the plan is changed."
}

// quotaText is the mail of one threshold.
func quotaText(d *model.QuotaMail, percent int, subject, effect string) *mailText {
	of, what := used(d)
	return &mailText{Subject: subject + ": " + of, Link: home, LinkText: "Go to the service", Paragraphs: []string{
		fmt.Sprintf("The %s have reached %d %% of %s in %s.", what, percent, ofQuota(d), monthName(d.Month)),
		effect + pastQuota(d),
	}}
}

func quota80Text(d *model.QuotaMail) *mailText {
	return quotaText(d, 80, "80 % of the monthly quota used", "Up to 100 % nothing changes. Beyond that ")
}

func quota100Text(d *model.QuotaMail) *mailText {
	effect := "From now on "
	if d.Product == model.ProductCaptcha {
		// a lowered plan may have used up the reserve as well
		effect = "Beyond that "
	}
	return quotaText(d, 100, "The monthly quota is used up", effect)
}

func deliveryFailedText(d *model.DeliveryFailedMail) *mailText {
	what := "The webhook call for the event " + d.Event

	if d.Kind == model.DeliveryDailyExport {
		what = "A part of the daily export of " + d.Event
	}

	return &mailText{Subject: "A webhook call failed: analytics of " + d.Site, Link: home, LinkText: "Go to the service", Paragraphs: []string{
		fmt.Sprintf("%s of %s, a site of %s, could not be delivered in %s. The last error was: %s.",
			what, d.Site, accountName(d.Account), counted(int64(d.Attempts), "attempt"), d.Error),
		"Each attempt is listed with the site's deliveries, where you can also send it again. Other calls may have failed as well: you get at most one such mail a day for each site.",
	}}
}

// invitationText goes to an address that its owner may never have given to the account: of the
// account it shows no more than MailName.
func invitationText(d *model.LinkMail) *mailText {
	account := model.MailName(d.Account)
	return &mailText{Subject: "You are invited to " + account, Link: d.URL, LinkText: "Accept the invitation", Paragraphs: []string{
		fmt.Sprintf("You are invited to work on %s.", account),
		"If you do not know what this is about, ignore this mail.",
	}}
}

// signUpText goes to an address that any visitor may have typed: it shows nothing else of what they
// typed.
func signUpText(d *model.LinkMail) *mailText {
	return &mailText{Subject: "Confirm your sign-up", Link: d.URL, LinkText: "Confirm your sign-up", Paragraphs: []string{
		"You, or another person, signed up with this address. The account is created when you follow the link below within 24 hours and enter the password that you chose.",
		"If it was not you, ignore this mail: without the link there is no account.",
	}}
}

func signUpKnownText(d *model.LinkMail) *mailText {
	return &mailText{Subject: "You have an account already", Link: d.URL, LinkText: "Go to the service", Paragraphs: []string{
		"You, or another person, signed up with this address. It has an account already, so nothing was created: sign in with its password.",
		"If you forgot the password, ask for a new one there with requestPasswordReset: you get a link by mail. If it was not you, ignore this mail.",
	}}
}

func passwordResetText(d *model.LinkMail) *mailText {
	return &mailText{Subject: "Set a new password", Link: d.URL, LinkText: "Set a new password", Paragraphs: []string{
		"Somebody, hopefully you, asked for a new password. The link below works once and for a short time.",
		"If it was not you, ignore this mail: your password stays as it is.",
	}}
}

func webhookChangedText(d *model.WebhookChangedMail) *mailText {
	what := "key events"

	if d.Kind == model.DeliveryDailyExport {
		what = "each day's events"
	}

	change := fmt.Sprintf("They are sent to %s; before, they were sent to %s.", d.New, d.Old)

	switch {
	case d.Old == "":
		change = fmt.Sprintf("They are sent to %s; before, they were not sent.", d.New)
	case d.New == "":
		change = fmt.Sprintf("They are not sent any more; before, they were sent to %s.", d.Old)
	case d.Old == d.New:
		change = fmt.Sprintf("They are still sent to %s; the rest of the address was changed.", d.New)
	}

	text := &mailText{Subject: "A webhook address was changed: " + d.Site, Paragraphs: []string{
		fmt.Sprintf("The address that %s of %s are sent to was changed by %s, on %s UTC.",
			what, d.Site, d.By, d.At.Time().Format("2006-01-02 15:04:05")),
		change,
		"If you did not expect this, set the address right, revoke the API tokens that you do not know, and change your password.",
	}}

	if d.Last {
		text.Paragraphs = append(text.Paragraphs, "You get no more mails about changes of this site's webhook addresses today.")
	}

	return text
}

func passwordChangedText(d *model.PasswordChangedMail) *mailText {
	tokens := "You have no API tokens."

	if len(d.Tokens) > 0 {
		tokens = "These API tokens are still valid: " + strings.Join(d.Tokens, ", ") +
			". To end one, sign in and use the mutation revokeApiToken; the query apiTokens lists them."
	}

	return &mailText{Subject: "Your password was changed", Link: d.Page, LinkText: "Sign in", Paragraphs: []string{
		fmt.Sprintf("Your password was changed on %s UTC. You were signed out everywhere else.", d.At.Time().Format("2006-01-02 15:04:05")),
		tokens,
		"If you did not do this, ask for a new password at once and end the API tokens that you do not know.",
	}}
}

func operatorLinkText(*struct{}) *mailText {
	return &mailText{Subject: "A link to set a new password was made for you", Paragraphs: []string{
		"The operator of this installation made a link by which your password can be changed, once and within an hour. Links that you got earlier do not work any more.",
		"If you did not ask for it, ask the operator: with the link, your account can be opened.",
	}}
}

func testText(*struct{}) *mailText {
	return &mailText{Subject: "Test", Paragraphs: []string{"This mail only shows that mails arrive."}}
}
