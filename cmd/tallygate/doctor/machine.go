package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/cmd/tallygate/secret"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
)

// leastDescriptors is how many open files a process needs for a few thousand connections.
const leastDescriptors = 4096

// checkMachine checks what the operating system or the container image gives to each process.
func (e *examination) checkMachine(context.Context) bool {
	if n, known := descriptors(); known && n < leastDescriptors {
		e.warn("descriptors", "Raise the limit, for instance with LimitNOFILE=65536 in the systemd unit.",
			"a process may have %d open files, and each connection is one", n)
	}

	if pool, err := x509.SystemCertPool(); err != nil || pool.Equal(x509.NewCertPool()) {
		e.fault("authorities", "Install the package ca-certificates, or copy its file into the image.",
			"the system has no certificate authorities: webhooks and mails over TLS fail")
	}

	return true
}

// The free space in bytes of the data folder's disk below which a warning or an error is reported.
const (
	littleFree = 512 << 20
	hardlyFree = 16 << 20
)

// checkFolder checks the files of the embedded database and of the application key.
func (e *examination) checkFolder(context.Context) bool {
	if !e.c.UsesDataFolder() {
		return false
	}

	dir := e.c.DataDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The first start creates it.
		e.checkWritable(existingParent(dir))
		return true
	case err != nil:
		e.fault("folder-access", "Give the service's user rights on the folder.", "the data folder: %v", err)
		return true
	case !info.IsDir():
		e.fault("folder-access", "Set TALLYGATE_DATA_DIR to a folder.", "%s is not a folder", dir)
		return true
	}

	e.checkWritable(dir)
	e.checkOwners(dir, info)
	e.checkExposed(dir)

	if e.c.DatabaseURL == "" {
		e.checkFree(dir)
	}

	return true
}

// checkWritable reports a folder in which this process cannot create files.
func (e *examination) checkWritable(dir string) {
	file, err := os.CreateTemp(dir, ".doctor-*")
	if err == nil {
		err = errors.Join(file.Close(), os.Remove(file.Name()))
	}
	if err != nil {
		e.fault("folder-writable", "Give the service's user the right to write there, run doctor as that user, or set "+
			"TALLYGATE_DATA_DIR to another folder.", "no file can be created in %s: %v", dir, errors.Unwrap(err))
	}
}

// existingParent returns the nearest existing folder above a path.
func existingParent(path string) string {
	for {
		parent := filepath.Dir(path)
		if _, err := os.Stat(parent); err == nil || parent == path {
			return parent
		}
		path = parent
	}
}

// checkOwners reports files that another user owns than the folder: commands that ran as root by
// mistake leave them, and the service cannot write them.
func (e *examination) checkOwners(dir string, folder fs.FileInfo) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // checkWritable has reported the folder
	}

	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && ownerOf(info) != ownerOf(folder) {
			e.fault("folder-owner", "Run: chown -R --reference="+dir+" "+dir,
				"%s and its folder have different owners", filepath.Join(dir, entry.Name()))
		}
	}
}

// checkExposed reports files that other users of the machine can read.
func (e *examination) checkExposed(dir string) {
	exposed := database.Exposed(e.c)

	names := []string{secret.File, secret.PreviousFile}
	if path, ok := db.SQLiteFile(e.c.Database()); ok {
		names = append(names, filepath.Base(path)+"-salts")
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			exposed = append(exposed, path)
		}
	}

	for _, path := range exposed {
		e.warn("folder-exposed", "Run: chmod -R go= "+dir, "other users of this machine can read %s", path)
	}
}

// checkFree reports a disk that is nearly full.
func (e *examination) checkFree(dir string) {
	const action = "Free space on this disk, or move the data folder to a larger one."

	free, known := files.FreeBytes(dir)
	switch {
	case !known:
	case free < hardlyFree:
		e.fault("disk-full", action, "the disk of %s has %d MB left: hits are refused when it is full", dir, free>>20)
	case free < littleFree:
		e.warn("disk-low", action, "the disk of %s has %d MB left", dir, free>>20)
	}
}
