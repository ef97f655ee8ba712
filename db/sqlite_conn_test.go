package db

import (
	"path/filepath"
	"testing"
)

// TestSQLiteIsDurable checks that the writing connection waits for the disk at each commit. A test
// that kills processes cannot show this: what they wrote survives them.
func TestSQLiteIsDurable(t *testing.T) {
	d, err := Open(sqliteScheme + filepath.Join(t.TempDir(), "x.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()

	// 2 is FULL.
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		if err := d.Write.NewRaw("PRAGMA "+pragma).Scan(t.Context(), &got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %s", pragma, got, err, want)
		}
	}
}
