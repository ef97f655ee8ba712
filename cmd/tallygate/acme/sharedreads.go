package acme

import (
	"context"
	"sync"
	"time"
)

const (
	// readEvery is the least time between the begins of two reads of a challenge.
	readEvery = time.Second

	// readTimeout bounds a read of a challenge.
	readTimeout = 5 * time.Second
)

// sharedReads bounds the reads of challenges of other nodes, which everyone can request. A request waits for the
// next read, and all requests that wait share it. A cached miss would let unauthenticated requests make an order fail,
// because the challenge can be stored after the miss. Names of files are of configured hosts, so there are few.
type sharedReads struct {
	read func(ctx context.Context, name string) ([]byte, error)

	mu    *sync.Mutex
	next  map[string]*sharedRead // that have not begun
	begun map[string]time.Time   // the last reads
}

// sharedRead is a read with its result.
type sharedRead struct {
	done  chan struct{}
	value []byte
	err   error
}

func newSharedReads(read func(context.Context, string) ([]byte, error)) sharedReads {
	return sharedReads{read: read, mu: new(sync.Mutex), next: make(map[string]*sharedRead), begun: make(map[string]time.Time)}
}

// get returns the result of a read that begins after the call.
func (s *sharedReads) get(ctx context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	r := s.next[name]
	if r == nil {
		r = &sharedRead{done: make(chan struct{})}
		s.next[name] = r
		time.AfterFunc(time.Until(s.begun[name].Add(readEvery)), func() { s.run(name, r) })
	}
	s.mu.Unlock()

	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.done:
		return r.value, r.err
	}
}

// run reads a file for the requests that wait.
func (s *sharedReads) run(name string, r *sharedRead) {
	s.mu.Lock()
	delete(s.next, name)
	s.begun[name] = time.Now()
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	r.value, r.err = s.read(ctx, name)
	close(r.done)
}
