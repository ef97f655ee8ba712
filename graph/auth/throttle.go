package auth

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// The rules of the throttles: how many attempts are free. A network is given more, because an
// office or a mobile operator is one. Of sign-ins and mailed secrets only the failed ones count.
// Sign-ups, requests for a password reset and invitations all do, since each sends a mail.
const (
	accountFailures = 5
	networkFailures = 30
	accountSignUps  = 5
	networkSignUps  = 20
	accountResets   = 3
	networkResets   = 20
	addressInvites  = 5
	longestDelay    = 15 * time.Minute
)

// wideNetwork is how many times the free attempts of an IPv6 network of 64 bits those of one of 48
// bits are. A provider may give a customer either, or anything between.
const wideNetwork = 10

// limits are the counters that an attempt is held against.
//
// A stranger's attempt counts against the e-mail address and against the stranger's network: after
// 5 failures for one address, or 30 from one network, the next attempt must wait 1 s, then 2, 4 …
// up to 15 minutes. An attempt made during the wait is refused unchecked and does not lengthen it;
// a day without attempts forgets them.
//
// Somebody who keeps guessing could so keep everybody waiting, the owner as well. A browser that
// has signed in to this address before is therefore no stranger: it proves that with a signed
// cookie, and has one counter of its own that nobody else can raise. So an owner is never locked
// out there. On a new device the owner waits like everybody, 15 minutes at most, and then has to be
// quicker than the guesser.
//
// A change of the password ends that: a browser that signed in with the old one counts as a
// stranger.
func (a *Auth) limits(r *http.Request, address string, device []byte) []accounts.SignInLimit {
	if device != nil {
		return []accounts.SignInLimit{{
			Key: a.throttle.hash("device", device), Free: accountFailures, Cap: longestDelay, Clear: true,
		}}
	}
	return append(a.networkLimits(r, "network", networkFailures),
		accounts.SignInLimit{Key: a.throttle.hash("account", []byte(address)), Free: accountFailures, Cap: longestDelay, Clear: true})
}

// knownDevice returns the identity of a browser that has signed in to this address with the
// password of now, or nil. The user is read only for a browser that has signed in to the address
// before.
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

// resetLimits hold requests for a password reset, each of which sends a mail, against the e-mail
// address and the network. Nobody's sign-in waits for them.
func (a *Auth) resetLimits(r *http.Request, address string) []accounts.SignInLimit {
	return append(a.networkLimits(r, "reset network", networkResets),
		accounts.SignInLimit{Key: a.throttle.hash("reset address", []byte(address)), Free: accountResets, Cap: longestDelay})
}

// secretLimits hold failed attempts to use a mailed secret against the network.
func (a *Auth) secretLimits(r *http.Request) []accounts.SignInLimit {
	return a.networkLimits(r, "secret network", networkFailures)
}

// inviteLimits hold invitations, each of which sends a mail, against the e-mail address that they
// go to, of all accounts. What one account sends in a day is bounded by db.Invite.
func (a *Auth) inviteLimits(address string) []accounts.SignInLimit {
	return []accounts.SignInLimit{{Key: a.throttle.hash("invite address", []byte(address)), Free: addressInvites, Cap: longestDelay}}
}

// admit reserves a place to hash a password and counts the attempt. The caller gives the place back
// with leave. It fails with the model.Errors unavailable and rate_limited; both write nothing.
// known says that a known device asks.
func (a *Auth) admit(ctx context.Context, known bool, limits []accounts.SignInLimit) (leave func(), err error) {
	leave, err = a.passwords.enter(known)
	if err != nil {
		return nil, err
	}

	if err := a.count(ctx, limits); err != nil {
		leave()
		return nil, err
	}

	return leave, nil
}

// count counts an attempt, or refuses it with the model.Error rate_limited.
func (a *Auth) count(ctx context.Context, limits []accounts.SignInLimit) error {
	wait, err := a.accounts.BeginSignIn(ctx, model.At(a.now()), limits...)
	if err == nil && wait > 0 {
		err = tooManyAttempts(wait)
	}
	return err
}

// takeBack takes counted attempts back, also when the caller has gone. It returns err with the
// database's own trouble.
func (a *Auth) takeBack(ctx context.Context, limits []accounts.SignInLimit, err error) error {
	return errors.Join(err, a.accounts.CancelSignIn(context.WithoutCancel(ctx), limits...))
}

// networkLimits are the counters of the request's network for one use: one of an IPv4 address, and
// two of an IPv6 address. There are none for an address that many clients share: one of them would
// lock out all others.
func (a *Auth) networkLimits(r *http.Request, use string, free int) []accounts.SignInLimit {
	if a.isShared(r) {
		return nil
	}

	narrow, wide := networks(a.clientAddr(r))
	limits := []accounts.SignInLimit{{Key: a.throttle.hash(use, narrow), Free: free, Cap: longestDelay}}

	if wide != nil {
		limits = append(limits, accounts.SignInLimit{Key: a.throttle.hash(use+" /48", wide), Free: wideNetwork * free, Cap: longestDelay})
	}

	return limits
}

// networks are what one client can be assumed to have: an IPv4 address, or an IPv6 network of 64
// bits in a wide one of 48 bits. wide is nil for IPv4.
func networks(addr netip.Addr) (narrow, wide []byte) {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr.AsSlice(), nil
	}
	prefix := func(bits int) []byte { return netip.PrefixFrom(addr, bits).Masked().Addr().AsSlice() }
	return prefix(64), prefix(48)
}
