// Package operatorfile reads the files that an operator gives to the data plane, and follows their
// changes: a database of countries, a list of referrer spam, and a list of the networks of data
// centres. A file is read whole into memory, so that a file that is overwritten or truncated later
// changes nothing before it was read again and found valid.
package operatorfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxSize is the size of the largest file that is read, in bytes. It is kept in memory, and
	// twice while it is replaced.
	maxSize = 64 << 20

	// CheckEvery is the time between two checks of a file for changes.
	CheckEvery = 10 * time.Second
)

// Source names a file. All fields are required.
type Source struct {
	Setting string // that names the file, such as TALLYGATE_GEO_FILE
	Path    string
	Now     func() time.Time
	Log     *slog.Logger
}

// File is a file of an operator as a value in memory. It is safe for concurrent use.
type File[T any] struct {
	source Source
	parse  parser[T]

	current atomic.Pointer[content[T]]
	failure atomic.Pointer[failure] // why the newest file is not used; nil: it is

	checking sync.Mutex  // held by Check
	seen     os.FileInfo // of the file that was read last; nil: it is read again at the next check
}

// parser returns the value of a file, and when its data was built; zero if the file does not say.
type parser[T any] func(data []byte) (value T, built time.Time, err error)

// content is a valid file.
type content[T any] struct {
	value         T
	built, loaded time.Time
}

// failure is why a file was not read.
type failure struct {
	err error
	at  time.Time
}

// State describes a file for operators.
type State struct {
	Setting string
	Path    string
	Built   time.Time // when the data in use was built: by the file itself, else its time of modification
	Loaded  time.Time // when the data in use was read
	Err     error     // why a newer file is not used; nil: the data is of the newest file
	Failed  time.Time // since when
}

// Age returns the age of the data in use.
func (s State) Age(now time.Time) time.Duration { return now.Sub(s.Built) }

// open reads a file for the first time. Its error names no setting, but the reason.
func open[T any](s Source, parse parser[T]) (*File[T], error) {
	f := &File[T]{source: s, parse: parse}
	first, info, err := f.load()
	if err != nil {
		return nil, err
	}

	f.current.Store(first)
	f.seen = info
	return f, nil
}

// Value returns the value of the newest valid file.
func (f *File[T]) Value() T { return f.current.Load().value }

// State returns the state of the file. It never waits for the disk.
func (f *File[T]) State() State {
	current := f.current.Load()
	s := State{Setting: f.source.Setting, Path: f.source.Path, Built: current.built, Loaded: current.loaded}
	if failed := f.failure.Load(); failed != nil {
		s.Err, s.Failed = failed.err, failed.at
	}
	return s
}

// Check reads the file again if it has changed since it was read last. A file that is not valid
// keeps the value, and is logged once.
func (f *File[T]) Check() {
	f.checking.Lock()
	defer f.checking.Unlock()

	if info, err := os.Stat(f.source.Path); err == nil && f.seen != nil && !hasChanged(f.seen, info) {
		return
	}

	next, info, err := f.load()
	f.seen = info

	switch {
	case errors.Is(err, errWritten):
		// The next check reads it.
	case err != nil:
		f.fail(err, info == nil)
	default:
		f.current.Store(next)
		f.failure.Store(nil)
		f.source.Log.Info("a changed file is in use", "setting", f.source.Setting, "path", f.source.Path, "built", next.built)
	}
}

// fail stores and logs why the file is not used. A file that cannot even be read is tried again at
// each check, so the same reason is logged once.
func (f *File[T]) fail(err error, isUnread bool) {
	previous := f.failure.Load()
	if isUnread && previous != nil && previous.err.Error() == err.Error() {
		return
	}

	f.failure.Store(&failure{err, f.source.Now()})
	f.source.Log.Warn("a changed file is not valid; the data that was read before stays in use", "setting", f.source.Setting,
		"path", f.source.Path, "error", err)
}

// load reads and parses the file. info is nil if it could not be read.
func (f *File[T]) load() (*content[T], os.FileInfo, error) {
	data, info, err := read(f.source.Path)
	if err != nil {
		return nil, nil, err
	}

	value, built, err := f.parse(data)
	if err != nil {
		return nil, info, fmt.Errorf("%s: %w", f.source.Path, err)
	}

	if built.IsZero() {
		built = info.ModTime()
	}
	return &content[T]{value, built, f.source.Now()}, info, nil
}

// errWritten is the error of a file that another process writes to.
var errWritten = errors.New("the file changes while it is read; write a new file and rename it")

// read returns the content of a file.
func read(path string) ([]byte, os.FileInfo, error) {
	// To open a named pipe would wait for a process that writes to it.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%s: not a regular file", path)
	case info.Size() > maxSize:
		return nil, nil, fmt.Errorf("%s: the file has %d MB, more than %d; of a database of addresses take the country edition", path,
			info.Size()>>20, maxSize>>20)
	}

	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()

	before, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}

	// A file that grows meanwhile is refused below.
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return nil, nil, err
	}

	after, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if hasChanged(before, after) || int64(len(data)) != after.Size() {
		return nil, nil, fmt.Errorf("%s: %w", path, errWritten)
	}

	return data, after, nil
}

// hasChanged reports whether two states are of different files, or of different content.
func hasChanged(before, after os.FileInfo) bool {
	return before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()) || !os.SameFile(before, after)
}

// Watched is a file that Watch checks.
type Watched interface{ Check() }

// Watch checks files at each tick until ctx ends.
func Watch(ctx context.Context, ticks <-chan time.Time, files ...Watched) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}

		for _, f := range files {
			f.Check()
		}
	}
}
