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

// Key is what a keyring derives its keys from. Two processes with the same keys accept each other's
// challenges.
type Key struct {
	ID     uint8  // is written into each challenge
	Secret []byte // at least 16 bytes; the application's key may serve, as only derived keys are used
}

// Keyring issues challenges with one key and accepts those of all its keys. It is safe for
// concurrent use.
type Keyring struct {
	random  io.Reader
	current *key
	all     [256]*key // by id
}

// New makes a keyring. Challenges are issued with the current key; those of the previous keys are
// still accepted, so that after a change of keys nobody's work is lost. All processes have to know
// a key before one of them issues with it.
//
// The random ids come from random, which must never fail: crypto/rand.Reader, or a fixed source in
// tests; it is read by several goroutines at once. A secret that is too short and an id that occurs
// twice are errors.
func New(random io.Reader, current Key, previous ...Key) (*Keyring, error) {
	r := &Keyring{random: random}
	for _, k := range append([]Key{current}, previous...) {
		if len(k.Secret) < 16 {
			return nil, fmt.Errorf("pow: the secret of key %d has %d bytes, fewer than 16", k.ID, len(k.Secret))
		}
		if r.all[k.ID] != nil {
			return nil, fmt.Errorf("pow: two keys have the id %d", k.ID)
		}

		r.all[k.ID] = derive(k)
	}

	r.current = r.all[current.ID]
	return r, nil
}

// key is a derived key. What it needs for one computation is kept for the next one: setting up an
// HMAC costs more than using it.
type key struct {
	id      uint8
	benches sync.Pool
}

// bench is what one computation needs. Its HMACs work with different keys: targets, which are
// public, say nothing about the work.
type bench struct {
	work, mac hash.Hash
	challenge [maxSize]byte
	sum       [2 * sha256.Size]byte
}

func derive(k Key) *key {
	secret := model.ApplicationKey(k.Secret)
	work := secret.Derive(fmt.Sprintf("captcha challenge work %d", k.ID))
	mac := secret.Derive(fmt.Sprintf("captcha challenge mac %d", k.ID))

	d := &key{id: k.ID}
	d.benches.New = func() any {
		return &bench{work: hmac.New(sha256.New, work), mac: hmac.New(sha256.New, mac)}
	}

	return d
}

// secrets draws the numbers that the browser has to find.
func (b *bench) secrets(body []byte, out *[K]uint32) []uint32 {
	p := sum(b.work, body[:bodySize], b.sum[:0])
	p = sum(b.work, p, p)
	k := int(body[atK])
	r := uint64(search(binary.BigEndian.Uint32(body[atDifficulty:]), k))
	for i := range k {
		out[i] = uint32(uint64(binary.BigEndian.Uint32(p[4*i:])) * r >> 32)
	}

	return out[:k]
}

// sign returns the MAC of a challenge without its MAC.
func (b *bench) sign(unsigned []byte) []byte {
	return sum(b.mac, unsigned, b.sum[:0])[:macSize]
}

// sum appends an HMAC of some bytes to others.
func sum(h hash.Hash, of, to []byte) []byte {
	h.Reset()
	h.Write(of)
	return h.Sum(to)
}

// Issue makes a new challenge for a sitekey. A difficulty out of bounds (MinDifficulty,
// MaxDifficulty) is moved to the nearest one.
func (r *Keyring) Issue(sitekey string, difficulty uint32, now time.Time) Challenge {
	return r.issue(sitekey, min(max(difficulty, MinDifficulty), MaxDifficulty), K, now)
}

func (r *Keyring) issue(sitekey string, difficulty uint32, k int, now time.Time) Challenge {
	b := r.current.benches.Get().(*bench)
	defer r.current.benches.Put(b)

	body := b.challenge[:bodySize]
	body[atVersion], body[atKeyID], body[atK], body[atFlags] = version, r.current.id, byte(k), 0
	binary.BigEndian.PutUint32(body[atDifficulty:], difficulty)
	binary.BigEndian.PutUint64(body[atIssued:], uint64(now.UnixMilli()))
	owner := ownerOf(sitekey)
	copy(body[atSitekey:], owner[:])

	if _, err := io.ReadFull(r.random, body[atID:]); err != nil {
		panic("pow: no random numbers: " + err.Error())
	}

	salt := saltOf(body)
	seed := seedOf(body, salt[:])
	var buf [K]uint32

	all := body
	for i, secret := range b.secrets(body, &buf) {
		t := newTries(i, &seed)
		h := t.hash(secret)
		all = append(all, h[:targetSize]...)
	}

	all = append(all, b.sign(all)...)
	var written [maxText]byte
	return Challenge{Challenge: string(text.AppendEncode(written[:0], all)), Salt: string(salt[:]), Difficulty: difficulty}
}

// Verify says whether nonce is the answer to a challenge that this keyring issued for the sitekey,
// and still in time. Otherwise the error is, in this order, ErrMalformed, ErrForged, ErrSitekey,
// ErrExpired or ErrNonce, and the work is empty. The challenge may be any text. Verify accepts the
// same answer again and again.
func (r *Keyring) Verify(sitekey, challenge string, nonce uint64, now time.Time) (Work, error) {
	var buf [maxSize]byte
	decoded := decode(challenge, &buf)
	if decoded == nil {
		return Work{}, ErrMalformed
	}

	key := r.all[decoded[atKeyID]]
	if key == nil {
		return Work{}, ErrForged
	}

	b := key.benches.Get().(*bench)
	defer key.benches.Put(b)

	// what an HMAC reads cannot be on the stack
	all := append(b.challenge[:0], decoded...)
	unsigned := len(all) - macSize
	if !hmac.Equal(all[unsigned:], b.sign(all[:unsigned])) {
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
	if nonce != b.nonce(body) {
		return Work{}, ErrNonce
	}

	return w, nil
}

// nonce computes the answer.
func (b *bench) nonce(body []byte) uint64 {
	salt := saltOf(body)
	seed := seedOf(body, salt[:])
	var buf [K]uint32
	return fold(&seed, b.secrets(body, &buf))
}

func workOf(body []byte) Work {
	issued := time.UnixMilli(int64(binary.BigEndian.Uint64(body[atIssued:]))).UTC()
	return Work{
		ID:         [16]byte(body[atID:]),
		Difficulty: binary.BigEndian.Uint32(body[atDifficulty:]),
		Issued:     issued,
		Expires:    issued.Add(Lifetime),
	}
}
