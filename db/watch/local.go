package watch

import "sync"

// watchers holds the functions that changes made by this process are reported to.
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

// report calls the functions that watch the channels of these committed changes.
func (w *watchers) report(changes []Notice) {
	w.mu.RLock()
	defer w.mu.RUnlock()

	for _, made := range changes {
		for _, watcher := range w.changed {
			if watcher.channel == made.Channel {
				watcher.changed(made.ID)
			}
		}
	}
}
