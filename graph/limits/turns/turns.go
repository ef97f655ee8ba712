// Package turns bounds how many callers do one thing at once, fairly: GraphQL's requests and
// mutations, and downloads.
package turns

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Queue bounds how many callers work at once, in all and for each key. One more waits for its turn.
// The turns go round the keys: the next one goes to the key that works least, and of those to the
// one that was served longest ago, so that a caller with many requests keeps the others waiting for
// one of them each. Callers of one key are served in the order in which they came. It is safe for
// concurrent use.
type Queue struct {
	Most, MostPerKey int           // callers that work
	Line, LinePerKey int           // callers that wait
	Patience         time.Duration // longest wait

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

// ErrBusy is returned when too many callers wait, or one has waited too long.
var ErrBusy = errors.New("turns: too many callers wait for their turn")

// Take waits for a turn and returns what ends it, which may be called more than once. It returns
// ErrBusy, or the context's error when that ends first.
func (q *Queue) Take(ctx context.Context, key string) (end func(), err error) {
	ready, err := q.join(key)
	if err != nil {
		return nil, err
	}

	end = sync.OnceFunc(func() { q.end(key) })
	timer := time.NewTimer(q.Patience)
	defer timer.Stop()

	select {
	case <-ready:
		return end, nil
	case <-timer.C:
		err = ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}

	// the turn came at the same time
	if !q.leave(key, ready) {
		end()
	}

	return nil, err
}

// join enters the line and returns the channel that gets a value with the turn.
func (q *Queue) join(key string) (chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.keys == nil {
		q.keys = make(map[string]*turnKey)
	}

	k := q.keys[key]
	if k == nil {
		q.served++
		k = &turnKey{served: q.served}
	}

	free := q.working < q.Most && k.working < q.MostPerKey && len(k.waiting) == 0
	if !free && (q.waiting >= q.Line || len(k.waiting) >= q.LinePerKey) {
		return nil, ErrBusy
	}

	q.keys[key] = k
	ready := make(chan struct{}, 1)
	k.waiting = append(k.waiting, ready)
	q.waiting++
	q.serve()

	return ready, nil
}

// leave removes a caller from the line. It is false when its turn has come already.
func (q *Queue) leave(key string, ready chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()

	k := q.keys[key]
	for i, other := range k.waiting {
		if other == ready {
			k.waiting = append(k.waiting[:i], k.waiting[i+1:]...)
			q.waiting--
			q.forget(key, k)

			return true
		}
	}

	return false
}

func (q *Queue) end(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.keys[key]
	k.working--
	q.working--
	q.forget(key, k)
	q.serve()
}

// Waiting returns how many callers wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

func (q *Queue) forget(key string, k *turnKey) {
	if k.working == 0 && len(k.waiting) == 0 {
		delete(q.keys, key)
	}
}

// serve gives out the turns that are free.
func (q *Queue) serve() {
	for q.working < q.Most {
		next := q.next()
		if next == nil {
			return
		}

		q.served++
		q.working++
		q.waiting--
		next.served = q.served
		next.working++
		next.waiting[0] <- struct{}{}
		next.waiting = next.waiting[1:]
	}
}

// next returns the key whose turn it is, or nil.
func (q *Queue) next() (next *turnKey) {
	for _, k := range q.keys {
		if len(k.waiting) == 0 || k.working >= q.MostPerKey {
			continue
		}
		if next == nil || k.working < next.working || k.working == next.working && k.served < next.served {
			next = k
		}
	}

	return next
}
