package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// waiting is a test that creates a temporary file, reports its folder in the file $NOTE, and ends
// when it is killed.
const waiting = `package waiting

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWaits(t *testing.T) {
	f, err := os.CreateTemp("", "left-")
	if err != nil {
		t.Fatal(err)
	}
	note := os.Getenv("NOTE")
	if err := os.WriteFile(note+".new", []byte(filepath.Dir(f.Name())), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(note+".new", note); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour)
}
`

// TestInterruptedRun checks that the tests' temporary files are in the given folder, and that the
// end of the context stops a test that would wait for an hour and removes its files.
func TestInterruptedRun(t *testing.T) {
	module, dir := t.TempDir(), filepath.Join(t.TempDir(), "scratch")
	for name, text := range map[string]string{"go.mod": "module example.test/waiting\n\ngo 1.26\n", "a_test.go": waiting} {
		testkit.NoError(t, os.WriteFile(filepath.Join(module, name), []byte(text), 0o600))
	}

	testkit.NoError(t, os.Mkdir(dir, 0o711))

	note := filepath.Join(module, "note")
	t.Setenv("NOTE", note)
	t.Setenv("GOTMPDIR", "")
	t.Setenv(postgresVariable, "no server, because no test needs it")
	t.Chdir(module)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var out, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, &scratch{dir: dir}, []string{"."}, &out, &stderr, false) }()

	testkit.Await(t, "the note of the test", func() bool {
		if len(code) > 0 {
			t.Fatalf("go test ended before the test ran:\n%s%s", &out, &stderr)
		}
		used, err := os.ReadFile(note)
		if err == nil && string(used) != dir {
			t.Errorf("the test's temporary files are in %s, want %s", used, dir)
		}
		return err == nil
	})

	stop()

	if code := <-code; code != 1 || !strings.Contains(out.String(), "TestWaits (it never ended)") {
		t.Errorf("exit status %d, want 1 and the test that was stopped:\n%s%s", code, &out, &stderr)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there, %v", err)
	}
}

// TestNewScratch checks when the tests get a folder in memory, that other users can pass it, and
// that its path is the same in the next run, but not in one at the same time.
func TestNewScratch(t *testing.T) {
	unset := func(string) string { return "" }
	for _, name := range []string{"TMPDIR", "GOTMPDIR"} {
		if s := newScratch("/dev/shm", func(asked string) string { return map[string]string{name: "/tmp"}[asked] }); s != nil {
			t.Errorf("%s, although %s is set", s.dir, name)
		}
	}

	for _, parent := range []string{"/proc", "/no/such/folder"} {
		if s := newScratch(parent, unset); s != nil {
			t.Errorf("%s in %s", s.dir, parent)
		}
	}

	t.Chdir(t.TempDir())
	free, exec := memory("/dev/shm")
	first := newScratch("/dev/shm", unset)
	if first == nil {
		if free >= minScratch && exec {
			t.Errorf("no folder, although %d bytes are free", free)
		}
		return
	}

	info, err := os.Stat(first.dir)
	if err != nil || info.Mode() != fs.ModeDir|0o711 || filepath.Dir(first.dir) != "/dev/shm" {
		t.Errorf("%s is %v, %v", first.dir, info.Mode(), err)
	}

	second := newScratch("/dev/shm", unset)
	if second == nil || second.dir == first.dir {
		t.Fatalf("a second run at the same time has %+v", second)
	}
	testkit.NoError(t, errors.Join(second.remove(time.Minute), os.WriteFile(filepath.Join(first.dir, "left"), nil, 0o600), first.lock.Close()))

	next := newScratch("/dev/shm", unset)
	if next == nil || next.dir != first.dir {
		t.Fatalf("the next run has %+v, want %s", next, first.dir)
	}
	if left, err := os.ReadDir(next.dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left of the run before, %v", left, err)
	}
	if err := errors.Join(next.remove(time.Minute), os.Remove(next.lock.Name())); err != nil {
		t.Error(err)
	}
}
