package auth

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// The rules of the throttles: how many attempts are free. A network is given more, because an office or a mobile operator is
// one. Of sign-ins and mailed secrets only the failed ones count. Sign-ups and requests for a password reset all do, since
// each makes an account or sends a mail. An invitation counts from when it is mailed until somebody accepts one.
const (
	accountFailures = 5
	networkFailures = 30
	accountSignUps  = 5
	networkSignUps  = 20
	accountResets   = 3
	networkResets   = 20
	accountInvites  = model.MaxMembers // a whole account can be invited at once
	longestDelay    = 15 * time.Minute
)

// limits are the counters that an attempt is held against.
//
// A stranger's attempt counts against the e-mail address and against the stranger's network: after 5 failures for one
// address, or 30 from one network, the next attempt must wait 1 s, then 2, 4 … up to 15 minutes. An attempt made during
// the wait is refused unchecked and does not lengthen it; a day without attempts forgets them.
//
// Somebody who keeps guessing could so keep everybody waiting, the owner as well. A browser that has signed in to this
// address before is therefore no stranger: it proves that with a signed cookie, and has one counter of its own that nobody
// else can raise. So an owner is never locked out there. On a new device the owner waits like everybody, 15 minutes at
// most, and then has to be quicker than the guesser.
func (a *Auth) limits(r *http.Request, address string) []db.SignInLimit {
	if device := a.devices.known(r, address); device != nil {
		return []db.SignInLimit{{
			Key: a.throttle.hash("device", device), Free: accountFailures, Cap: longestDelay, Clear: true,
		}}
	}
	return []db.SignInLimit{
		{Key: a.throttle.hash("account", []byte(address)), Free: accountFailures, Cap: longestDelay, Clear: true},
		{Key: a.throttle.hash("network", network(a.clientAddr(r))), Free: networkFailures, Cap: longestDelay},
	}
}

// signUpLimits hold attempts to sign up against the e-mail address and the network.
func (a *Auth) signUpLimits(r *http.Request, address string) []db.SignInLimit {
	return []db.SignInLimit{
		{Key: a.throttle.hash("sign-up address", []byte(address)), Free: accountSignUps, Cap: longestDelay},
		{Key: a.throttle.hash("sign-up network", network(a.clientAddr(r))), Free: networkSignUps, Cap: longestDelay},
	}
}

// resetLimits hold requests for a password reset, each of which sends a mail, against the e-mail address and the network.
// Nobody's sign-in waits for them.
func (a *Auth) resetLimits(r *http.Request, address string) []db.SignInLimit {
	return []db.SignInLimit{
		{Key: a.throttle.hash("reset address", []byte(address)), Free: accountResets, Cap: longestDelay},
		{Key: a.throttle.hash("reset network", network(a.clientAddr(r))), Free: networkResets, Cap: longestDelay},
	}
}

// secretLimits hold failed attempts to use a mailed secret against the network.
func (a *Auth) secretLimits(r *http.Request) []db.SignInLimit {
	return []db.SignInLimit{{Key: a.throttle.hash("secret network", network(a.clientAddr(r))), Free: networkFailures, Cap: longestDelay}}
}

// inviteLimits hold invitations that nobody has accepted, each of which sent a mail, against the account.
func (a *Auth) inviteLimits(accountID int64) []db.SignInLimit {
	id := strconv.AppendInt(nil, accountID, 10)
	return []db.SignInLimit{{Key: a.throttle.hash("invite account", id), Free: accountInvites, Cap: longestDelay}}
}

// count counts an attempt, or refuses it with the model.Error rate_limited.
func (a *Auth) count(ctx context.Context, limits []db.SignInLimit) error {
	wait, err := a.db.BeginSignIn(ctx, model.At(a.now()), limits...)
	if err == nil && wait > 0 {
		err = tooManyAttempts(wait)
	}
	return err
}

// takeBack takes counted attempts back, also when the caller has gone. It returns err with the database's own trouble.
func (a *Auth) takeBack(ctx context.Context, limits []db.SignInLimit, err error) error {
	return errors.Join(err, a.db.CancelSignIn(context.WithoutCancel(ctx), limits...))
}

// network is what one client can be assumed to have: an IPv4 address or an IPv6 network of 64 bits.
func network(addr netip.Addr) []byte {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(64); err == nil {
			addr = p.Addr()
		}
	}
	return addr.AsSlice()
}
