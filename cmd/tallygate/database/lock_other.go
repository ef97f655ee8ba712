//go:build !unix

package database

import "os"

// canLock reports whether processes on one data folder notice each other.
const canLock = false

// tryLock does not lock on this system: other processes remain unknown.
func tryLock(*os.File) (bool, error) { return false, nil }

func lockShared(*os.File) error { return nil }

func giveToOwner(*os.File, string) {}
