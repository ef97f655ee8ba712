package pow

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Key is a secret from which an issuer derives its keys. Two processes with the same key accept
// each other's challenges.
type Key struct {
	ID     uint8  // part of each challenge
	Secret []byte // at least 16 bytes; the application key is fine, since only derived keys are used
}

// Issuer issues challenges with one key, and verifies their solutions. It is safe for concurrent
// use.
type Issuer struct {
	random    io.Reader
	keyID     uint8
	scratches sync.Pool // since setting up an HMAC costs more than using it
}

// New returns the issuer of a key. The random ids come from random, which must never fail and must
// be safe for concurrent use, such as crypto/rand.Reader. New returns an error for a secret that is
// too short.
func New(random io.Reader, k Key) (*Issuer, error) {
	if len(k.Secret) < 16 {
		return nil, fmt.Errorf("pow: the secret of key %d has %d bytes, fewer than 16", k.ID, len(k.Secret))
	}

	secret := model.ApplicationKey(k.Secret)
	work := secret.Derive(fmt.Sprintf("captcha challenge work %d", k.ID))
	mac := secret.Derive(fmt.Sprintf("captcha challenge mac %d", k.ID))

	issuer := &Issuer{random: random, keyID: k.ID}
	issuer.scratches.New = func() any {
		return &scratch{work: hmac.New(sha256.New, work), mac: hmac.New(sha256.New, mac)}
	}
	return issuer, nil
}

// scratch is the state of one computation. Its HMACs have different keys, so that the public
// targets reveal nothing about the work.
type scratch struct {
	work, mac hash.Hash
	challenge [maxSize]byte
	sum       [2 * sha256.Size]byte
}

// secrets derives the numbers that the browser must find.
func (s *scratch) secrets(body []byte, out *[K]uint32) []uint32 {
	p := sum(s.work, body[:bodySize], s.sum[:0])
	p = sum(s.work, p, p)
	k := int(body[atK])
	r := uint64(search(binary.BigEndian.Uint32(body[atDifficulty:]), k))
	for i := range k {
		out[i] = uint32(uint64(binary.BigEndian.Uint32(p[4*i:])) * r >> 32)
	}

	return out[:k]
}

// sign returns the MAC of a challenge without its MAC.
func (s *scratch) sign(unsigned []byte) []byte {
	return sum(s.mac, unsigned, s.sum[:0])[:macSize]
}

// sum appends the HMAC of some bytes to others.
func sum(h hash.Hash, of, to []byte) []byte {
	h.Reset()
	h.Write(of)
	return h.Sum(to)
}

// Issue returns a new challenge for a sitekey. The difficulty is clamped to MinDifficulty and
// MaxDifficulty.
func (issuer *Issuer) Issue(sitekey string, difficulty uint32, now time.Time) Challenge {
	return issuer.issue(sitekey, min(max(difficulty, MinDifficulty), MaxDifficulty), K, now)
}

// issue is Issue with any number of searches up to K.
func (issuer *Issuer) issue(sitekey string, difficulty uint32, k int, now time.Time) Challenge {
	s := issuer.scratches.Get().(*scratch)
	defer issuer.scratches.Put(s)

	body := s.challenge[:bodySize]
	body[atVersion], body[atKeyID], body[atK], body[atFlags] = version, issuer.keyID, byte(k), 0
	binary.BigEndian.PutUint32(body[atDifficulty:], difficulty)
	binary.BigEndian.PutUint64(body[atIssued:], uint64(now.UnixMilli()))
	owner := ownerOf(sitekey)
	copy(body[atSitekey:], owner[:])

	if _, err := io.ReadFull(issuer.random, body[atID:]); err != nil {
		panic("pow: no random numbers: " + err.Error())
	}

	salt := saltOf(body)
	seed := seedOf(body, salt[:])
	var buf [K]uint32

	all := body
	for i, secret := range s.secrets(body, &buf) {
		h := newHasher(i, &seed)
		target := h.hash(secret)
		all = append(all, target[:targetSize]...)
	}

	all = append(all, s.sign(all)...)
	var written [maxText]byte
	return Challenge{Challenge: string(text.AppendEncode(written[:0], all)), Salt: string(salt[:]), Difficulty: difficulty}
}

// Verify checks that nonce solves a challenge that was issued with the key for the sitekey, and
// that the challenge has not expired. Otherwise it returns, checked in this order, ErrMalformed,
// ErrForged, ErrSitekey, ErrExpired or ErrNonce. The challenge may be any text. Verify accepts a
// nonce any number of times.
func (issuer *Issuer) Verify(sitekey, challenge string, nonce uint64, now time.Time) (Work, error) {
	var buf [maxSize]byte
	decoded := decode(challenge, &buf)
	if decoded == nil {
		return Work{}, ErrMalformed
	}

	s := issuer.scratches.Get().(*scratch)
	defer issuer.scratches.Put(s)

	// The HMAC reads from the pooled scratch, because its input would escape to the heap.
	all := append(s.challenge[:0], decoded...)
	unsigned := len(all) - macSize
	if all[atKeyID] != issuer.keyID || !hmac.Equal(all[unsigned:], s.sign(all[:unsigned])) {
		return Work{}, ErrForged
	}

	body := all[:bodySize]
	if [16]byte(body[atSitekey:atID]) != ownerOf(sitekey) {
		return Work{}, ErrSitekey
	}

	w := workOf(body)
	if now.After(w.Expires) || now.Before(w.Issued.Add(-maxSkew)) {
		return Work{}, ErrExpired
	}
	if nonce != s.nonce(body) {
		return Work{}, ErrNonce
	}

	return w, nil
}

// nonce computes the nonce of a challenge.
func (s *scratch) nonce(body []byte) uint64 {
	salt := saltOf(body)
	seed := seedOf(body, salt[:])
	var buf [K]uint32
	return fold(&seed, s.secrets(body, &buf))
}

// workOf returns the work of a verified challenge.
func workOf(body []byte) Work {
	issued := time.UnixMilli(int64(binary.BigEndian.Uint64(body[atIssued:]))).UTC()
	return Work{
		ID:         [16]byte(body[atID:]),
		Difficulty: binary.BigEndian.Uint32(body[atDifficulty:]),
		Issued:     issued,
		Expires:    issued.Add(Lifetime),
	}
}
