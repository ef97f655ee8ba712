package auth

import (
	"context"
	"encoding/base64"
	"fmt"
	"runtime"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/tallygate/tallygate/db/model"
)

// cost is what one password check takes: 19 MiB and two passes, the floor that OWASP's password storage guide gives for
// argon2id. Raising it is safe: older hashes are renewed at the next sign-in.
var cost = argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// NoPassword takes the place of a password's hash for a user who has not chosen one: no password fits it.
var NoPassword = noPassword(cost)

func noPassword(cost argon2id.Params) string {
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", cost.Memory, cost.Iterations, cost.Parallelism,
		encode(make([]byte, cost.SaltLength)), encode(make([]byte, cost.KeyLength)))
}

// hashWait is how long a caller waits for its turn to hash.
const hashWait = 5 * time.Second

// passwords hashes and checks passwords. At most as many at once as there are processors, so that a flood of sign-ins
// takes bounded memory (19 MiB each) instead of all there is.
type passwords struct {
	cost   argon2id.Params
	turns  chan struct{}
	wait   time.Duration
	nobody string // the hash of no password, checked when there is no user
}

func newPasswords() *passwords {
	return &passwords{
		cost:   cost,
		turns:  make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
		wait:   hashWait,
		nobody: NoPassword,
	}
}

// hash returns the password's argon2id hash in PHC string form.
func (p *passwords) hash(ctx context.Context, password string) (string, error) {
	if err := p.takeTurn(ctx); err != nil {
		return "", err
	}
	defer p.endTurn()
	return argon2id.CreateHash(password, &p.cost)
}

// check reports whether the password is the stored one, and whether the stored hash was made at another cost.
func (p *passwords) check(ctx context.Context, password, stored string) (ok, outdated bool, err error) {
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

// takeTurn waits for a turn, as long as the caller does and hashWait at most.
func (p *passwords) takeTurn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	select {
	case p.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &model.Error{
			Kind: model.Unavailable, Code: "unavailable", RetryAfter: p.wait,
			Message: "Too many people are signing in just now. Try again in a few seconds.", Cause: ctx.Err(),
		}
	}
}

func (p *passwords) endTurn() { <-p.turns }
