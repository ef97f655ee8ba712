package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	module, scratch := t.TempDir(), filepath.Join(t.TempDir(), "scratch")
	for name, text := range map[string]string{"go.mod": "module example.test/waiting\n\ngo 1.26\n", "a_test.go": waiting} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.Mkdir(scratch, 0o700); err != nil {
		t.Fatal(err)
	}

	note := filepath.Join(module, "note")
	t.Setenv("NOTE", note)
	t.Setenv("GOTMPDIR", "")
	t.Chdir(module)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var out, stderr bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, scratch, []string{"."}, &out, &stderr, false) }()

	for ; ; time.Sleep(10 * time.Millisecond) {
		if dir, err := os.ReadFile(note); err == nil {
			if string(dir) != scratch {
				t.Errorf("the test's temporary files are in %s, want %s", dir, scratch)
			}
			break
		}

		select {
		case <-code:
			t.Fatalf("go test ended before the test ran:\n%s%s", &out, &stderr)
		default:
		}
	}

	stop()

	if code := <-code; code != 1 || !strings.Contains(out.String(), "TestWaits (it never ended)") {
		t.Errorf("exit status %d, want 1 and the test that was stopped:\n%s%s", code, &out, &stderr)
	}
	if _, err := os.Stat(scratch); !os.IsNotExist(err) {
		t.Errorf("the folder is still there, %v", err)
	}
}

// TestNewScratch checks when the tests get a folder in memory, and that other users can pass it.
func TestNewScratch(t *testing.T) {
	unset := func(string) string { return "" }
	for _, name := range []string{"TMPDIR", "GOTMPDIR"} {
		if dir := newScratch("/dev/shm", func(asked string) string { return map[string]string{name: "/tmp"}[asked] }); dir != "" {
			t.Errorf("%s, although %s is set", dir, name)
		}
	}

	for _, parent := range []string{"/proc", "/no/such/folder"} {
		if dir := newScratch(parent, unset); dir != "" {
			t.Errorf("%s in %s", dir, parent)
		}
	}

	free, exec := memory("/dev/shm")
	dir := newScratch("/dev/shm", unset)
	if dir == "" {
		if free >= minScratch && exec {
			t.Errorf("no folder, although %d bytes are free", free)
		}
		return
	}

	info, err := os.Stat(dir)
	if err != nil || info.Mode() != fs.ModeDir|0o711 || filepath.Dir(dir) != "/dev/shm" {
		t.Errorf("%s is %v, %v", dir, info.Mode(), err)
	}
	if err := removeScratch(dir, time.Minute); err != nil {
		t.Error(err)
	}
}
