package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestBackupForms: on a file system that is read-only except for the folders that the unit and the
// containers can write, the documented places take a backup of an unprivileged user, and no other
// does.
func TestBackupForms(t *testing.T) {
	testkit.SkipLong(t, "mounts")
	t.Parallel()
	if os.Getuid() != 0 || exec.Command("unshare", "--mount", "true").Run() != nil {
		testkit.Missing(t, "root, who may mount, is needed")
	}
	program, _, _ := buildOnce(t)

	folder, err := os.MkdirTemp("", "backupforms")
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	copied := filepath.Join(folder, "tallygate")
	if out, err := exec.Command("cp", program, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"data", "backups", "other"} {
		testkit.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o700))
	}

	script := `set -e
cd "$0"
chmod 755 . tallygate
chown 65532:65532 data backups other
mount --make-rprivate /
mount --bind data data
mount --bind backups backups
mount -o remount,bind,ro "$(stat --format=%m .)"
as() { setpriv --reuid=65532 --regid=65532 --clear-groups env -i TALLYGATE_DATA_DIR="$0/data" "$0/tallygate" "$@"; }
cd data
as admin create-account a@example.com --name A
as admin backup "$0/backups/compose.sqlite"
as admin backup "$0/data/unit.sqlite"
as admin verify-backup "$0/backups/compose.sqlite"
if as admin backup "$0/other/x.sqlite"; then echo "the file system is not read-only"; exit 1; fi`
	out, err := exec.Command("unshare", "--mount", "sh", "-c", script, folder).CombinedOutput()
	if err != nil || strings.Count(string(out), "and verified") != 2 || !strings.Contains(string(out), "read-only file system") {
		t.Errorf("%v\n%s", err, out)
	}
}
