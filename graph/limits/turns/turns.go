// Package turns is a fair queue: it bounds how many callers do one thing at once. GraphQL requests,
// mutations and downloads use it. It starts no goroutine.
package turns

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Queue bounds how many callers work at once, in total and per key. Further callers wait for a turn.
// The next turn goes to the key with the fewest working callers, and among those to the one served
// longest ago. So a key with many callers delays each other key by one turn only. Callers of one key
// are served in order of arrival. It is safe for concurrent use.
type Queue struct {
	Most, MostPerKey int           // working callers
	Line, LinePerKey int           // waiting callers
	Patience         time.Duration // maximum wait

	mu      sync.Mutex
	working int
	waiting int
	served  int64 // turns given and keys added so far
	keys    map[string]*turnKey
}

// turnKey holds the callers of one key. It exists while any of them works or waits.
type turnKey struct {
	working int
	waiting []chan struct{} // oldest first; each gets one value with its turn
	served  int64           // number of its last turn, or of its arrival
}

// ErrBusy is returned if the queue is full, or after Patience without a turn.
var ErrBusy = errors.New("turns: too many callers wait for their turn")

// Take waits for a turn and returns the function that ends it, which may be called more than once. It
// returns ErrBusy, or the context's error if the context ends first.
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

	// The turn came at the same time.
	if !q.leave(key, ready) {
		end()
	}

	return nil, err
}

// join adds a caller to the queue and returns the channel that receives its turn.
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

// leave removes a caller from the queue. It returns false if its turn has already come.
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

// Waiting returns the number of waiting callers.
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

// serve assigns the free turns.
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

// next returns the key that gets the next turn, or nil.
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
