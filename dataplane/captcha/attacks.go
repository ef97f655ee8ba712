package captcha

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// attackEvery is how often attacks that this process sees are stored, and attackAgain how long a stored
// one is not stored again at the same level.
const (
	attackEvery = time.Second
	attackAgain = time.Minute
)

// attackStore stores the attack that a process sees on a sitekey, for all processes.
type attackStore func(ctx context.Context, accountID, sitekeyID int64, seen model.CaptchaAttack) error

// attacks are the attacks that this process sees and has not stored. The stored ones reach every
// process with the settings of their sitekeys.
type attacks struct {
	store attackStore
	log   *slog.Logger

	mu   sync.Mutex
	seen map[*sitekey]model.CaptchaAttack
}

func newAttacks(store attackStore, log *slog.Logger) *attacks {
	return &attacks{store: store, log: log, seen: make(map[*sitekey]model.CaptchaAttack)}
}

// add notes an attack. One that is stored already, and was seen lately, is left out.
func (a *attacks) add(key *sitekey, seen model.CaptchaAttack) {
	stored := &key.attack
	if seen.Level == 0 || key.id == 0 ||
		seen.Level <= stored.LevelAt(seen.Seen) && seen.Seen < stored.Seen.Add(attackAgain) {
		return
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[key] = seen
}

// run stores attacks until ctx ends.
func (a *attacks) run(ctx context.Context) {
	ticker := time.NewTicker(attackEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.flush(ctx)
		}
	}
}

// flush stores what was added. An attack that cannot be stored is left to the next challenge, which
// sees it again.
func (a *attacks) flush(ctx context.Context) {
	a.mu.Lock()
	seen := a.seen
	a.seen = make(map[*sitekey]model.CaptchaAttack)
	a.mu.Unlock()

	for key, attack := range seen {
		err := a.store(ctx, key.accountID, key.id, attack)
		if err != nil && model.KindOf(err) != model.NotFound && ctx.Err() == nil {
			a.log.ErrorContext(ctx, "attack not stored", "sitekey", key.text, "error", err)
		}
	}
}
