package files

import (
	"os"
	"path/filepath"

	"github.com/tallygate/tallygate/db"
)

// Exposed returns the files of an embedded database, and its folder, that other users of the
// machine can read. On PostgreSQL the list is empty.
func Exposed(databaseURL string) []string {
	path, ok := db.SQLiteFile(databaseURL)
	if !ok {
		return nil
	}

	var exposed []string
	for _, name := range []string{filepath.Dir(path), path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o055 != 0 {
			exposed = append(exposed, name)
		}
	}

	return exposed
}
