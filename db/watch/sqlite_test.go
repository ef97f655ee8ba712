package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSQLiteReadsAfterWrites checks when a process reads the changes: while SQLite's log was
// written within a tick of the file system's clock, and seldom otherwise.
func TestSQLiteReadsAfterWrites(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "test.sqlite-wal")
	written := time.Now()
	write := func(content string) {
		t.Helper()
		testkit.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		// The clock of this file system never moves.
		testkit.NoError(t, os.Chtimes(path, written, written))
	}

	p := &changePoll{of: &SQLite{logFile: path}}
	check := func(when string, want bool) {
		t.Helper()
		testkit.Equal(t, p.due(), want, "%s: due", when)
		p.readAt = time.Now()
	}

	check("without a log", true)
	write("a")
	check("the first look", true)
	check("within a tick of the write", true)

	p.wrote = p.wrote.Add(-clockTick)
	check("an unchanged log", false)

	write("bc")
	check("a longer log", true)
	write("de")
	check("a second write in the same tick", true)

	p.wrote = p.wrote.Add(-clockTick)
	check("an unchanged log again", false)
	check("and again", false)

	written = written.Add(time.Millisecond)
	write("fg")
	check("a later write of the same length", true)

	p.wrote = p.wrote.Add(-clockTick)
	p.due()
	p.readAt = time.Now().Add(-readInterval)
	if !p.due() {
		t.Error("not due long after the last read")
	}

	// A failed read forgets the log, see poll.
	p.readAt, p.log = time.Now(), nil
	check("after a failed read", true)
}
