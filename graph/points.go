package graph

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
)

const (
	pointsPerMinute = 60_000 // of an account: twelve of the largest requests; the type RateLimit tells callers
	countedCallers  = 10_000

	// introspectionsPerMinute bounds how often a client network reads the schema without signing
	// in. Each page of GraphiQL and each run of a code generator reads it once.
	introspectionsPerMinute = 60
)

// points counts what each account has used of its points in the current minute, in this process. It
// is bounded: the caller who was away longest is forgotten first. One that reads the schema without
// signing in is counted apart, by its network.
type points struct {
	limit int

	mu      sync.Mutex
	callers *simplelru.LRU[string, budget]
}

// budget is one caller's minute.
type budget struct {
	cost    int  // of the last request
	refused bool // the last request, because too little was left
	used    int  // at most the limit
	resetAt time.Time
}

func newPoints(limit int) *points {
	callers, err := simplelru.NewLRU[string, budget](countedCallers, nil)
	if err != nil {
		// only a limit below one fails
		panic(err)
	}
	return &points{limit: limit, callers: callers}
}

// take charges a request, or refuses it and charges nothing.
func (p *points) take(caller string, cost int, now time.Time) budget {
	p.mu.Lock()
	defer p.mu.Unlock()

	b, _ := p.callers.Get(caller)
	if !now.Before(b.resetAt) {
		b = budget{resetAt: now.Add(time.Minute)}
	}

	b.cost, b.refused = cost, b.used+cost > p.limit
	if !b.refused {
		b.used += cost
	}

	p.callers.Add(caller, b)
	return b
}

// charge charges the request to the caller's account, once, as soon as the caller is known.
// Requests of unknown callers are not charged: what they may do is throttled by itself.
func (r *Resolver) charge(ctx context.Context, caller auth.Caller) error {
	request := requestOf(ctx)
	request.mu.Lock()
	defer request.mu.Unlock()

	if request.budget != nil {
		return request.budget.check(request.now)
	}

	cost := extension.GetComplexityStats(ctx).Complexity + request.surcharge
	b := r.points.take(accountKey(caller), cost, request.now.Time())
	request.budget = &b

	if b.refused {
		request.retryAfter = b.resetAt.Sub(request.now.Time())
	}

	return b.check(request.now)
}

// accountKey names the caller's account in points and turns.
func accountKey(caller auth.Caller) string { return strconv.FormatInt(caller.User.AccountID, 10) }

func (b *budget) check(now model.Instant) error {
	if !b.refused {
		return nil
	}
	return &model.Error{
		Kind: model.RateLimited, Code: "rate_limited", RetryAfter: b.resetAt.Sub(now.Time()),
		Message: "The points of this minute are used up.",
	}
}
