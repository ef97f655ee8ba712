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
