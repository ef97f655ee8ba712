// Package turns is a fair queue: it bounds how many callers do one thing at once. GraphQL requests,
// mutations, reports and downloads use it. It starts no goroutine.
package turns

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Queue bounds how many callers work at once, in total and per key. Further callers wait for a
// turn. The next turn goes to the key with the fewest working callers, and among these to the key
// served longest ago. So a key with many callers delays each other key by one turn only. Callers of
// one key are served in order of arrival. It is safe for concurrent use.
type Queue struct {
	Most, MostPerKey int           // working callers
	Line, LinePerKey int           // waiting callers
	Patience         time.Duration // maximum wait
	// Memory is how long a key is remembered after its last turn. The next turn goes to a key that
	// is not remembered. Without it, an arriving key comes after the waiting keys.
	Memory time.Duration

	mu      sync.Mutex
	working int
	waiting int
	served  int64 // turns given and keys added so far
	keys    map[string]*turnKey
	swept   time.Time // when keys were forgotten last
}

// turnKey holds the callers of one key. It exists while any of them works or waits, and for Memory.
type turnKey struct {
	working  int
	waiting  []chan struct{} // oldest first; each gets one value with its turn
	arrived  int64           // number of its arrival
	served   int64           // number of its last turn, or of its arrival; 0 for a key without a turn lately
	servedAt time.Time
}

// ErrBusy is returned if the queue is full, or after Patience without a turn.
var ErrBusy = errors.New("turns: too many callers wait for their turn")

// Take waits for a turn and returns the function that ends it, which may be called more than once.
// It returns ErrBusy, or the context's error if the context ends first.
func (q *Queue) Take(ctx context.Context, key string) (end func(), err error) {
	turn, err := q.Begin(ctx, key)
	if err != nil {
		return nil, err
	}
	return turn.End, nil
}

// Turn is a turn in progress, which its caller must end. It is not safe for concurrent use.
type Turn struct {
	queue *Queue
	key   string
	ended bool
}

// Begin is Take for a caller that can give way to others.
func (q *Queue) Begin(ctx context.Context, key string) (*Turn, error) {
	ready, err := q.join(key, false)
	if err != nil {
		return nil, err
	}
	if err := q.wait(ctx, key, ready, q.Patience); err != nil {
		return nil, err
	}
	return &Turn{queue: q, key: key}, nil
}

// End ends the turn. It may be called more than once.
func (t *Turn) End() {
	if !t.ended {
		t.ended = true
		t.queue.end(t.key)
	}
}

// Yield ends the turn and waits for another turn, if callers of other keys wait. After an error,
// which is the context's, the turn has ended.
func (t *Turn) Yield(ctx context.Context) error {
	if t.ended {
		return nil
	}
	ready := t.queue.yield(t.key)
	if ready == nil {
		return nil
	}

	err := t.queue.wait(ctx, t.key, ready, 0)
	t.ended = err != nil
	return err
}

// Resume waits for another turn after End, also beyond the bounds of the queue. After an error,
// which is the context's, the turn has ended.
func (t *Turn) Resume(ctx context.Context) error {
	ready, err := t.queue.join(t.key, true)
	if err == nil {
		err = t.queue.wait(ctx, t.key, ready, 0)
	}
	t.ended = err != nil
	return err
}

// wait waits for a turn, up to a time if it is positive.
func (q *Queue) wait(ctx context.Context, key string, ready chan struct{}, patience time.Duration) (err error) {
	var late <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}

	select {
	case <-ready:
		return nil
	case <-late:
		err = ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}

	// The turn came at the same time.
	if !q.leave(key, ready) {
		q.end(key)
	}
	return err
}

// yield ends a turn of a key and returns the channel that receives the next one, or nil if no
// caller of another key waits. It does both under one lock: else a short turn of another key could
// end in between, and the next turn would go to a caller that waits behind this one.
func (q *Queue) yield(key string) chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()

	k := q.keys[key]
	if q.waiting == len(k.waiting) {
		return nil
	}

	// A key that has just worked comes after the waiting keys.
	q.served++
	k.served = q.served
	k.working--
	q.working--

	ready := make(chan struct{}, 1)
	k.waiting = slices.Insert(k.waiting, 0, ready)
	q.waiting++
	q.serve()
	return ready
}

// join adds a caller to the queue and returns the channel that receives its turn. again permits a
// caller that goes on with its work to wait beyond the bounds of the queue, before the others of
// its key.
func (q *Queue) join(key string, again bool) (chan struct{}, error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.keys == nil {
		q.keys = make(map[string]*turnKey)
	}
	q.sweep()

	k := q.keys[key]
	if k == nil {
		q.served++
		k = &turnKey{arrived: q.served}
		if q.Memory == 0 {
			k.served = q.served
		}
	}

	free := q.working < q.Most && k.working < q.MostPerKey && len(k.waiting) == 0
	if !free && !again && (q.waiting >= q.Line || len(k.waiting) >= q.LinePerKey) {
		return nil, ErrBusy
	}

	q.keys[key] = k
	ready := make(chan struct{}, 1)
	if again {
		k.waiting = slices.Insert(k.waiting, 0, ready)
	} else {
		k.waiting = append(k.waiting, ready)
	}
	q.waiting++
	q.serve()

	return ready, nil
}

// sweep forgets keys without a turn for Memory. It looks at most once in that time.
func (q *Queue) sweep() {
	now := time.Now()
	if q.Memory == 0 || now.Sub(q.swept) < q.Memory {
		return
	}
	q.swept = now
	for key, k := range q.keys {
		q.forget(key, k)
	}
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

// forget removes a key without callers, unless it had a turn lately.
func (q *Queue) forget(key string, k *turnKey) {
	if k.working == 0 && len(k.waiting) == 0 && (q.Memory == 0 || time.Since(k.servedAt) >= q.Memory) {
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
		if q.Memory > 0 {
			next.servedAt = time.Now()
		}
		next.working++

		// The channel has a buffer, so this cannot block under the lock.
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
		if next == nil || k.before(next) {
			next = k
		}
	}

	return next
}

// before reports whether a key gets a turn before another key. Keys without a turn lately are
// served in order of arrival.
func (k *turnKey) before(other *turnKey) bool {
	return cmp.Or(
		cmp.Compare(k.working, other.working),
		cmp.Compare(k.served, other.served),
		cmp.Compare(k.arrived, other.arrived),
	) < 0
}
