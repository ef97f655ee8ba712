// Package loaders batches the reads of the fields of a list's objects: one statement for all sites
// or deliveries of a request instead of one for each. Package graph makes a Set for each request,
// and drops it at the next write.
package loaders

import (
	"context"
	"slices"
	"sync"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
)

// Loader batches the reads of one field of a request's sites (or deliveries) into one statement. A
// list announces its keys; the first call of Of loads all announced keys, and the others wait for
// that statement.
//
// vikstrous/dataloadgen does not fit: it delays every read by some milliseconds to collect keys,
// and under load may split a batch, while a list here knows its keys beforehand.
type Loader[K comparable, V any] struct {
	load     func(ctx context.Context, keys []K) (map[K]V, error)
	expected *keys[K]

	mu    sync.Mutex
	found map[K]V // loaded values; the zero value for keys without one
}

// Of returns the value of a key; the zero value if there is none.
func (l *Loader[K, V]) Of(ctx context.Context, key K) (V, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if v, ok := l.found[key]; ok {
		return v, nil
	}

	var keys []K

	// The key itself usually is among the expected ones.
	asked := make(map[K]bool)
	for _, k := range append(l.expected.list(), key) {
		if _, ok := l.found[k]; !ok && !asked[k] {
			keys, asked[k] = append(keys, k), true
		}
	}

	loaded, err := l.load(ctx, keys)
	if err != nil {
		var none V
		return none, err
	}

	for _, k := range keys {
		l.found[k] = loaded[k]
	}

	return loaded[key], nil
}

// keys are the keys that the lists of a request have announced. It is safe for concurrent use.
type keys[K any] struct {
	mu  sync.Mutex
	all []K
}

func (k *keys[K]) add(key K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, key)
}

func (k *keys[K]) list() []K {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all)
}

// BySite is a Loader by site id.
type BySite[V any] = Loader[model.SiteID, V]

// Set holds the loaders of one request, up to its next write. It is safe for concurrent use.
type Set struct {
	db     *db.DB
	store  *sites.Store
	outbox *outbox.Store
	month  model.Month // of Usage

	accounts   keys[model.AccountID] // none are announced
	sites      keys[model.SiteID]
	sitekeys   keys[model.SitekeyID]
	deliveries keys[outbox.DeliveryKey]
	segments   keys[model.SegmentID] // of shared links
	channels   keys[int64]           // alert channels
	messages   keys[int64]           // of alert channels

	mu   sync.Mutex
	made map[field]any // loaders
}

// field is a field with its argument. Each loads its own values.
type field struct {
	name     string
	argument any // comparable; nil: none
}

// New returns the loaders of a request. Usage loads the counts of the month.
func New(d *db.DB, month model.Month) *Set {
	return &Set{db: d, store: sites.New(d), outbox: outbox.New(d), month: month, made: make(map[field]any)}
}

// loader returns the loader of a field, which it makes once.
func loader[K comparable, V any](
	l *Set, of field, expected *keys[K], load func(context.Context, []K) (map[K]V, error),
) *Loader[K, V] {
	l.mu.Lock()
	defer l.mu.Unlock()

	if made, ok := l.made[of]; ok {
		return made.(*Loader[K, V])
	}
	made := &Loader[K, V]{load: load, expected: expected, found: make(map[K]V)}
	l.made[of] = made
	return made
}

// Expect announces the sites of a list.
func (l *Set) Expect(sites []*model.Site) {
	for _, site := range sites {
		l.sites.add(site.ID)
	}
}

// ExpectSitekeys announces the sitekeys of a list.
func (l *Set) ExpectSitekeys(keys []*model.Sitekey) {
	for _, key := range keys {
		l.sitekeys.add(key.ID)
	}
}
