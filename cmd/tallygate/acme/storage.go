package acme

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
)

const (
	// lockLease is the time after which the lock of a process that has ended is free. It is longer than
	// an order takes.
	lockLease = orderTimeout + time.Minute

	// lockPoll is the time between two attempts to take a lock.
	lockPoll = 500 * time.Millisecond

	// releaseTimeout bounds what a canceled order still deletes: its lock and its challenge.
	releaseTimeout = 5 * time.Second
)

// storage keeps the files and locks of certmagic in the database. Its methods are certmagic's.
type storage struct {
	store *certificates.Store
	now   func() time.Time

	mu      sync.Mutex
	holders map[string]string // of the locks of this process, by name
}

var _ certmagic.Storage = (*storage)(nil)

// Store stores a file.
func (s *storage) Store(ctx context.Context, name string, value []byte) error {
	return s.store.Put(ctx, name, value, model.At(s.now()))
}

// Load returns a file, or fs.ErrNotExist.
func (s *storage) Load(ctx context.Context, name string) ([]byte, error) {
	value, err := s.store.Get(ctx, name)
	if errors.Is(err, model.ErrNotFound) {
		err = fs.ErrNotExist
	}
	return value, err
}

// Delete deletes a file or folder, also after its order was canceled.
func (s *storage) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return s.store.Delete(ctx, name)
}

// Exists reports whether there is a file or folder.
func (s *storage) Exists(ctx context.Context, name string) bool {
	files, err := s.store.List(ctx, name)
	return err == nil && len(files) > 0
}

// List returns the names of the files below a folder, or of its files and folders.
func (s *storage) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	files, err := s.store.List(ctx, folder)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fs.ErrNotExist
	}

	var names []string
	for _, f := range files {
		name := f.Name
		if !recursive {
			child, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(name, folder), "/"), "/")
			name = path.Join(folder, child)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Stat describes a file or folder.
func (s *storage) Stat(ctx context.Context, name string) (certmagic.KeyInfo, error) {
	files, err := s.store.List(ctx, name)
	if err != nil {
		return certmagic.KeyInfo{}, err
	}
	if len(files) == 0 {
		return certmagic.KeyInfo{}, fs.ErrNotExist
	}

	info := certmagic.KeyInfo{Key: name}
	for _, f := range files {
		if f.Name == name {
			info.IsTerminal, info.Size = true, f.Size
		}
		if modified := f.ModifiedAt.Time(); modified.After(info.Modified) {
			info.Modified = modified
		}
	}
	return info, nil
}

// Lock waits for a lock and takes it.
func (s *storage) Lock(ctx context.Context, name string) error {
	holder := rand.Text()
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()

	for {
		taken, err := s.store.Lock(ctx, name, holder, lockLease)
		if err != nil {
			return err
		}
		if taken {
			s.mu.Lock()
			s.holders[name] = holder
			s.mu.Unlock()
			return nil
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Unlock releases a lock, also after its order was canceled.
func (s *storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	holder := s.holders[name]
	delete(s.holders, name)
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return s.store.Unlock(ctx, name, holder)
}
