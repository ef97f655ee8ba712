package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/db"
)

// The two rules of the sign-in throttle. A network is given more, because an office or a mobile operator is one.
const (
	accountFailures = 5
	networkFailures = 30
	longestDelay    = 15 * time.Minute
)

// throttleKey is the key under which tried addresses and networks are hashed, so that the table of failures tells nobody
// who tried to sign in or from where.
type throttleKey []byte

func (k throttleKey) hash(kind string, what []byte) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(what)
	return mac.Sum(nil)
}

// limits are the counters that an attempt is held against.
//
// A stranger's attempt counts against the e-mail address and against the stranger's network: after 5 failures for one
// address, or 30 from one network, the next attempt must wait 1 s, then 2, 4 … up to 15 minutes. An attempt made during
// the wait is refused unchecked and does not lengthen it; a day without failures forgets them.
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
