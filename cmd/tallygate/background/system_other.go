//go:build !linux

package background

import "os"

// executable returns the file of this program.
func executable() (string, error) { return os.Executable() }

// expectKill does nothing: only Linux lets a process ask for it.
func expectKill() error { return nil }
