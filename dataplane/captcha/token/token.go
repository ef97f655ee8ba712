// Package token signs and reads captcha tokens, which the browser carries from the captcha to the
// site's own server (captcha contract, section 2). The captcha's endpoints call it. It is pure: the
// caller supplies keys and times, and makes sure that a token is consumed only once.
//
// A token is, in base64url without padding,
//
//	version u8 | key id u8 | sitekey [8] | issued, Unix ms u64 | random id [16] | host name |
//	HMAC-SHA256(key, all before)[0:16]
//
// Numbers are big-endian. The sitekey is a hash of its public text (see SitekeyOf), so that no
// token reveals how many sitekeys an installation has. With the longest host name a token has 404
// characters of [A-Za-z0-9_-], so that it needs no escaping anywhere.
package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Lifetime is how long after its issue a token is accepted (captcha contract, section 8).
const Lifetime = 5 * time.Minute

// MaxSkew is how far the clock of the process that issued a token may run ahead of the one that
// reads it.
const MaxSkew = time.Minute

// MaxHostname is the longest host name in a token, in bytes. Longer ones are left out.
const MaxHostname = 253

// Token is the content of a token.
type Token struct {
	Sitekey  Sitekey   // of the challenge
	Issued   time.Time // when the challenge was solved; UTC, to the millisecond
	ID       [16]byte  // random, identifies the token
	Hostname string    // of the challenge's page: lower case, no port; empty if the browser did not send it
}

// Sitekey identifies a sitekey in a token.
type Sitekey [8]byte

// SitekeyOf returns the identifier of the sitekey with a public text.
func SitekeyOf(text string) Sitekey {
	sum := sha256.Sum256([]byte("captcha token sitekey " + text))
	return Sitekey(sum[:])
}

// Expired reports whether the token is too old, or issued further in the future than MaxSkew.
func (t *Token) Expired(now time.Time) bool {
	age := now.Sub(t.Issued)
	return age >= Lifetime || age < -MaxSkew
}

// ErrInvalid is returned for a text that is not a token of the key.
var ErrInvalid = errors.New("token: not a token, altered, or signed with another key")

// Key is a secret from which a signer derives its key.
type Key struct {
	ID     uint8  // part of each token
	Secret []byte // at least 16 bytes; the application key is fine, since only derived keys are used
}

// Signer signs tokens with one key, and reads them. It is safe for concurrent use.
type Signer struct {
	keyID     uint8
	scratches sync.Pool
}

// scratch is the state of one computation. It is pooled, since setting up an HMAC costs more than
// using it.
type scratch struct {
	mac hash.Hash
	raw [maxSize]byte
	sum [sha256.Size]byte
	out [(maxSize*4 + 2) / 3]byte
}

// sign returns the MAC of a token without its MAC.
func (s *scratch) sign(unsigned []byte) []byte {
	s.mac.Reset()
	s.mac.Write(unsigned)
	return s.mac.Sum(s.sum[:0])[:macSize]
}

// New returns the signer of a key. It returns an error for a secret that is too short.
func New(k Key) (*Signer, error) {
	if len(k.Secret) < 16 {
		return nil, fmt.Errorf("token: the secret of key %d has %d bytes, fewer than 16", k.ID, len(k.Secret))
	}

	key := model.ApplicationKey(k.Secret).Derive(fmt.Sprintf("captcha token %d", k.ID))
	signer := &Signer{keyID: k.ID}
	signer.scratches.New = func() any { return &scratch{mac: hmac.New(sha256.New, key)} }
	return signer, nil
}

// The layout in bytes.
const (
	version    = 2
	atKeyID    = 1
	atSitekey  = 2
	atIssued   = 10
	atID       = 18
	atHostname = 34
	macSize    = 16
	maxSize    = atHostname + MaxHostname + macSize
)

// text is the encoding of tokens. It is strict, so that a token has one text.
var text = base64.RawURLEncoding.Strict()

// Sign returns the text of a token. Its time is truncated to milliseconds.
func (signer *Signer) Sign(t *Token) string {
	s := signer.scratches.Get().(*scratch)
	defer signer.scratches.Put(s)

	b := append(s.raw[:0], version, signer.keyID)
	b = append(b, t.Sitekey[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(t.Issued.UnixMilli()))
	b = append(b, t.ID[:]...)

	if len(t.Hostname) <= MaxHostname {
		b = append(b, t.Hostname...)
	}

	b = append(b, s.sign(b)...)
	out := s.out[:text.EncodedLen(len(b))]
	text.Encode(out, b)

	return string(out)
}

// Read returns the token of a text that was signed with the key, or ErrInvalid. It does not check
// the token's age.
func (signer *Signer) Read(signed string) (Token, error) {
	var buf [maxSize]byte

	if len(signed) > text.EncodedLen(maxSize) {
		return Token{}, ErrInvalid
	}

	n, err := text.Decode(buf[:], []byte(signed))

	// The decoder skips line breaks, which the length reveals.
	if err != nil || n < atHostname+macSize || text.EncodedLen(n) != len(signed) || buf[0] != version ||
		buf[atKeyID] != signer.keyID {
		return Token{}, ErrInvalid
	}

	s := signer.scratches.Get().(*scratch)
	defer signer.scratches.Put(s)

	b := s.raw[:copy(s.raw[:], buf[:n-macSize])]
	if !hmac.Equal(s.sign(b), buf[n-macSize:n]) {
		return Token{}, ErrInvalid
	}

	return Token{
		Sitekey:  Sitekey(b[atSitekey:]),
		Issued:   time.UnixMilli(int64(binary.BigEndian.Uint64(b[atIssued:]))).UTC(),
		ID:       [16]byte(b[atID:]),
		Hostname: string(b[atHostname:]),
	}, nil
}
