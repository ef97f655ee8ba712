package report

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplaceSection(t *testing.T) {
	page := filepath.Join(t.TempDir(), "performance.md")
	text := "Between\n<!-- bench-growth: begin -->\n<!-- bench-growth: end -->\nAfter\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := ReplaceSection(page, "no-such-section", "text"); err == nil {
		t.Error("a section that is not there is replaced")
	}

	for range 2 {
		if err := ReplaceSection(page, "bench-growth", "new\n"); err != nil {
			t.Fatal(err)
		}
	}

	got, err := os.ReadFile(page)
	if want := "Between\n<!-- bench-growth: begin -->\n\nnew\n\n<!-- bench-growth: end -->\nAfter\n"; err != nil ||
		string(got) != want {
		t.Errorf("%v, %s", err, got)
	}
}
