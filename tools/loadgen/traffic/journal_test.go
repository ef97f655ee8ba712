package traffic

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	head := JournalHead{Run: 3, Seed: 4, Started: 5, Sites: make([]target.Site, 300),
		Target: target.Target{Email: "a@b.example", Password: "secret"}}

	testkit.NoError(t, os.WriteFile(path, []byte("an old file that every user can read"), 0o644))

	j, err := CreateJournal(path, head)
	testkit.NoError(t, err)

	var want, got []Entry
	for i := range 10_000 {
		e := Entry{Mark: Mark(scramble(uint64(i))), Site: uint16(i % 300), Kind: Kind(i % 12)}
		want = append(want, e)
		j.note(e)
	}

	testkit.NoError(t, j.Close())

	read := func() (JournalHead, error) {
		got = nil
		return ReadJournal(path, func(e Entry) error { got = append(got, e); return nil })
	}
	if back, err := read(); err != nil || !slices.Equal(got, want) || back.Run != 3 || back.Target != head.Target ||
		len(back.Sites) != 300 {
		t.Errorf("read %d entries of %d, head %+v, %v", len(got), len(want), back, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: it holds a password", info.Mode(), err)
	}
	testkit.NoError(t, os.Truncate(path, func() int64 { info, _ := os.Stat(path); return info.Size() - 1 }()))
	if _, err := read(); err == nil {
		t.Error("a journal that is cut off is read as whole")
	}
	testkit.NoError(t, os.WriteFile(path, []byte("something else\n"), 0o600))
	if _, err := read(); err == nil {
		t.Error("another file is read as a journal")
	}
}
