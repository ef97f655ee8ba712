package instance

import (
	"strings"
	"testing"
)

// TestReadLog checks that lines of any length are read, and that the end of the log is kept.
func TestReadLog(t *testing.T) {
	logs := strings.NewReader("first\n" + strings.Repeat("x", 3<<20) + "\nlast\n")
	var s Server
	s.readLog(logs)
	if kept := s.Logged(); logs.Len() != 0 || !strings.HasSuffix(kept, "x\nlast\n") || len(kept) > 1<<20 {
		t.Errorf("%d bytes are not read, %d are kept", logs.Len(), len(kept))
	}
}

// TestAddressSpace checks that a bounded program has its bound and its arguments.
func TestAddressSpace(t *testing.T) {
	s := Server{program: "/bin/sh", args: []string{"-c", `echo "$(ulimit -v) $*"`, "sh", "a", "b c"}, AddressSpace: 1 << 30}
	if out, err := s.command().Output(); err != nil || string(out) != "1048576 a b c\n" {
		t.Errorf("%q, %v", out, err)
	}

	s.AddressSpace = 0
	if got := s.command(); got.Path != s.program || len(got.Args) != 1+len(s.args) {
		t.Errorf("without a bound: %v", got)
	}
}
