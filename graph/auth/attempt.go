package auth

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/provider"
)

const (
	attemptName      = "tallygate_provider"
	attemptNameHTTPS = "__Host-tallygate-provider"
	maxNext          = 300  // bytes of the page to return to
	maxAttempt       = 4000 // bytes of the cookie with its name and attributes; browsers keep 4,096
)

// attempt is the signed content of the cookie of a sign-in through a provider.
type attempt struct {
	Account  model.AccountID `json:"a,omitempty"` // with the provider; 0: the installation's provider
	Issuer   string          `json:"i"`
	Changed  model.Instant   `json:"c,omitempty"` // when the account's provider was changed
	State    string          `json:"s"`
	Nonce    string          `json:"n,omitempty"`
	Verifier string          `json:"v,omitempty"`
	Next     string          `json:"x,omitempty"`
	Expires  model.Instant   `json:"e"`

	// After the provider's answer:
	Subject string     `json:"u,omitempty"`
	Email   string     `json:"m,omitempty"`
	Role    model.Role `json:"r,omitempty"` // that the claim sets; empty: none
}

func (t attempt) secrets() provider.Attempt {
	return provider.Attempt{State: t.State, Nonce: t.Nonce, Verifier: t.Verifier}
}

// challenge returns the attempt as the database records it: each of its steps counts once.
func (t attempt) challenge(step string) accounts.Challenge {
	return accounts.Challenge{Hash: model.HashToken("provider " + step + " " + t.State), ExpiresAt: t.Expires}
}

// attempts keeps the attempt of a browser in a signed cookie.
type attempts struct {
	name   string
	secure bool
	codec  *cookieSigner
	now    func() time.Time
}

func newAttempts(codec *cookieSigner, secure bool, now func() time.Time) *attempts {
	a := &attempts{name: attemptName, secure: secure, codec: codec, now: now}
	if secure {
		a.name = attemptNameHTTPS
	}
	return a
}

// remember sets the cookie that binds a sign-in to the browser.
func (a *attempts) remember(w http.ResponseWriter, t attempt) error {
	value, err := a.encode(t)

	// A long issuer and subject leave no room for the page.
	if err != nil && t.Next != "" {
		t.Next = ""
		value, err = a.encode(t)
	}
	if err != nil {
		return err
	}

	a.set(w, value, int(t.Expires.Time().Sub(a.now())/time.Second))
	return nil
}

// encode returns the value of the cookie. It fails if a browser would not keep the cookie.
func (a *attempts) encode(t attempt) (string, error) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)

	// An escaped & would be six bytes.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(t); err != nil {
		return "", err
	}
	value, err := a.codec.Encode(a.name, content.Bytes())
	if err == nil && len(value) > maxAttempt {
		err = errors.New("the cookie of a sign-in is too long")
	}
	return value, err
}

// set sets the cookie. SameSite=Lax lets the browser send it when the provider leads back.
func (a *attempts) set(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: a.name, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: a.secure, SameSite: http.SameSiteLaxMode,
	})
}

// read returns the attempt of a browser. It reports false for a wrong, missing or expired cookie.
func (a *attempts) read(r *http.Request) (t attempt, ok bool) {
	cookie, err := r.Cookie(a.name)
	if err != nil {
		return t, false
	}

	var content []byte
	if a.codec.Decode(a.name, cookie.Value, &content) != nil || json.Unmarshal(content, &t) != nil {
		return t, false
	}
	return t, model.At(a.now()) < t.Expires
}

// ownPath returns a path of the console to return to; "" for anything else.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || len(next) > maxNext || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return ""
	}
	return next
}
