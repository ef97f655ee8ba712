// Package token signs and reads captcha tokens, which the browser carries from the captcha to the
// site's own server (captcha contract, section 2). It is pure: keys and moments are given, and that
// a token is used once only is somebody else's matter.
//
// A token is base64url, without padding, of
//
//	version u8 | key id u8 | sitekey [8] | issued, Unix ms u64 | random id [16] | host name | HMAC-SHA256(key, all before)[0:16]
//
// Numbers are big-endian. The sitekey is named by a hash of its public text, see SitekeyOf, so that
// no token shows how many sitekeys an installation has. With the longest host name it has 404
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

// MaxHostname is the most bytes of a host name in a token; a longer one is left out.
const MaxHostname = 253

// Token is what a token says.
type Token struct {
	Sitekey  Sitekey   // whose it is
	Issued   time.Time // when the challenge was solved; UTC, to the millisecond
	ID       [16]byte  // random, names the token
	Hostname string    // the site the challenge was solved on; lower case, without port; empty when the browser did not tell
}

// Sitekey names a sitekey in a token.
type Sitekey [8]byte

// SitekeyOf returns how tokens name the sitekey with this public text.
func SitekeyOf(text string) Sitekey {
	sum := sha256.Sum256([]byte("captcha token sitekey " + text))
	return Sitekey(sum[:])
}

// Expired reports whether the token is too old at a moment, or from further in the future than
// clocks may differ.
func (t *Token) Expired(now time.Time) bool {
	age := now.Sub(t.Issued)
	return age >= Lifetime || age < -MaxSkew
}

// ErrInvalid says that a text is not a token of ours.
var ErrInvalid = errors.New("token: not a token, altered, or its key is gone")

// Key is what a keyring derives its keys from.
type Key struct {
	ID     uint8  // is written into each token
	Secret []byte // at least 16 bytes; the application's key may serve, as only derived keys are used
}

// Keyring signs with one key and accepts what any of its keys signed. It is safe for concurrent
// use.
type Keyring struct {
	current uint8
	benches [256]*sync.Pool // by key id
}

// bench is what one computation needs, kept for the next one: setting an HMAC up costs more than
// using it.
type bench struct {
	mac hash.Hash
	raw [maxSize]byte
	sum [sha256.Size]byte
	out [(maxSize*4 + 2) / 3]byte
}

// sign returns the MAC of a token without its MAC.
func (b *bench) sign(unsigned []byte) []byte {
	b.mac.Reset()
	b.mac.Write(unsigned)
	return b.mac.Sum(b.sum[:0])[:macSize]
}

// New makes a keyring. Tokens are signed with the current key; those of the previous keys are still
// accepted. A secret that is too short and an id that occurs twice are errors.
func New(current Key, previous ...Key) (*Keyring, error) {
	r := &Keyring{current: current.ID}
	for _, k := range append([]Key{current}, previous...) {
		if len(k.Secret) < 16 {
			return nil, fmt.Errorf("token: the secret of key %d has %d bytes, fewer than 16", k.ID, len(k.Secret))
		}
		if r.benches[k.ID] != nil {
			return nil, fmt.Errorf("token: two keys have the id %d", k.ID)
		}

		key := model.ApplicationKey(k.Secret).Derive(fmt.Sprintf("captcha token %d", k.ID))
		r.benches[k.ID] = &sync.Pool{New: func() any { return &bench{mac: hmac.New(sha256.New, key)} }}
	}

	return r, nil
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

// text is strict: there is one text for one token.
var text = base64.RawURLEncoding.Strict()

// Sign writes a token. Its moment is cut to milliseconds.
func (r *Keyring) Sign(t *Token) string {
	pool := r.benches[r.current]
	bench := pool.Get().(*bench)
	defer pool.Put(bench)

	b := append(bench.raw[:0], version, r.current)
	b = append(b, t.Sitekey[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(t.Issued.UnixMilli()))
	b = append(b, t.ID[:]...)

	if len(t.Hostname) <= MaxHostname {
		b = append(b, t.Hostname...)
	}

	b = append(b, bench.sign(b)...)
	out := bench.out[:text.EncodedLen(len(b))]
	text.Encode(out, b)

	return string(out)
}

// Read reads a token that one of the keys signed; everything else is ErrInvalid. It does not look
// at its age.
func (r *Keyring) Read(s string) (Token, error) {
	var buf [maxSize]byte

	if len(s) > text.EncodedLen(maxSize) {
		return Token{}, ErrInvalid
	}

	n, err := text.Decode(buf[:], []byte(s))

	// The decoder skips line breaks, so the length says whether there were any.
	if err != nil || n < atHostname+macSize || text.EncodedLen(n) != len(s) || buf[0] != version {
		return Token{}, ErrInvalid
	}

	pool := r.benches[buf[atKeyID]]
	if pool == nil {
		return Token{}, ErrInvalid
	}

	bench := pool.Get().(*bench)
	defer pool.Put(bench)

	signed := bench.raw[:copy(bench.raw[:], buf[:n-macSize])]
	if !hmac.Equal(bench.sign(signed), buf[n-macSize:n]) {
		return Token{}, ErrInvalid
	}

	return Token{
		Sitekey:  Sitekey(signed[atSitekey:]),
		Issued:   time.UnixMilli(int64(binary.BigEndian.Uint64(signed[atIssued:]))).UTC(),
		ID:       [16]byte(signed[atID:]),
		Hostname: string(signed[atHostname:]),
	}, nil
}
