package analytics

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/visitor"
	"github.com/tallygate/tallygate/dataplane/flight"
	"github.com/tallygate/tallygate/db/model"
)

// dayKeys keeps the visitor keys of today and yesterday in memory. Older ones are dropped by
// forget: their salts are destroyed in the database, and must not outlive that here.
type dayKeys struct {
	db     daySalts
	secret VisitorKey
	flight flight.Group[*visitor.DayKey]

	mu    sync.RWMutex
	keys  map[model.Day]*visitor.DayKey
	salts map[model.Day][]byte // what the keys were made of
}

// daySalts is what dayKeys needs of the database.
type daySalts interface {
	DaySalt(ctx context.Context, day model.Day) ([]byte, error)
	KeepDaySalt(ctx context.Context, day model.Day, known []byte) ([]byte, error)
}

func newDayKeys(db daySalts, secret VisitorKey) *dayKeys {
	return &dayKeys{db: db, secret: secret, keys: make(map[model.Day]*visitor.DayKey), salts: make(map[model.Day][]byte)}
}

// get returns the key of a day, or context.DeadlineExceeded at the deadline. The first requests of
// a day share one lookup, which does not end with the deadline of one of them.
func (d *dayKeys) get(deadline time.Time, day model.Day) (*visitor.DayKey, error) {
	d.mu.RLock()
	key := d.keys[day]
	d.mu.RUnlock()

	if key != nil {
		return key, nil
	}

	return d.flight.Get(deadline, day.String(), StoreTimeout, func(ctx context.Context) (*visitor.DayKey, error) {
		return d.fetch(ctx, day)
	})
}

func (d *dayKeys) fetch(ctx context.Context, day model.Day) (*visitor.DayKey, error) {
	salt, err := d.db.DaySalt(ctx, day)
	if err != nil {
		return nil, err
	}
	return d.put(ctx, day, salt)
}

func (d *dayKeys) put(ctx context.Context, day model.Day, salt []byte) (*visitor.DayKey, error) {
	secret, err := d.secret(ctx, day)
	if err != nil {
		return nil, err
	}

	key := visitor.NewDayKey(secret, salt, day)
	d.mu.Lock()
	defer d.mu.Unlock()

	d.keys[day], d.salts[day] = key, salt
	return key, nil
}

// refresh compares the keys in memory with the database, which can lose a salt in a crash: it gets
// the salt back, or this process takes over the one that another process has made meanwhile.
func (d *dayKeys) refresh(ctx context.Context) error {
	d.mu.RLock()
	known := maps.Clone(d.salts)
	d.mu.RUnlock()

	var all error
	for day, salt := range known {
		limited, cancel := context.WithTimeout(ctx, StoreTimeout)
		current, err := d.db.KeepDaySalt(limited, day, salt)
		if err == nil && !bytes.Equal(current, salt) {
			_, err = d.put(limited, day, current)
		}

		cancel()
		all = errors.Join(all, err)
	}

	return all
}

// forget drops the keys of days that ended 24 hours ago or earlier, and of days after tomorrow,
// which a clock that was ahead asked for.
func (d *dayKeys) forget(today model.Day) {
	d.mu.Lock()
	defer d.mu.Unlock()

	for day := range d.keys {
		if day < today-1 || day > today+1 {
			delete(d.keys, day)
			delete(d.salts, day)
		}
	}
}
