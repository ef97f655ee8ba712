package graph

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/endpoint"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/graph/loaders"
)

// request is what the resolvers of one request share.
type request struct {
	id  string        // returned with an internal error, and logged with it
	now model.Instant // arrival

	newLoaders func() *loaders.Set

	mu         sync.Mutex
	loads      *loaders.Set
	reads      map[any]*sharedRead
	purgeUntil time.Time // zero before the first deletion
}

type requestKey struct{}

// requests gives each request its id, deadline, limits and loaders.
type requests struct {
	db         *db.DB
	limits     *limits.Limits
	timeout    time.Duration
	now        func() time.Time
	clientAddr func(*http.Request) netip.Addr
	isShared   func(*http.Request) bool
}

// handler wraps the handler of requests that are run.
func (rs requests) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := model.At(rs.now())
		state := &request{
			id:         rand.Text()[:16],
			now:        now,
			newLoaders: func() *loaders.Set { return loaders.New(rs.db, now.Month()) },
		}

		w.Header().Set("X-Request-Id", state.id)

		// Set the content type here too: gqlgen answers by itself after a panic.
		w.Header().Set("Content-Type", endpoint.ContentType(r))

		ctx, cancel := limits.WithDeadline(r.Context(), rs.timeout)
		defer cancel()

		ctx = rs.limits.WithRequest(ctx, rs.clientAddr(r), rs.isShared(r), now.Time())
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, requestKey{}, state)))
	})
}

// requestOf returns what the resolvers of the request share. It panics on a context without it.
func requestOf(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

func requestID(ctx context.Context) string {
	if state, ok := ctx.Value(requestKey{}).(*request); ok {
		return state.id
	}
	return "none"
}

func (r *request) loaders() *loaders.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loads == nil {
		r.loads = r.newLoaders()
	}
	return r.loads
}

// forget drops what was loaded. Mutations call it after a write.
func (r *request) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads, r.reads = nil, nil
}

// purgeTime is how long the deletions of one request may delay its response by purging rows. The
// worker purges the remaining rows.
const purgeTime = 3 * time.Second

// purgeEnd returns when the purges of the request must stop. The time runs from the first of them.
func (r *request) purgeEnd() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.purgeUntil.IsZero() {
		r.purgeUntil = time.Now().Add(purgeTime)
	}
	return r.purgeUntil
}

// sharedRead is one call of shared.
type sharedRead struct {
	once  sync.Once
	value any
	err   error
}

var errSharedRead = errors.New("graph: a shared read panicked")

// shared returns the result of read, which it calls once per request and key until a mutation
// writes. A list of users contains the same account many times; its lists are read once.
func shared[T any](ctx context.Context, key any, read func() (T, error)) (T, error) {
	r := requestOf(ctx)
	r.mu.Lock()
	one := r.reads[key]
	if one == nil {
		one = &sharedRead{err: errSharedRead}

		if r.reads == nil {
			r.reads = make(map[any]*sharedRead)
		}

		r.reads[key] = one
	}

	r.mu.Unlock()

	one.once.Do(func() { one.value, one.err = read() })
	value, _ := one.value.(T)
	return value, one.err
}

// accountRead is the key of a shared read of an account's field.
type accountRead struct {
	field     string
	accountID int64
	first     int
	after     string
	paged     bool // after is given
}
