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
	pointsPerMinute = 60_000 // twelve of the largest requests; the type RateLimit tells callers
	countedCallers  = 10_000
)

// points counts what each user and each API token has used of its points in the current minute, in this process. It is
// bounded: the caller who was away longest is forgotten first.
type points struct {
	mu      sync.Mutex
	callers *simplelru.LRU[string, budget]
}

// budget is one caller's minute.
type budget struct {
	cost    int  // of the last request
	refused bool // the last request, because too little was left
	used    int  // at most pointsPerMinute
	resetAt time.Time
}

func newPoints() *points {
	callers, err := simplelru.NewLRU[string, budget](countedCallers, nil)
	if err != nil {
		panic(err) // only a limit below one fails
	}
	return &points{callers: callers}
}

// take charges a request, or refuses it and charges nothing.
func (p *points) take(caller string, cost int, now time.Time) budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, _ := p.callers.Get(caller)
	if !now.Before(b.resetAt) {
		b = budget{resetAt: now.Add(time.Minute)}
	}
	b.cost, b.refused = cost, b.used+cost > pointsPerMinute
	if !b.refused {
		b.used += cost
	}
	p.callers.Add(caller, b)
	return b
}

// charge charges the request once, as soon as its caller is known. Nobody's requests are not charged: what they may do is
// throttled by itself.
func (r *Resolver) charge(ctx context.Context, caller auth.Caller) error {
	request := requestOf(ctx)
	request.mu.Lock()
	defer request.mu.Unlock()
	if request.budget != nil {
		return request.budget.check(request.now)
	}
	name := "user " + strconv.FormatInt(caller.User.ID, 10)
	if caller.Token != nil {
		name = "token " + strconv.FormatInt(caller.Token.ID, 10)
	}
	b := r.points.take(name, extension.GetComplexityStats(ctx).Complexity, request.now.Time())
	request.budget = &b
	return b.check(request.now)
}

func (b *budget) check(now model.Instant) error {
	if !b.refused {
		return nil
	}
	return &model.Error{
		Kind: model.RateLimited, Code: "rate_limited", RetryAfter: b.resetAt.Sub(now.Time()),
		Message: "The points of this minute are used up.",
	}
}
