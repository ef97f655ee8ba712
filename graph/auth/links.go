package auth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"golang.org/x/text/language"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Mailed links and the use of their secrets. The console serves their pages. A link's secret stands
// behind a #, so no server logs it. The database stores only its hash; the mail holds the secret
// until it is sent.

// The paths of the console's pages that mailed links open.
const (
	ResetPage      = "/reset-password"
	InvitationPage = "/accept-invitation"
	SignUpPage     = "/confirm-sign-up"
	EmailPage      = "/confirm-email"
	AlertsPage     = "/confirm-alerts"
)

// Links makes mailed links and the mails that carry them.
type Links struct {
	baseURL string
	now     func() time.Time
}

// Alert returns the link that confirms an alert channel with a token.
func (l *Links) Alert(token string) string { return l.to(AlertsPage, token).URL }

// mail returns a mail with a link to a page and a secret; the link has none if secret is empty.
// It has the language of the request.
func (l *Links) mail(r *http.Request, kind, page, secret string) (model.Mail, error) {
	return l.mailOf(r, kind, l.to(page, secret))
}

// to returns the link to a page with a secret behind #.
func (l *Links) to(page, secret string) outbox.LinkMail {
	address := l.baseURL + page
	if secret != "" {
		address += "#" + secret
	}
	return outbox.LinkMail{URL: address}
}

// mailOf returns a mail with its data, in the language of the request.
func (l *Links) mailOf(r *http.Request, kind string, content any) (model.Mail, error) {
	data, err := json.Marshal(content)
	now := model.At(l.now())
	return model.Mail{
		Kind: kind, Language: requestLanguage(r), Data: string(data), CreatedAt: now, NextAttemptAt: now,
		State: model.MailPending,
	}, err
}

// spoken matches a request's languages with those of mails.
var spoken = language.NewMatcher([]language.Tag{language.English, language.German})

// maxAcceptLanguage is the longest Accept-Language header that is read, in bytes.
const maxAcceptLanguage = 500

// requestLanguage returns the language of mails that suits the Accept-Language header best.
func requestLanguage(r *http.Request) model.Language {
	header := r.Header.Get("Accept-Language")
	if len(header) > maxAcceptLanguage {
		return model.English
	}

	tags, _, err := language.ParseAcceptLanguage(header)
	if err != nil {
		return model.English
	}

	_, i, _ := spoken.Match(tags...)
	return model.Languages[i]
}

// redeem hashes the password that was sent with a mailed secret, and consumes the secret with use.
// It rejects a secret of the wrong form before hashing. An attempt counts if the secret is wrong,
// or if the client disconnected before the response.
func (a *Auth) redeem(ctx context.Context, prefix, secret, password string,
	use func(tokenHash []byte, passwordHash string, now model.Instant) error,
) error {
	r, err := passwordRequest(ctx)
	if err != nil {
		return err
	}

	var wrong error

	if !model.IsSecret(prefix, secret) {
		wrong = accounts.ErrInvalidToken
	}
	if err := errors.Join(wrong, model.CheckPassword(password)); err != nil {
		return err
	}

	limits := a.throttle.secretLimits(r.http)
	release, err := a.passwords.admit(ctx, false, limits)
	if err != nil {
		return err
	}
	defer release()

	hash, err := a.passwords.hasher.hash(ctx, password)
	if err != nil {
		return a.throttle.uncount(ctx, limits, err)
	}

	err = use(model.HashToken(secret), hash, model.At(a.now()))
	switch {
	case err == nil:
		// The secret is consumed: an error of the counter must not undo that.
		_ = a.throttle.uncount(ctx, limits, nil)
	case !errors.Is(err, accounts.ErrInvalidToken) && ctx.Err() == nil:
		err = a.throttle.uncount(ctx, limits, err)
	}

	return err
}
