package auth

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/tallygate/tallygate/db/model"
)

// cost is the cost of one hash: 19 MiB and two passes, the minimum of OWASP's password storage
// guide for argon2id. Raising it is safe: older hashes are renewed at the next sign-in.
var cost = argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// NoPassword is stored as the hash of a user who has not chosen a password. No password matches it.
var NoPassword = noPassword(cost)

func noPassword(cost argon2id.Params) string {
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", cost.Memory, cost.Iterations, cost.Parallelism,
		encode(make([]byte, cost.SaltLength)), encode(make([]byte, cost.KeyLength)))
}

// The bounds of waiting for a turn to hash. A hash takes 20 to 50 ms, so the last caller of a full
// queue gets its turn within hashWait on any processor.
const (
	hashWait  = 5 * time.Second
	hashQueue = 32 // waiting callers per turn, and as many known devices
)

// hasher hashes and checks passwords. Turns and the queue for them are bounded, so a flood of
// sign-ins takes bounded memory (19 MiB per turn) and bounded processor time.
type hasher struct {
	cost        argon2id.Params
	places      chan struct{} // one for each caller that hashes or waits for a turn, see reserve
	knownPlaces chan struct{} // the same for known devices, which a flood of other callers cannot fill
	turns       chan struct{} // one for each caller that hashes
	wait        time.Duration
	unusable    string // a hash that no password matches, checked if there is no user
}

// newHasher returns a hasher for a process with this number of processors. It uses half of them, or
// the only one.
func newHasher(cost argon2id.Params, processors int) *hasher {
	turns := max(1, processors/2)
	return &hasher{
		cost:        cost,
		places:      make(chan struct{}, turns*(1+hashQueue)),
		knownPlaces: make(chan struct{}, turns*(1+hashQueue)),
		turns:       make(chan struct{}, turns),
		wait:        hashWait,
		unusable:    noPassword(cost),
	}
}

// reserve takes a place to hash or to wait for a turn, before an attempt writes anything. Known
// devices have places of their own. It fails with the model.Error unavailable if no place is free.
func (p *hasher) reserve(known bool) (release func(), err error) {
	places := p.places
	if known {
		places = p.knownPlaces
	}

	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, p.busy(nil)
	}
}

// hash returns the password's argon2id hash in PHC string form.
func (p *hasher) hash(ctx context.Context, password string) (string, error) {
	if err := p.takeTurn(ctx); err != nil {
		return "", err
	}
	defer p.endTurn()
	return argon2id.CreateHash(password, &p.cost)
}

// check reports whether the password matches the stored hash, and whether that hash has another
// cost.
func (p *hasher) check(ctx context.Context, password, stored string) (ok, outdated bool, err error) {
	if err := p.takeTurn(ctx); err != nil {
		return false, false, err
	}
	defer p.endTurn()

	ok, was, err := argon2id.CheckHash(password, stored)
	if err != nil {
		return false, false, fmt.Errorf("read stored password hash: %w", err)
	}

	return ok, *was != p.cost, nil
}

// takeTurn waits for a turn until the context ends, hashWait at most.
func (p *hasher) takeTurn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()

	select {
	case p.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return p.busy(ctx.Err())
	}
}

func (p *hasher) endTurn() { <-p.turns }

func (p *hasher) busy(cause error) error {
	return &model.Error{
		Kind: model.Unavailable, Code: "unavailable", RetryAfter: p.wait,
		Message: "Too many sign-ins are in progress. Try again in a few seconds.", Cause: cause,
	}
}
