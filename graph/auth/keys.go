package auth

import (
	"crypto/hmac"
	"crypto/sha256"

	"github.com/gorilla/securecookie"

	"github.com/tallygate/tallygate/db/model"
)

// The uses for which keys are derived from the application key.
const (
	useSessions = "tallygate session cookie"
	useDevices  = "tallygate device cookie"
	useThrottle = "tallygate sign-in throttle"
	useViewers  = "tallygate viewer token"

	useChallenges = "tallygate passkey challenge"
	useProviders  = "tallygate provider sign-in"
)

// cookieSigner signs cookies, viewer tokens and challenges with one application key and accepts the
// signatures of two during a rotation. Signatures do not expire: a session's row does, and the
// others have an age of their own.
type cookieSigner struct {
	current, previous *securecookie.SecureCookie // previous is nil without a rotation
	rotation          *model.KeyRotation
}

func newCookieSigner(key model.ApplicationKey, rotation *model.KeyRotation, use string) *cookieSigner {
	s := &cookieSigner{current: newCodec(key.Derive(use)), rotation: rotation}
	if rotation != nil {
		s.previous = newCodec(rotation.Previous.Derive(use))
	}
	return s
}

func newCodec(key []byte) *securecookie.SecureCookie {
	return securecookie.New(key, nil).SetSerializer(securecookie.NopEncoder{}).MaxAge(0)
}

// Encode signs a value.
func (s *cookieSigner) Encode(name string, value []byte) (string, error) {
	if s.rotation.SignsWithPrevious() {
		return s.previous.Encode(name, value)
	}
	return s.current.Encode(name, value)
}

// Decode reads a signed value. It returns an error if neither key signed it.
func (s *cookieSigner) Decode(name, text string, value *[]byte) error {
	err := s.current.Decode(name, text, value)
	if err != nil && s.previous != nil {
		err = s.previous.Decode(name, text, value)
	}
	return err
}

// throttleKey is the key that hashes the addresses and networks of attempts, so the table of
// counters does not reveal them. A rotation of the application key resets all counters once.
type throttleKey struct {
	current, previous []byte
	rotation          *model.KeyRotation
}

func newThrottleKey(key model.ApplicationKey, rotation *model.KeyRotation) throttleKey {
	k := throttleKey{current: key.Derive(useThrottle), rotation: rotation}
	if rotation != nil {
		k.previous = rotation.Previous.Derive(useThrottle)
	}
	return k
}

func (k throttleKey) hash(kind string, what []byte) []byte {
	key := k.current
	if k.rotation.SignsWithPrevious() {
		key = k.previous
	}

	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write(what)

	return mac.Sum(nil)
}
