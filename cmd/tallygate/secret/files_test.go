package secret

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

func TestSecretIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := readOrCreate(dir)
	testkit.NoError(t, err)
	if again, err := readOrCreate(dir); err != nil || !bytes.Equal(again, first) || len(first) < 32 {
		t.Errorf("second start: %q, %v; first start: %q", again, err, first)
	}

	info, err := os.Stat(filepath.Join(dir, File))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files in the data folder, want the secret alone", len(files))
	}
}
