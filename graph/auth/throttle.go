package auth

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// The number of free attempts of each throttle. A network has more, because an office or a mobile
// operator is one network. Of sign-ins and mailed secrets only failed attempts count. All sign-ups,
// password reset requests and invitations count, since each sends a mail.
const (
	accountFailures = 5
	networkFailures = 30
	accountSignUps  = 5
	networkSignUps  = 20
	accountResets   = 3
	networkResets   = 20
	addressInvites  = 5
	userEmails      = 5 // changes of one user's address
	longestDelay    = 15 * time.Minute
)

// wideNetwork multiplies the free attempts of an IPv6 network of 64 bits for one of 48 bits. A
// provider may assign a customer either, or any size between.
const wideNetwork = 10

// throttle counts attempts in the database and makes clients wait after too many.
type throttle struct {
	accounts   *accounts.Store
	key        throttleKey
	clientAddr func(*http.Request) netip.Addr
	isShared   func(*http.Request) bool
	now        func() time.Time
}

// signInLimits returns the counters of an attempt to sign in.
//
// An attempt from an unknown device counts for the e-mail address and for the client's network.
// After 5 failures for one address, or 30 from one network, the next attempt must wait 1 s, then 2,
// 4 … up to 15 minutes. An attempt made during the wait is refused unchecked and does not extend
// it; a day without attempts resets the counters.
//
// An attacker who keeps guessing could thus lock out the owner. So a browser that has signed in to
// this address before, which it proves with a signed cookie, has a counter of its own that no other
// client can raise. On a new device the owner waits like any client, 15 minutes at most, and then
// competes with the attacker for the next attempt.
//
// A password change ends that: a browser that signed in with the old password is unknown.
func (t *throttle) signInLimits(r *http.Request, address string, device []byte) []accounts.SignInLimit {
	if device != nil {
		return []accounts.SignInLimit{{
			Key: t.key.hash("device", device), Free: accountFailures, Cap: longestDelay, Clear: true,
		}}
	}
	return append(
		t.networkLimits(r, "network", networkFailures),
		accounts.SignInLimit{
			Key: t.key.hash("account", []byte(address)), Free: accountFailures, Cap: longestDelay, Clear: true,
		},
	)
}

// resetLimits returns the counters of password reset requests, each of which sends a mail: by
// e-mail address and by network. They do not delay sign-ins.
func (t *throttle) resetLimits(r *http.Request, address string) []accounts.SignInLimit {
	return append(t.networkLimits(r, "reset network", networkResets),
		accounts.SignInLimit{Key: t.key.hash("reset address", []byte(address)), Free: accountResets, Cap: longestDelay})
}

// secretLimits returns the counters of failed attempts to use a mailed secret: by network.
func (t *throttle) secretLimits(r *http.Request) []accounts.SignInLimit {
	return t.networkLimits(r, "secret network", networkFailures)
}

// inviteLimits returns the counter of invitations, each of which sends a mail: by recipient, over
// all accounts. accounts.Invitations.Create limits the invitations of one account per day.
func (t *throttle) inviteLimits(address string) []accounts.SignInLimit {
	return []accounts.SignInLimit{
		{Key: t.key.hash("invite address", []byte(address)), Free: addressInvites, Cap: longestDelay},
	}
}

// emailLimits returns the counters of requests to change an address, by user, by new address and by
// network. Each request sends two mails.
func (t *throttle) emailLimits(r *http.Request, userID model.UserID, address string) []accounts.SignInLimit {
	user := strconv.AppendInt(nil, int64(userID), 10)
	return append(
		t.networkLimits(r, "email network", networkResets),
		accounts.SignInLimit{Key: t.key.hash("email user", user), Free: userEmails, Cap: longestDelay},
		accounts.SignInLimit{Key: t.key.hash("email address", []byte(address)), Free: accountResets, Cap: longestDelay},
	)
}

// signUpLimits returns the counters of attempts to sign up: by e-mail address and by network.
func (t *throttle) signUpLimits(r *http.Request, address string) []accounts.SignInLimit {
	return append(t.networkLimits(r, "sign-up network", networkSignUps),
		accounts.SignInLimit{Key: t.key.hash("sign-up address", []byte(address)), Free: accountSignUps, Cap: longestDelay})
}

// providerLimits returns the counters of sign-ins through providers by network. Each causes calls
// to a provider.
func (t *throttle) providerLimits(r *http.Request) []accounts.SignInLimit {
	return t.networkLimits(r, "provider network", networkFailures)
}

// secondFactorLimits returns the counter of failed second factors, which only callers with the
// right password raise: of a known device, else of the user. Callers whom the provider of an
// account has named have a counter of the account and the user.
func (t *throttle) secondFactorLimits(user *model.User, device []byte, accountID model.AccountID) []accounts.SignInLimit {
	id := binary.BigEndian.AppendUint64(nil, uint64(user.ID))
	key := t.key.hash("second factor", id)
	switch {
	case accountID != 0:
		key = t.key.hash("second factor provider", binary.BigEndian.AppendUint64(id, uint64(accountID)))
	case device != nil:
		key = t.key.hash("second factor device", device)
	}
	return []accounts.SignInLimit{{Key: key, Free: accountFailures, Cap: longestDelay, Clear: true}}
}

// count counts an attempt, or refuses it with the model.Error rate_limited.
func (t *throttle) count(ctx context.Context, limits []accounts.SignInLimit) error {
	wait, err := t.accounts.SignIns.Begin(ctx, model.At(t.now()), limits...)
	if err == nil && wait > 0 {
		err = tooManyAttempts(wait)
	}
	return err
}

// uncount removes a counted attempt, also after the client disconnected. It returns err, joined
// with an error of the database.
func (t *throttle) uncount(ctx context.Context, limits []accounts.SignInLimit, err error) error {
	return errors.Join(err, t.accounts.SignIns.Cancel(context.WithoutCancel(ctx), limits...))
}

// networkLimits returns the counters of the request's network for one use: one for an IPv4 address,
// two for an IPv6 address. An address that many clients share has none: one client would lock out
// all others.
func (t *throttle) networkLimits(r *http.Request, use string, free int) []accounts.SignInLimit {
	if t.isShared(r) {
		return nil
	}

	narrow, wide := networks(t.clientAddr(r))
	limits := []accounts.SignInLimit{{Key: t.key.hash(use, narrow), Free: free, Cap: longestDelay}}

	if wide != nil {
		limits = append(
			limits,
			accounts.SignInLimit{Key: t.key.hash(use+" /48", wide), Free: wideNetwork * free, Cap: longestDelay},
		)
	}

	return limits
}

// networks returns the networks that count a client's attempts: its IPv4 address, or its IPv6 /64
// and /48. wide is nil for IPv4. The bytes are part of stored keys.
func networks(addr netip.Addr) (narrow, wide []byte) {
	network := web.Network(addr, 32, 64).Addr()
	if network.Is6() {
		wide = web.Network(addr, 32, 48).Addr().AsSlice()
	}
	return network.AsSlice(), wide
}
