package analytics

import (
	"context"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/tallygate/tallygate/dataplane/analytics/visitor"
	"github.com/tallygate/tallygate/db/model"
)

// dayKeys keeps the visitor keys of today and yesterday in memory. Older ones are dropped by forget: their salts are
// destroyed in the database, and must not outlive that here.
type dayKeys struct {
	salt   func(context.Context, model.Day) ([]byte, error)
	secret VisitorKey
	flight singleflight.Group

	mu   sync.RWMutex
	keys map[model.Day]*visitor.DayKey
}

func newDayKeys(salt func(context.Context, model.Day) ([]byte, error), secret VisitorKey) *dayKeys {
	return &dayKeys{salt: salt, secret: secret, keys: make(map[model.Day]*visitor.DayKey)}
}

// get returns the key of a day. The first requests of a day share one look-up, which none of them can cancel by leaving.
func (d *dayKeys) get(ctx context.Context, day model.Day) (*visitor.DayKey, error) {
	d.mu.RLock()
	key := d.keys[day]
	d.mu.RUnlock()
	if key != nil {
		return key, nil
	}
	found, err, _ := d.flight.Do(day.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StoreTimeout)
		defer cancel()
		return d.fetch(ctx, day)
	})
	if err != nil {
		return nil, err
	}
	return found.(*visitor.DayKey), nil
}

func (d *dayKeys) fetch(ctx context.Context, day model.Day) (*visitor.DayKey, error) {
	salt, err := d.salt(ctx, day)
	if err != nil {
		return nil, err
	}
	secret, err := d.secret(ctx, day)
	if err != nil {
		return nil, err
	}
	key := visitor.NewDayKey(secret, salt, day)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys[day] = key
	return key, nil
}

// forget drops the keys of days that ended 24 hours ago or earlier.
func (d *dayKeys) forget(today model.Day) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for day := range d.keys {
		if day < today-1 {
			delete(d.keys, day)
		}
	}
}
