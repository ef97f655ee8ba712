package visitor

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/tallygate/tallygate/dataplane/flight"
	"github.com/tallygate/tallygate/db/model"
)

// loadTimeout bounds each wait for the database.
const loadTimeout = 5 * time.Second

// Secret returns the server's secret of a day. All processes must get the same one for a day.
type Secret func(context.Context, model.Day) ([]byte, error)

// Salts are the random salts of days, as the database stores them.
type Salts interface {
	// DaySalt returns the salt of a day, and makes one if there is none.
	DaySalt(ctx context.Context, day model.Day) ([]byte, error)
	// KeepDaySalt stores a known salt if the database has lost it, and returns the salt in use.
	KeepDaySalt(ctx context.Context, day model.Day, known []byte) ([]byte, error)
}

// Keys caches the keys of today and yesterday. Forget drops older ones: their salts are deleted
// from the database, and must not survive in memory. It is safe for concurrent use.
type Keys struct {
	stored Salts
	secret Secret
	flight flight.Group[*DayKey]

	mu    sync.RWMutex
	keys  map[model.Day]*DayKey
	salts map[model.Day][]byte // from which the keys were derived
}

// NewKeys returns an empty cache.
func NewKeys(stored Salts, secret Secret) *Keys {
	return &Keys{stored: stored, secret: secret, keys: make(map[model.Day]*DayKey), salts: make(map[model.Day][]byte)}
}

// Get returns the key of a day, or context.DeadlineExceeded at the deadline. The first requests of
// a day share one lookup, which does not end with the deadline of one of them.
func (k *Keys) Get(deadline time.Time, day model.Day) (*DayKey, error) {
	k.mu.RLock()
	key := k.keys[day]
	k.mu.RUnlock()

	if key != nil {
		return key, nil
	}

	return k.flight.Get(deadline, day.String(), loadTimeout, func(ctx context.Context) (*DayKey, error) {
		salt, err := k.stored.DaySalt(ctx, day)
		if err != nil {
			return nil, err
		}
		return k.put(ctx, day, salt)
	})
}

// put derives the key of a day from its salt and caches both.
func (k *Keys) put(ctx context.Context, day model.Day, salt []byte) (*DayKey, error) {
	secret, err := k.secret(ctx, day)
	if err != nil {
		return nil, err
	}

	key := NewDayKey(secret, salt, day)

	k.mu.Lock()
	defer k.mu.Unlock()

	k.keys[day], k.salts[day] = key, salt
	return key, nil
}

// Refresh compares the cached salts with the database, which can lose a salt in a crash. It
// restores a lost salt, or takes over the one that another process has made since.
func (k *Keys) Refresh(ctx context.Context) error {
	k.mu.RLock()
	known := maps.Clone(k.salts)
	k.mu.RUnlock()

	var all error
	for day, salt := range known {
		all = errors.Join(all, k.refresh(ctx, day, salt))
	}

	return all
}

// refresh compares the cached salt of a day with the database.
func (k *Keys) refresh(ctx context.Context, day model.Day, salt []byte) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()

	current, err := k.stored.KeepDaySalt(ctx, day, salt)
	if err == nil && !bytes.Equal(current, salt) {
		_, err = k.put(ctx, day, current)
	}

	return err
}

// Forget drops the keys of days that ended at least 24 hours ago, and of days after tomorrow, for
// which only a clock that was ahead can have asked.
func (k *Keys) Forget(today model.Day) {
	k.mu.Lock()
	defer k.mu.Unlock()

	for day := range k.keys {
		if day < today-1 || day > today+1 {
			delete(k.keys, day)
			delete(k.salts, day)
		}
	}
}
