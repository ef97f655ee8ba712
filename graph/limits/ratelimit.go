package limits

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// CostPerMinute is the cost that an account may use in a minute: twelve of the largest requests. The
// type RateLimit shows it to callers.
const CostPerMinute = 60_000

const (
	countedCallers = 10_000

	// introspectionsPerMinute bounds how often a client network reads the schema without signing
	// in. Each page of GraphiQL and each run of a code generator reads it once.
	introspectionsPerMinute = 60
)

const overLimit = "The rate limit of this minute is used up."

// rateLimit counts the cost that each caller has used in the current minute, in this process. It is
// bounded: the caller with the oldest last request is forgotten first.
type rateLimit struct {
	limit int

	mu      sync.Mutex
	callers *simplelru.LRU[string, budget]
}

// budget is one caller's minute.
type budget struct {
	cost    int  // of the last request
	refused bool // whether the last request exceeded the limit
	used    int  // at most the limit
	resetAt time.Time
}

func newRateLimit(limit int) *rateLimit {
	callers, err := simplelru.NewLRU[string, budget](countedCallers, nil)
	if err != nil {
		// Only a size below 1 fails.
		panic(err)
	}
	return &rateLimit{limit: limit, callers: callers}
}

// take charges a request. A request over the limit is refused and not charged.
func (l *rateLimit) take(caller string, cost int, now time.Time) budget {
	l.mu.Lock()
	defer l.mu.Unlock()

	b, _ := l.callers.Get(caller)
	if !now.Before(b.resetAt) {
		b = budget{resetAt: now.Add(time.Minute)}
	}

	b.cost, b.refused = cost, b.used+cost > l.limit
	if !b.refused {
		b.used += cost
	}

	l.callers.Add(caller, b)
	return b
}

// Charge charges the request to the caller's account, once, as soon as the caller is known. It
// returns the model.Error rate_limited over the limit. Requests of unauthenticated callers are not
// charged: the mutations open to them have throttles of their own.
func (r *Request) Charge(ctx context.Context, caller auth.Caller) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.budget != nil {
		return r.budget.check(r.now)
	}

	cost := extension.GetComplexityStats(ctx).Complexity + r.surcharge
	b := r.limits.rate.take(accountKey(caller), cost, r.now)
	r.budget = &b

	if b.refused {
		r.retryAfter = b.resetAt.Sub(r.now)
	}

	return b.check(r.now)
}

func (b *budget) check(now time.Time) error {
	if !b.refused {
		return nil
	}
	return &model.Error{Kind: model.RateLimited, Code: "rate_limited", RetryAfter: b.resetAt.Sub(now), Message: overLimit}
}

// RateLimit returns the limit, the request's cost and the state of the account's minute. The request
// must have been charged.
func (r *Request) RateLimit() *generated.RateLimit {
	r.mu.Lock()
	defer r.mu.Unlock()

	return &generated.RateLimit{
		Limit: CostPerMinute, Cost: r.budget.cost, Remaining: CostPerMinute - r.budget.used, ResetAt: model.At(r.budget.resetAt),
	}
}

// ChargeIntrospection charges a request that reads the schema: to the caller's account or, without
// one, to the client's network. It returns nil, or the refusal.
func (r *Request) ChargeIntrospection(ctx context.Context) *gqlerror.Error {
	r.mu.Lock()
	r.surcharge = introspectionCost
	r.mu.Unlock()

	caller, err := auth.CallerOf(ctx)
	if err == nil && caller.User != nil {
		if r.Charge(ctx, caller) == nil {
			return nil
		}

		return RefusalFor(generated.ErrorCodeRateLimited, r.budget.resetAt.Sub(r.now), overLimit)
	}

	if r.shared {
		return nil
	}

	b := r.limits.introspections.take(r.network, 1, r.now)
	if !b.refused {
		return nil
	}

	return RefusalFor(generated.ErrorCodeRateLimited, b.resetAt.Sub(r.now),
		"The schema was read too often from this network without signing in.")
}

// accountKey is the caller's account as the key of its counters and queues.
func accountKey(caller auth.Caller) string { return strconv.FormatInt(caller.User.AccountID, 10) }
