package graph

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// request is what the resolvers of one request share.
type request struct {
	id  string        // shown to the caller beside an internal error, and logged with it
	now model.Instant // when it came

	newLoaders func() *loaders

	mu     sync.Mutex
	loads  *loaders
	budget *budget // nil before the caller is known

	purgeUntil time.Time // zero before the first deletion
}

type requestKey struct{}

// withRequest gives each request its number and its loaders.
func (r *Resolver) withRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		now := model.At(r.now())
		state := &request{
			id:         rand.Text()[:16],
			now:        now,
			newLoaders: func() *loaders { return newLoaders(r.db, now.Month()) },
		}
		w.Header().Set("X-Request-Id", state.id)
		w.Header().Set("Content-Type", responseType(req)) // also for the answer that gqlgen gives after a panic
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), requestKey{}, state)))
	})
}

// requestOf returns what the resolvers of the request share. Without withRequest the program is wrong.
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

// purgeEnd is when the request's deletions stop to keep their caller waiting, beginning with the first of them.
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
	r.loads = nil
}
