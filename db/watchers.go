package db

import "sync"

// Channel names a kind of changes that Watch reports. It is a channel of PostgreSQL's LISTEN.
type Channel string

// The channels.
const (
	SiteChanges    Channel = "tallygate_site"
	SitekeyChanges Channel = "tallygate_sitekey"
)

// notice is a change that a transaction announces.
type notice struct {
	channel Channel
	id      int64
}

// watchers holds the functions that changes made through this DB are reported to, on SQLite.
type watchers struct {
	mu      sync.RWMutex
	next    int
	changed map[int]watcher
}

type watcher struct {
	channel Channel
	changed func(id int64)
}

func (w *watchers) add(channel Channel, changed func(int64)) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if w.changed == nil {
		w.changed = make(map[int]watcher)
	}

	id := w.next
	w.next++
	w.changed[id] = watcher{channel, changed}

	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.changed, id)
	}
}

// report reports committed changes of this DB.
func (w *watchers) report(changes []notice) {
	w.mu.RLock()
	defer w.mu.RUnlock()

	for _, made := range changes {
		for _, watcher := range w.changed {
			if watcher.channel == made.channel {
				watcher.changed(made.id)
			}
		}
	}
}
