package captcha

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// attackEvery is how often attacks that this process sees are stored at most, and attackAgain how
// long a stored one is not stored again at the same level.
const (
	attackEvery = time.Second
	attackAgain = time.Minute
)

// attackStore stores the attack that a process sees on a sitekey, for all processes.
type attackStore func(ctx context.Context, accountID model.AccountID, sitekeyID model.SitekeyID, seen model.CaptchaAttack) error

// attacks are the attacks that this process sees and has not stored. The stored ones reach every
// process with the settings of their sitekeys.
type attacks struct {
	store attackStore
	log   *slog.Logger

	wake chan struct{} // has a value after add

	mu   sync.Mutex
	seen map[*sitekey]model.CaptchaAttack
}

func newAttacks(store attackStore, log *slog.Logger) *attacks {
	return &attacks{store: store, log: log, wake: make(chan struct{}, 1), seen: make(map[*sitekey]model.CaptchaAttack)}
}

// add notes an attack. One that would not change the stored level, or was stored lately, is left
// out.
func (a *attacks) add(key *sitekey, seen model.CaptchaAttack) {
	stored := key.attack.LevelAt(seen.Seen)
	switch {
	case seen.Level == 0, key.id == 0, seen.Level < stored:
		return
	case seen.Level == stored && seen.Seen < key.attack.Seen.Add(attackAgain):
		return
	}

	a.mu.Lock()
	a.seen[key] = seen
	a.mu.Unlock()

	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run stores attacks until ctx ends.
func (a *attacks) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
			a.flush(ctx)
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(attackEvery):
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
