package files

import "syscall"

// FreeBytes returns how many bytes this user can write to the disk of a file or folder.
func FreeBytes(path string) (free uint64, known bool) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(path, &disk); err != nil {
		return 0, false
	}
	return disk.Bavail * uint64(disk.Bsize), true
}
