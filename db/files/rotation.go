package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// copyName is the layout of the names of copies in a folder: the UTC time, so that names sort by
// age.
const copyName = "tallygate-20060102T150405.000Z.sqlite"

// abandonedAfter is the age from which no process writes a partial copy any more.
const abandonedAfter = 24 * time.Hour

// CopyIn returns the path of a copy of a time in a folder of copies.
func CopyIn(folder string, at time.Time) string {
	return filepath.Join(folder, at.UTC().Format(copyName))
}

// RemoveOldCopies removes the oldest copies from the folder of a complete copy until keep remain,
// and partial copies that a killed process left a day before it. It removes no files with other
// names, and never the copy itself: after a clock was set back, older ones have later names.
func RemoveOldCopies(newest string, keep int) (removed []string, err error) {
	folder, own := filepath.Split(newest)
	complete, partial, err := copiesIn(folder)
	if err != nil {
		return nil, err
	}
	at, err := copiedAt(own)
	if err != nil {
		return nil, err
	}

	var old, others []string
	for _, name := range partial {
		if begun, _ := copiedAt(name); at.Sub(begun) > abandonedAfter {
			old = append(old, name)
		}
	}
	for _, name := range complete {
		if name != own {
			others = append(others, name)
		}
	}
	old = append(old, others[:max(0, len(others)-keep+1)]...)

	for _, name := range old {
		if failed := os.Remove(filepath.Join(folder, name)); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		removed = append(removed, name)
	}
	return removed, err
}

// NewestCopy returns the time of the newest copy in a folder, or the zero time.
func NewestCopy(folder string) (time.Time, error) {
	complete, _, err := copiesIn(folder)
	if err != nil || len(complete) == 0 {
		return time.Time{}, err
	}
	return copiedAt(complete[len(complete)-1])
}

// copiesIn returns the names of the copies in a folder, oldest first.
func copiesIn(folder string) (complete, partial []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		name := entry.Name()
		switch _, other := copiedAt(name); {
		case other != nil || !entry.Type().IsRegular():
		case strings.Contains(name, partialMark):
			partial = append(partial, name)
		default:
			complete = append(complete, name)
		}
	}
	return complete, partial, err
}

// copiedAt parses the time in the name of a copy, which may be partial.
func copiedAt(name string) (time.Time, error) {
	complete, _, _ := strings.Cut(name, partialMark)
	return time.Parse(copyName, complete)
}
