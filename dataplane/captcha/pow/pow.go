// Package pow is the captcha's work function: it issues challenges, and tells whether a nonce is
// the answer to one. It is pure: keys, randomness and time are given, nothing is stored. The
// captcha's config and verify endpoints call it; single use of a challenge is their matter (see
// Lifetime).
//
// A challenge hides 16 secret numbers, each below 2*difficulty/16, and gives a short hash of each.
// The browser finds them one after another by trying every number from 0, and returns one number
// made of all of them, the nonce. The server draws the secrets with a keyed function of the
// challenge, so that it computes the nonce again instead of remembering it. The layout:
//
//	body      = version u8 | key id u8 | k u8 | flags u8 | difficulty u32 | issued, Unix ms u64 | SHA-256(sitekey)[0:16] | random id [16]
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
// median. docs/captcha.md compares this with other shapes.
package pow

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// K is how many searches a challenge consists of.
const K = 16

// Bounds of a challenge's difficulty, in expected hashes. The highest takes a desktop browser about
// 20 seconds.
const (
	MinDifficulty = K
	MaxDifficulty = 1 << 28
)

// MaxNonce is the highest nonce: 52 bits, so that JSON and JavaScript keep it exact.
const MaxNonce = 1<<52 - 1

// Lifetime is how long after its issue a challenge may be answered: enough for a slow phone that
// was put away for a while. Whoever exchanges answers for tokens remembers the ids of used
// challenges at least until Work.Expires.
const Lifetime = 10 * time.Minute

// maxSkew is how far the clock of the process that issued a challenge may run ahead of the one that
// verifies it.
const maxSkew = time.Minute

// What Verify answers when a nonce does not count. The text is for logs, not for visitors.
var (
	ErrMalformed = errors.New("pow: malformed challenge")
	ErrForged    = errors.New("pow: the challenge was altered, or its key is gone")
	ErrSitekey   = errors.New("pow: the challenge belongs to another sitekey")
	ErrExpired   = errors.New("pow: the challenge has expired")
	ErrNonce     = errors.New("pow: wrong nonce")
)

// Challenge is what the browser gets (captcha contract, section 2).
type Challenge struct {
	// Challenge is opaque, 214 characters of [A-Za-z0-9_-].
	Challenge string `json:"challenge"`
	// Salt is 22 characters of [A-Za-z0-9_-], new for every challenge.
	Salt string `json:"salt"`
	// Difficulty is the expected number of hashes until the nonce is found; never more than twice
	// as many are needed.
	Difficulty uint32 `json:"difficulty"`
}

// Work is a verified piece of work. All of it comes from the signed challenge.
type Work struct {
	ID         [16]byte  // random, names the challenge
	Difficulty uint32    // in expected hashes
	Issued     time.Time // UTC, to the millisecond
	Expires    time.Time // the last moment at which Verify accepts it
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

// Where the fields of the body begin.
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

// text is how challenges and salts are written. Strict: there is one text for one challenge.
var text = base64.RawURLEncoding.Strict()

// decode reads a challenge into buf and returns the part that is used, or nothing if it cannot be
// one of ours. The MAC is not looked at.
func decode(challenge string, buf *[maxSize]byte) []byte {
	if len(challenge) > maxText {
		return nil
	}

	var written [maxText]byte
	n, err := text.Decode(buf[:], append(written[:0], challenge...))

	// The decoder skips line breaks, so the length says whether there were any.
	if err != nil || n < bodySize || text.EncodedLen(n) != len(challenge) {
		return nil
	}

	k := int(buf[atK])
	if buf[atVersion] != version || buf[atFlags] != 0 || k < 1 || k > K || n != bodySize+k*targetSize+macSize {
		return nil
	}

	return buf[:n]
}

// ownerOf is how a challenge names its sitekey.
func ownerOf(sitekey string) [16]byte {
	var buf [64]byte
	sum := sha256.Sum256(append(buf[:0], sitekey...))
	return [16]byte(sum[:])
}

// saltOf is the salt of a challenge's body.
func saltOf(body []byte) (salt [saltSize]byte) {
	text.Encode(salt[:], body[atID:bodySize])
	return salt
}

// seedOf is what all hashes of a challenge have in common.
func seedOf(body []byte, salt []byte) [32]byte {
	var buf [bodySize + saltSize]byte
	return sha256.Sum256(append(append(buf[:0], body[:bodySize]...), salt...))
}

// search is how many numbers each of k searches may have to try.
func search(difficulty uint32, k int) uint32 {
	return uint32(2 * uint64(difficulty) / uint64(k))
}

// tries computes H(i, n) for one i and many n.
type tries [40]byte

func newTries(i int, seed *[32]byte) (t tries) {
	binary.BigEndian.PutUint32(t[0:], uint32(i))
	copy(t[8:], seed[:])
	return t
}

func (t *tries) hash(n uint32) [32]byte {
	binary.BigEndian.PutUint32(t[4:], n)
	return sha256.Sum256(t[:])
}

// fold makes the nonce of the secrets.
func fold(seed *[32]byte, secrets []uint32) uint64 {
	var buf [32 + 4*K]byte
	all := append(buf[:0], seed[:]...)
	for _, s := range secrets {
		all = binary.BigEndian.AppendUint32(all, s)
	}
	sum := sha256.Sum256(all)
	return binary.BigEndian.Uint64(sum[:8]) >> 12
}
