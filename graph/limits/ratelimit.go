package limits

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tallygate/tallygate/db/model"
)

// CostPerMinute is the cost that an account may use in a minute: twelve of the largest requests.
// The type RateLimit shows it to callers.
const CostPerMinute = 60_000

// timePerPoint is the processor time that a point pays for, of work whose cost is unknown before.
// An account that asks for nothing else gets a tenth of a processor.
const timePerPoint = 100 * time.Microsecond

// Points returns the price of processor time.
func Points(d time.Duration) int { return int(d / timePerPoint) }

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

// take charges points if the minute has room for a cost, which may be larger. A request without
// room is refused and not charged.
func (l *rateLimit) take(caller string, room, points int, now time.Time) budget {
	l.mu.Lock()
	defer l.mu.Unlock()

	b, _ := l.callers.Get(caller)
	if !now.Before(b.resetAt) {
		b = budget{resetAt: now.Add(time.Minute)}
	}

	b.cost, b.refused = points, b.used+room > l.limit
	if !b.refused {
		b.used += points
	}

	l.callers.Add(caller, b)
	return b
}

// spend charges for work that is done, up to the limit, and refuses nothing.
func (l *rateLimit) spend(caller string, cost int, now time.Time) budget {
	l.mu.Lock()
	defer l.mu.Unlock()

	b, _ := l.callers.Get(caller)
	if !now.Before(b.resetAt) {
		b = budget{resetAt: now.Add(time.Minute)}
	}
	b.cost, b.refused = cost, false
	b.used = min(b.used+cost, l.limit)
	l.callers.Add(caller, b)
	return b
}

func (b *budget) check(now time.Time) error {
	if !b.refused {
		return nil
	}
	return &model.Error{Kind: model.RateLimited, Code: "rate_limited", RetryAfter: b.resetAt.Sub(now), Message: overLimit}
}
