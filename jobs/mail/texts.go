package mail

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// goToService is the text of a link to the installation.
const goToService = "Go to the service"

// texts makes the text of each of model.MailKinds from the data of the mail.
var texts = map[string]func(data []byte) (*text, error){
	model.MailQuota80:         withData(quota80Text),
	model.MailQuota100:        withData(quota100Text),
	model.MailDeliveryFailed:  withData(deliveryFailedText),
	model.MailInvitation:      withData(invitationText),
	model.MailPasswordReset:   withData(passwordResetText),
	model.MailSignUp:          withData(signUpText),
	model.MailSignUpKnown:     withData(signUpKnownText),
	model.MailWebhookChanged:  withData(webhookChangedText),
	model.MailPasswordChanged: withData(passwordChangedText),
	model.MailReportSummary:   withData(reportSummaryText),
	model.MailTrafficAlert:    withData(trafficAlertText),
	model.MailOperatorLink:    withData(operatorLinkText),
	model.MailTest:            withData(testText),
}

// withData decodes the data of a kind.
func withData[Data any](compose func(*Data) *text) func([]byte) (*text, error) {
	return func(raw []byte) (*text, error) {
		var data Data
		if err := json.Unmarshal(raw, &data); err != nil {
			return nil, err
		}
		return compose(&data), nil
	}
}

// accountName returns an account's name for the middle of a sentence. A mail of an older version
// has none.
func accountName(name string) string {
	if name == "" {
		return "your account"
	}
	return "the account " + model.MailName(name)
}

// used returns what a quota limits, for a subject and for a sentence.
func used(d *model.QuotaMail) (subject, what string) {
	if d.Product == model.ProductCaptcha {
		return "captcha of " + accountName(d.Account), "captcha verifications of " + accountName(d.Account)
	}
	return "analytics of " + d.Site,
		fmt.Sprintf("page views and events of %s, a site of %s,", d.Site, accountName(d.Account))
}

// ofQuota returns the quota for the middle of a sentence.
func ofQuota(d *model.QuotaMail) string {
	if d.Quota == 0 {
		return "the month's quota"
	}
	return "the month's quota of " + thousands(d.Quota)
}

// thousands formats a number that is not negative with commas between groups of three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// counted returns a number with its noun in the singular or plural.
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// monthName formats YYYY-MM as "November 2026".
func monthName(month string) string {
	at, err := time.Parse("2006-01", month)
	if err != nil {
		return month
	}
	return at.Format("January 2006")
}

// pastQuota returns what happens beyond 100 %. The captcha has a reserve (captcha contract, section
// 3).
func pastQuota(d *model.QuotaMail) string {
	if d.Product == model.ProductCaptcha {
		return "they are accepted up to 110 %, for at most 7 days; " +
			"then they are refused until the month ends (UTC) or the plan is changed."
	}
	return "they are rejected until the month ends (UTC) or the plan is changed."
}

// quotaText returns the mail of one threshold.
func quotaText(d *model.QuotaMail, percent int, subject, effect string) *text {
	of, what := used(d)
	return &text{
		Subject: subject + ": " + of, Link: home, LinkText: goToService,
		Paragraphs: []string{
			fmt.Sprintf("The %s have reached %d %% of %s in %s.", what, percent, ofQuota(d), monthName(d.Month)),
			effect + pastQuota(d),
		},
	}
}

func quota80Text(d *model.QuotaMail) *text {
	return quotaText(d, 80, "80 % of the monthly quota used", "Up to 100 % nothing changes. Beyond that ")
}

func quota100Text(d *model.QuotaMail) *text {
	effect := "From now on "
	if d.Product == model.ProductCaptcha {
		// After a plan was lowered, the reserve may be used up as well.
		effect = "Beyond that "
	}
	return quotaText(d, 100, "The monthly quota is used up", effect)
}

func deliveryFailedText(d *model.DeliveryFailedMail) *text {
	what := "The webhook call for the event " + d.Event
	if d.Kind == model.DeliveryDailyExport {
		what = "A part of the daily export of " + d.Event
	}

	return &text{
		Subject: "A webhook call failed: analytics of " + d.Site, Link: home, LinkText: goToService,
		Paragraphs: []string{
			fmt.Sprintf("%s of %s, a site of %s, could not be delivered in %s. The last error was: %s.",
				what, d.Site, accountName(d.Account), counted(int64(d.Attempts), "attempt"), d.Error),
			"Each attempt is listed with the site's deliveries, where you can also send it again. " +
				"Other calls may have failed as well: you get at most one such mail a day for each site.",
		},
	}
}

// invitationText returns a mail to an address whose owner may not know the account: it shows no
// more of the account than MailName.
func invitationText(d *model.LinkMail) *text {
	account := model.MailName(d.Account)
	return &text{
		Subject: "You are invited to " + account, Link: d.URL, LinkText: "Accept the invitation",
		Paragraphs: []string{
			fmt.Sprintf("You are invited to work on %s.", account),
			"If you do not know what this is about, ignore this mail.",
		},
	}
}

// signUpText returns a mail to an address that any visitor may have typed: it shows nothing else of
// what they typed.
func signUpText(d *model.LinkMail) *text {
	return &text{
		Subject: "Confirm your sign-up", Link: d.URL, LinkText: "Confirm your sign-up",
		Paragraphs: []string{
			"You or another person signed up with this address. The account is created when you follow the link below " +
				"within 24 hours and enter the password that you chose.",
			"If it was not you, ignore this mail: without the link there is no account.",
		},
	}
}

func signUpKnownText(d *model.LinkMail) *text {
	return &text{
		Subject: "You have an account already", Link: d.URL, LinkText: goToService,
		Paragraphs: []string{
			"You or another person signed up with this address. It has an account already, so nothing was created: " +
				"sign in with its password.",
			"If you forgot the password, ask for a new one there with requestPasswordReset: you get a link by mail. " +
				"If it was not you, ignore this mail.",
		},
	}
}

func passwordResetText(d *model.LinkMail) *text {
	return &text{
		Subject: "Set a new password", Link: d.URL, LinkText: "Set a new password",
		Paragraphs: []string{
			"A new password was requested for your account. The link below works once and expires soon.",
			"If it was not you, ignore this mail: your password does not change.",
		},
	}
}

func webhookChangedText(d *model.WebhookChangedMail) *text {
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
		change = fmt.Sprintf("They are still sent to %s; the remaining part of the address was changed.", d.New)
	}

	text := &text{
		Subject: "A webhook address was changed: " + d.Site,
		Paragraphs: []string{
			fmt.Sprintf("The address that %s of %s are sent to was changed by %s, on %s UTC.",
				what, d.Site, d.By, d.At.Time().Format(time.DateTime)),
			change,
			"If you did not expect this, correct the address, revoke the API tokens that you do not know, " +
				"and change your password.",
		},
	}

	if d.Last {
		text.Paragraphs = append(text.Paragraphs,
			"You get no more mails about changes of this site's webhook addresses today.")
	}

	return text
}

func passwordChangedText(d *model.PasswordChangedMail) *text {
	tokens := "You have no API tokens."

	if len(d.Tokens) > 0 {
		tokens = "These API tokens are still valid: " + strings.Join(d.Tokens, ", ") +
			". To revoke one, sign in and use the mutation revokeApiToken; the query apiTokens lists them."
	}

	return &text{
		Subject: "Your password was changed", Link: d.Page, LinkText: "Sign in",
		Paragraphs: []string{
			fmt.Sprintf("Your password was changed on %s UTC. You were signed out everywhere else.",
				d.At.Time().Format(time.DateTime)),
			tokens,
			"If you did not do this, request a new password now and revoke the API tokens that you do not know.",
		},
	}
}

func operatorLinkText(*struct{}) *text {
	return &text{
		Subject: "A link to set a new password was made for you",
		Paragraphs: []string{
			"The operator of this installation made a link that can change your password once, within an hour. " +
				"Links that you got earlier do not work any more.",
			"If you did not ask for it, ask the operator: the link gives access to your account.",
		},
	}
}

func testText(*struct{}) *text {
	return &text{Subject: "Test", Paragraphs: []string{"This mail only shows that mails arrive."}}
}
