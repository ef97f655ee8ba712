// Package pow is the captcha's proof of work: it issues challenges and verifies their nonces. The
// captcha's config and verify endpoints call it. It is pure: the caller supplies keys, randomness
// and time, and must make sure that a challenge is used once (see Lifetime).
//
// A challenge hides 16 secret numbers, each below 2*difficulty/16, and contains a short hash of
// each. The browser finds them one after another by trying every number from 0, and returns one
// number derived from all of them, the nonce. The server derives the secrets from the challenge
// with a keyed function, so that it computes the nonce again instead of storing it. The layout:
//
//	body      = version u8 | key id u8 | k u8 | flags u8 | difficulty u32 | issued, Unix ms u64 |
//	            SHA-256(sitekey)[0:16] | random id [16]
//	salt      = base64url(id)
//	seed      = SHA-256(body | salt as text)           R = floor(2*difficulty / k)
//	p         = a | HMAC-SHA256(work key, a)           a = HMAC-SHA256(work key, body)
//	secret_i  = (u32(p[4i:4i+4]) * R) >> 32            0 <= i < k
//	H(i, n)   = SHA-256(u32(i) | u32(n) | seed)        target_i = H(i, secret_i)[0:6]
//	challenge = base64url(body | target_0 | … | target_(k-1) | HMAC-SHA256(MAC key, all before)[0:16])
//	nonce     = u64(SHA-256(seed | u32(secret_0) | … | u32(secret_(k-1)))[0:8]) >> 12
//
// Numbers are big-endian; k is 16, and base64url has no padding. Sixteen bounded searches make the
// total nearly the same for every visitor: the slowest hundredth has a third more work than the
// median. docs/contributor/adr/018-proof-of-work.md compares this with one threshold.
package pow

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// K is the number of searches in a challenge.
const K = 16

// Bounds of a challenge's difficulty, in expected hashes. The highest takes a desktop browser about
// 20 seconds.
const (
	MinDifficulty = K
	MaxDifficulty = 1 << 28
)

// MaxNonce is the highest nonce: 52 bits, so that JSON and JavaScript keep it exact.
const MaxNonce = 1<<52 - 1

// Lifetime is how long after its issue a challenge can be solved: enough for a slow phone that was
// put away for a while. The caller of Verify must store the ids of consumed challenges at least
// until Work.Expires.
const Lifetime = 10 * time.Minute

// maxSkew is how far the clock of the process that issued a challenge may run ahead of the one that
// verifies it.
const maxSkew = time.Minute

// The errors of Verify. Their texts are for logs, not for visitors.
var (
	ErrMalformed = errors.New("pow: malformed challenge")
	ErrForged    = errors.New("pow: the challenge was altered, or its key is not known")
	ErrSitekey   = errors.New("pow: the challenge belongs to another sitekey")
	ErrExpired   = errors.New("pow: the challenge has expired")
	ErrNonce     = errors.New("pow: wrong nonce")
)

// Challenge is the challenge that the browser gets (captcha contract, section 2).
type Challenge struct {
	// Challenge is opaque, 214 characters of [A-Za-z0-9_-].
	Challenge string `json:"challenge"`
	// Salt is 22 characters of [A-Za-z0-9_-], new for every challenge.
	Salt string `json:"salt"`
	// Difficulty is the expected number of hashes until the nonce is found. At most twice as many
	// are needed.
	Difficulty uint32 `json:"difficulty"`
}

// Work is a verified piece of work. All fields come from the signed challenge.
type Work struct {
	ID         [16]byte  // random, identifies the challenge
	Difficulty uint32    // in expected hashes
	Issued     time.Time // UTC, to the millisecond
	Expires    time.Time // last time at which Verify accepts it
}

// The layout of a decoded challenge, in bytes.
const (
	version    = 1
	bodySize   = 48
	targetSize = 6
	macSize    = 16
	maxSize    = bodySize + K*targetSize + macSize

	maxText  = (maxSize*8 + 5) / 6 // characters of a challenge
	saltSize = 22                  // characters of a salt
)

// The offsets of the body's fields.
const (
	atVersion    = 0
	atKeyID      = 1
	atK          = 2
	atFlags      = 3
	atDifficulty = 4
	atIssued     = 8
	atSitekey    = 16
	atID         = 32
)

// text is the encoding of challenges and salts. It is strict, so that a challenge has one text.
var text = base64.RawURLEncoding.Strict()

// decode decodes a challenge into buf and returns the bytes in use, or nil for a malformed
// challenge. It does not check the MAC.
func decode(challenge string, buf *[maxSize]byte) []byte {
	if len(challenge) > maxText {
		return nil
	}

	var written [maxText]byte
	n, err := text.Decode(buf[:], append(written[:0], challenge...))

	// The decoder skips line breaks, which the length reveals.
	if err != nil || n < bodySize || text.EncodedLen(n) != len(challenge) {
		return nil
	}

	k := int(buf[atK])
	if buf[atVersion] != version || buf[atFlags] != 0 || k < 1 || k > K || n != bodySize+k*targetSize+macSize {
		return nil
	}

	return buf[:n]
}

// ownerOf returns the hash of a sitekey that its challenges contain.
func ownerOf(sitekey string) [16]byte {
	var buf [64]byte
	sum := sha256.Sum256(append(buf[:0], sitekey...))
	return [16]byte(sum[:])
}

// saltOf returns the salt of a challenge's body.
func saltOf(body []byte) (salt [saltSize]byte) {
	text.Encode(salt[:], body[atID:bodySize])
	return salt
}

// seedOf returns the seed of all hashes of a challenge.
func seedOf(body []byte, salt []byte) [32]byte {
	var buf [bodySize + saltSize]byte
	return sha256.Sum256(append(append(buf[:0], body[:bodySize]...), salt...))
}

// search returns the number of candidates in each of k searches.
func search(difficulty uint32, k int) uint32 {
	return uint32(2 * uint64(difficulty) / uint64(k))
}

// hasher computes H(i, n) for one i and many n.
type hasher [40]byte

func newHasher(i int, seed *[32]byte) (h hasher) {
	binary.BigEndian.PutUint32(h[0:], uint32(i))
	copy(h[8:], seed[:])
	return h
}

// hash returns H(i, n).
func (h *hasher) hash(n uint32) [32]byte {
	binary.BigEndian.PutUint32(h[4:], n)
	return sha256.Sum256(h[:])
}

// fold derives the nonce from the secrets.
func fold(seed *[32]byte, secrets []uint32) uint64 {
	var buf [32 + 4*K]byte
	all := append(buf[:0], seed[:]...)
	for _, s := range secrets {
		all = binary.BigEndian.AppendUint32(all, s)
	}
	sum := sha256.Sum256(all)
	return binary.BigEndian.Uint64(sum[:8]) >> 12
}
