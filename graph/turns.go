package graph

import (
	"context"
	"errors"
	"sync"
	"time"
)

// turns bounds how many callers work at once, in all and for each key. One more waits for its turn. The turns go round the
// keys: the next one goes to the key that works least, and of those to the one that was served longest ago, so that a caller
// with many requests keeps the others waiting for one of them each. It is safe for concurrent use.
type turns struct {
	most, mostPerKey int           // callers that work
	line, linePerKey int           // callers that wait
	patience         time.Duration // longest wait

	mu      sync.Mutex
	working int
	waiting int
	served  int64 // turns given, and keys that came, so far
	keys    map[string]*turnKey
}

// turnKey is the callers with one key. It exists while they work or wait.
type turnKey struct {
	working int
	waiting []chan struct{} // oldest first; each gets one value with its turn
	served  int64           // number of its last turn, or of its coming
}

// errBusy is returned when too many callers wait, or one has waited too long.
var errBusy = errors.New("graph: too many callers wait for their turn")

// take waits for a turn and returns what ends it, which may be called more than once. It returns errBusy, or the context's
// error when that ends first.
func (t *turns) take(ctx context.Context, key string) (end func(), err error) {
	ready, err := t.join(key)
	if err != nil {
		return nil, err
	}
	end = sync.OnceFunc(func() { t.end(key) })
	timer := time.NewTimer(t.patience)
	defer timer.Stop()
	select {
	case <-ready:
		return end, nil
	case <-timer.C:
		err = errBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !t.leave(key, ready) { // the turn came at the same time
		end()
	}
	return nil, err
}

// join enters the line and returns the channel that gets a value with the turn.
func (t *turns) join(key string) (chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys = make(map[string]*turnKey)
	}
	k := t.keys[key]
	if k == nil {
		t.served++
		k = &turnKey{served: t.served}
	}
	free := t.working < t.most && k.working < t.mostPerKey && len(k.waiting) == 0
	if !free && (t.waiting >= t.line || len(k.waiting) >= t.linePerKey) {
		return nil, errBusy
	}
	t.keys[key] = k
	ready := make(chan struct{}, 1)
	k.waiting = append(k.waiting, ready)
	t.waiting++
	t.serve()
	return ready, nil
}

// leave removes a caller from the line. It is false when its turn has come already.
func (t *turns) leave(key string, ready chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[key]
	for i, other := range k.waiting {
		if other == ready {
			k.waiting = append(k.waiting[:i], k.waiting[i+1:]...)
			t.waiting--
			t.forget(key, k)
			return true
		}
	}
	return false
}

func (t *turns) end(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.keys[key]
	k.working--
	t.working--
	t.forget(key, k)
	t.serve()
}

func (t *turns) forget(key string, k *turnKey) {
	if k.working == 0 && len(k.waiting) == 0 {
		delete(t.keys, key)
	}
}

// serve gives out the turns that are free.
func (t *turns) serve() {
	for t.working < t.most {
		next := t.next()
		if next == nil {
			return
		}
		t.served++
		t.working++
		t.waiting--
		next.served = t.served
		next.working++
		next.waiting[0] <- struct{}{}
		next.waiting = next.waiting[1:]
	}
}

// next returns the key whose turn it is, or nil.
func (t *turns) next() (next *turnKey) {
	for _, k := range t.keys {
		if len(k.waiting) == 0 || k.working >= t.mostPerKey {
			continue
		}
		if next == nil || k.working < next.working || k.working == next.working && k.served < next.served {
			next = k
		}
	}
	return next
}
