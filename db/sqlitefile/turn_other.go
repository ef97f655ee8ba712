//go:build !unix

package sqlitefile

import "os"

// tryLock locks nothing on this system: every process may enter.
func tryLock(*os.File) bool { return true }

func unlock(*os.File) {}
