package sqlitefile

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// turnstile lets the processes that write one database begin their transactions in turn, such as
// the previous and the next program during an upgrade. A process stays in it while it waits for
// SQLite's lock. Meanwhile a process that writes without a pause cannot begin again. The turnstile
// is a lock on the database's folder, which ends with the process. A nil turnstile is always open.
type turnstile struct{ folder *os.File }

// openTurnstile returns the turnstile of a database file. It is nil where folders cannot be opened
// or locked: then a process finds SQLite's lock free by chance only, see lockPause.
func openTurnstile(path string) *turnstile {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil
	}
	return &turnstile{folder}
}

// maxTurn bounds the wait for the turnstile, so that a lock of another program on the folder costs
// little. It is many times the length of a transaction.
const maxTurn = 200 * time.Millisecond

// enter waits while another process is in the turnstile, for at most maxTurn. The caller must
// leave.
func (t *turnstile) enter(ctx context.Context) {
	if t == nil {
		return
	}

	for began := time.Now(); !tryLock(t.folder) && ctx.Err() == nil && time.Since(began) < maxTurn; {
		time.Sleep(time.Millisecond)
	}
}

// leave lets the next process enter.
func (t *turnstile) leave() {
	if t != nil {
		unlock(t.folder)
	}
}

func (t *turnstile) close() {
	if t != nil {
		_ = t.folder.Close()
	}
}
