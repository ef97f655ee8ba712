package auth

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/tallygate/tallygate/db/model"
)

// cost is what one password check takes: 19 MiB and two passes, the floor that OWASP's password
// storage guide gives for argon2id. Raising it is safe: older hashes are renewed at the next
// sign-in.
var cost = argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// NoPassword takes the place of a password's hash for a user who has not chosen one: no password
// fits it.
var NoPassword = noPassword(cost)

func noPassword(cost argon2id.Params) string {
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", cost.Memory, cost.Iterations, cost.Parallelism,
		encode(make([]byte, cost.SaltLength)), encode(make([]byte, cost.KeyLength)))
}

// The bounds of waiting for a turn to hash. A hash takes 20 to 50 ms, so that the last of a full
// queue has its turn within hashWait on any processor.
const (
	hashWait  = 5 * time.Second
	hashQueue = 32 // callers who wait for each turn, and as many known devices
)

// passwords hashes and checks passwords. Turns and the queue for them are bounded, so that a flood
// of sign-ins takes bounded memory (19 MiB for each turn) and bounded processor time.
type passwords struct {
	cost   argon2id.Params
	places chan struct{} // one for each caller who hashes or waits for a turn, see enter
	known  chan struct{} // the same for known devices, so that a flood of others leaves them theirs
	turns  chan struct{} // one for each caller who hashes
	rest   bool          // a turn ends only after a pause as long as the hash took
	wait   time.Duration
	nobody string // the hash of no password, checked when there is no user
}

// newPasswords returns passwords for a process with so many processors. Where the process also
// serves hits, hashing takes at most half of the processor time: half of the processors, and of a
// single one every second time slot.
func newPasswords(processors int, servesHits bool) *passwords {
	turns := max(2, processors)

	if servesHits {
		turns = max(1, processors/2)
	}

	return &passwords{
		cost:   cost,
		places: make(chan struct{}, turns*(1+hashQueue)),
		known:  make(chan struct{}, turns*(1+hashQueue)),
		turns:  make(chan struct{}, turns),
		rest:   servesHits && processors == 1,
		wait:   hashWait,
		nobody: NoPassword,
	}
}

// enter reserves a place among those who hash or wait for it, before an attempt writes anything.
// leave gives it back. It fails with the model.Error unavailable while all places are taken. Known
// devices have as many of their own.
func (p *passwords) enter(known bool) (leave func(), err error) {
	places := p.places

	if known {
		places = p.known
	}

	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, p.busy(nil)
	}
}

// hash returns the password's argon2id hash in PHC string form.
func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	if err := p.takeTurn(ctx); err != nil {
		return "", err
	}
	defer p.endTurn(time.Now())
	return argon2id.CreateHash(password, &p.cost)
}

// check reports whether the password is the stored one, and whether the stored hash was made at
// another cost.
func (p *passwords) check(ctx context.Context, password, stored string) (ok, outdated bool, err error) {
	if err := p.takeTurn(ctx); err != nil {
		return false, false, err
	}
	defer p.endTurn(time.Now())

	ok, was, err := argon2id.CheckHash(password, stored)
	if err != nil {
		return false, false, fmt.Errorf("read stored password hash: %w", err)
	}

	return ok, *was != p.cost, nil
}

// takeTurn waits for a turn, as long as the caller does and hashWait at most.
func (p *passwords) takeTurn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()

	select {
	case p.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return p.busy(ctx.Err())
	}
}

// endTurn ends a turn that began at a time.
func (p *passwords) endTurn(began time.Time) {
	if p.rest {
		time.AfterFunc(time.Since(began), func() { <-p.turns })
		return
	}
	<-p.turns
}

func (p *passwords) busy(cause error) error {
	return &model.Error{
		Kind: model.Unavailable, Code: "unavailable", RetryAfter: p.wait,
		Message: "Too many people are signing in just now. Try again in a few seconds.", Cause: cause,
	}
}
