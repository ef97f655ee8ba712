package graph

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/graph/resolver"
)

// requests gives each request its id, limits and loaders, and those of GraphQL their deadline.
type requests struct {
	db         *db.DB
	ids        *nodeid.IDs
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
		ctx, id := resolver.WithRequest(r.Context(), rs.db, rs.ids, now)
		w.Header().Set("X-Request-Id", id)
		ctx = rs.limits.WithRequest(ctx, rs.clientAddr(r), rs.isShared(r), now.Time())
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// timed wraps the handler of requests that end at the deadline.
func (rs requests) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := limits.WithDeadline(r.Context(), rs.timeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
