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
	store      *certificates.Store
	now        func() time.Time
	challenges sharedReads

	mu      sync.Mutex
	holders map[string]string // of the locks of this process, by name
}

var (
	_ certmagic.Storage          = (*storage)(nil)
	_ certmagic.LockLeaseRenewer = (*storage)(nil)
)

func newStorage(store *certificates.Store, now func() time.Time) *storage {
	return &storage{store: store, now: now, challenges: newSharedReads(store.Get), holders: make(map[string]string)}
}

// Store stores a file.
func (s *storage) Store(ctx context.Context, name string, value []byte) error {
	return note(ctx, s.store.Put(ctx, name, value, model.At(s.now())))
}

// Load returns a file, or fs.ErrNotExist.
func (s *storage) Load(ctx context.Context, name string) ([]byte, error) {
	get := s.store.Get
	if path.Base(path.Dir(name)) == "challenge_tokens" {
		get = s.challenges.get
	}

	value, err := get(ctx, name)
	if errors.Is(err, model.ErrNotFound) {
		return nil, fs.ErrNotExist
	}
	return value, note(ctx, err)
}

// Delete deletes a file or folder, also after its order was canceled.
func (s *storage) Delete(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return note(ctx, s.store.Delete(ctx, name))
}

// Exists reports whether there is a file or folder.
func (s *storage) Exists(ctx context.Context, name string) bool {
	files, err := s.store.List(ctx, name)
	return note(ctx, err) == nil && len(files) > 0
}

// List returns the names of the files below a folder, or of its files and folders.
func (s *storage) List(ctx context.Context, folder string, recursive bool) ([]string, error) {
	files, err := s.store.List(ctx, folder)
	if err != nil {
		return nil, note(ctx, err)
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
		return certmagic.KeyInfo{}, note(ctx, err)
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
			return note(ctx, err)
		}
		if taken {
			if f := faultsOf(ctx); f != nil {
				f.locked.Store(true)
			}
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

// RenewLockLease extends a lock of this process. It fails if another process has taken it meanwhile.
func (s *storage) RenewLockLease(ctx context.Context, name string, lease time.Duration) error {
	s.mu.Lock()
	holder := s.holders[name]
	s.mu.Unlock()

	held, err := s.store.Renew(ctx, name, holder, max(lease, lockLease))
	if err == nil && !held {
		return errors.New("the lock " + name + " has expired")
	}
	return note(ctx, err)
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
