package serve

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/db/keys"
)

// keyCheckEvery is the interval at which a process checks the application key of the database.
const keyCheckEvery = 5 * time.Second

// watchKeys follows a rotation of the application key until ctx ends.
func (a *App) watchKeys(ctx context.Context) {
	ticker := time.NewTicker(keyCheckEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.checkKeys(ctx)
		}
	}
}

// checkKeys switches to the new key once the database uses it. Database errors are ignored, because
// readiness reports them.
func (a *App) checkKeys(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()

	state, err := keys.New(a.db).ApplicationKeyState(ctx)
	if err != nil {
		return
	}

	signsWithPrevious := a.keys.Rotation.SignsWithPrevious()
	replaced := a.keys.Match(state) != nil
	if replaced && !a.keyReplaced.Swap(true) {
		a.log.Error(keyReplacedMessage)
	}

	a.keyReplaced.Store(replaced)

	if signsWithPrevious && !a.keys.Rotation.SignsWithPrevious() {
		a.log.Info("the application key was rotated; this process signs with the new one from now on")
	}
}

// keyReplacedMessage is what the log and /readyz say about a key that other processes replaced.
const keyReplacedMessage = "the database uses an application key that this process does not have; restart it with " +
	"TALLYGATE_SECRET and TALLYGATE_SECRET_PREVIOUS as the other processes have them"
