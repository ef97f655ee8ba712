package graph

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// request is what the resolvers of one request share.
type request struct {
	id  string        // shown to the caller beside an internal error, and logged with it
	now model.Instant // when it came

	newLoaders func() *loaders

	network string // the client's IPv4 address or IPv6 /64, see web.Network
	shared  bool   // many clients have this network

	mu        sync.Mutex
	loads     *loaders
	reads     map[any]*sharedRead
	budget    *budget // nil before the caller is known
	surcharge int     // points beyond the complexity
	refused   error   // of the first change that got no turn: later ones get none either

	retryAfter time.Duration // what a caller without points or a turn was told

	purgeUntil time.Time // zero before the first deletion
}

type requestKey struct{}

// requestTimeout bounds a request from its arrival to its answer. What is still running then is
// cancelled. It is far below the write timeout of the server, after which no answer could be sent.
const requestTimeout = 10 * time.Second

// errDeadline is the cause of contexts that ended with the request's own deadline, not because the
// caller has left.
var errDeadline = errors.New("graph: the request took too long")

// withRequest gives each request its number, its deadline and its loaders.
func (r *Resolver) withRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		now := model.At(r.now())
		state := &request{
			id:         rand.Text()[:16],
			now:        now,
			newLoaders: func() *loaders { return newLoaders(r.db, now.Month()) },
			network:    web.Network(r.clientAddr(req), 32, 64).Addr().String(),
			shared:     r.isShared(req),
		}

		w.Header().Set("X-Request-Id", state.id)

		// also for the answer that gqlgen gives after a panic
		w.Header().Set("Content-Type", responseType(req))

		ctx, cancel := context.WithTimeoutCause(req.Context(), r.timeout, errDeadline)
		defer cancel()

		next.ServeHTTP(w, req.WithContext(context.WithValue(ctx, requestKey{}, state)))
	})
}

// requestOf returns what the resolvers of the request share. Without withRequest the program is
// wrong.
func requestOf(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

func requestID(ctx context.Context) string {
	if state, ok := ctx.Value(requestKey{}).(*request); ok {
		return state.id
	}
	return "none"
}

func (r *request) loaders() *loaders {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loads == nil {
		r.loads = r.newLoaders()
	}
	return r.loads
}

// purgeEnd is when the request's deletions stop to keep their caller waiting, beginning with the
// first of them.
func (r *request) purgeEnd() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.purgeUntil.IsZero() {
		r.purgeUntil = time.Now().Add(purgeTime)
	}
	return r.purgeUntil
}

// forget drops what was loaded, after a change.
func (r *request) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads, r.reads = nil, nil
}

// sharedRead is one call of shared.
type sharedRead struct {
	once  sync.Once
	value any
	err   error
}

var errSharedRead = errors.New("graph: the read that others wait for panicked")

// shared returns what read returns, and calls it once in a request for each key until something is
// changed. A list of users has the same account many times, and must not read the account's lists
// as often.
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

// accountRead is the key of a shared read of something that an account has.
type accountRead struct {
	what      string
	accountID int64
	first     int
	after     string
	paged     bool // after is given
}
