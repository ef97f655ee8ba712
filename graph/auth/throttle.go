package auth

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
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

// limits returns the counters of an attempt to sign in.
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
func (a *Auth) limits(r *http.Request, address string, device []byte) []accounts.SignInLimit {
	if device != nil {
		return []accounts.SignInLimit{{
			Key: a.throttle.hash("device", device), Free: accountFailures, Cap: longestDelay, Clear: true,
		}}
	}
	return append(
		a.networkLimits(r, "network", networkFailures),
		accounts.SignInLimit{
			Key: a.throttle.hash("account", []byte(address)), Free: accountFailures, Cap: longestDelay, Clear: true,
		},
	)
}

// knownDevice returns the identity of a browser that has signed in to this address with the current
// password, or nil. It reads the user only for a browser with a cookie for this address.
func (a *Auth) knownDevice(ctx context.Context, r *http.Request, address string) ([]byte, error) {
	device, generation := a.devices.read(r, address)
	if device == nil {
		return nil, nil
	}

	user, err := a.accounts.UserByEmail(ctx, address)
	switch {
	case model.KindOf(err) == model.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case user.PasswordGeneration != generation:
		return nil, nil
	}

	return device, nil
}

// resetLimits returns the counters of password reset requests, each of which sends a mail: by
// e-mail address and by network. They do not delay sign-ins.
func (a *Auth) resetLimits(r *http.Request, address string) []accounts.SignInLimit {
	return append(a.networkLimits(r, "reset network", networkResets),
		accounts.SignInLimit{Key: a.throttle.hash("reset address", []byte(address)), Free: accountResets, Cap: longestDelay})
}

// secretLimits returns the counters of failed attempts to use a mailed secret: by network.
func (a *Auth) secretLimits(r *http.Request) []accounts.SignInLimit {
	return a.networkLimits(r, "secret network", networkFailures)
}

// inviteLimits returns the counter of invitations, each of which sends a mail: by recipient, over
// all accounts. accounts.Store.Invite limits the invitations of one account per day.
func (a *Auth) inviteLimits(address string) []accounts.SignInLimit {
	return []accounts.SignInLimit{
		{Key: a.throttle.hash("invite address", []byte(address)), Free: addressInvites, Cap: longestDelay},
	}
}

// admit reserves a place to hash a password and counts the attempt. The caller returns the place
// with release. known means that the request comes from a known device. It fails with the
// model.Errors unavailable and rate_limited, which write nothing.
func (a *Auth) admit(ctx context.Context, known bool, limits []accounts.SignInLimit) (release func(), err error) {
	release, err = a.hasher.reserve(known)
	if err != nil {
		return nil, err
	}

	if err := a.count(ctx, limits); err != nil {
		release()
		return nil, err
	}

	return release, nil
}

// count counts an attempt, or refuses it with the model.Error rate_limited.
func (a *Auth) count(ctx context.Context, limits []accounts.SignInLimit) error {
	wait, err := a.accounts.BeginSignIn(ctx, model.At(a.now()), limits...)
	if err == nil && wait > 0 {
		err = tooManyAttempts(wait)
	}
	return err
}

// uncount removes a counted attempt, also after the client disconnected. It returns err, joined
// with an error of the database.
func (a *Auth) uncount(ctx context.Context, limits []accounts.SignInLimit, err error) error {
	return errors.Join(err, a.accounts.CancelSignIn(context.WithoutCancel(ctx), limits...))
}

// networkLimits returns the counters of the request's network for one use: one for an IPv4 address,
// two for an IPv6 address. An address that many clients share has none: one client would lock out
// all others.
func (a *Auth) networkLimits(r *http.Request, use string, free int) []accounts.SignInLimit {
	if a.isShared(r) {
		return nil
	}

	narrow, wide := networks(a.clientAddr(r))
	limits := []accounts.SignInLimit{{Key: a.throttle.hash(use, narrow), Free: free, Cap: longestDelay}}

	if wide != nil {
		limits = append(
			limits,
			accounts.SignInLimit{Key: a.throttle.hash(use+" /48", wide), Free: wideNetwork * free, Cap: longestDelay},
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
