package limits

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/turns"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/web"
)

// Request is what the limits keep of one request.
type Request struct {
	limits  *Limits
	network string    // of the client, see Network
	shared  bool      // many clients have this network: no limit by network applies
	now     time.Time // arrival

	mu         sync.Mutex
	budget     *budget       // nil until the caller is known
	charged    bool          // in full; false: at most the admission
	surcharge  int           // cost beyond the complexity
	refused    error         // of the first mutation without a turn: later ones get none either
	retryAfter time.Duration // sent to a caller over the rate limit or without a turn
}

type requestKey struct{}

// WithRequest returns a context with the limits of one request, which arrived now from addr. shared
// means that many clients have that address.
func (l *Limits) WithRequest(ctx context.Context, addr netip.Addr, shared bool, now time.Time) context.Context {
	return context.WithValue(
		ctx, requestKey{},
		&Request{limits: l, network: web.Network(addr, 32, 64).Addr().String(), shared: shared, now: now},
	)
}

// Of returns the limits of a request. It panics on a context without WithRequest.
func Of(ctx context.Context) *Request { return ctx.Value(requestKey{}).(*Request) }

// Network returns the client's network: an IPv4 address, or an IPv6 network of 64 bits.
func (r *Request) Network() string { return r.network }

// setRetryAfter records the wait that the caller was sent.
func (r *Request) setRetryAfter(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retryAfter = d
}

// admission is what Admit charges: the price of a request that the caller's role forbids.
const admission = 1

// Admit refuses a request whose cost exceeds the remaining minute, once, as soon as the caller is
// known. It charges an admitted request one point: Charge adds the remaining cost when the caller
// has the permission. It returns the model.Error rate_limited over the limit.
func (r *Request) Admit(ctx context.Context, caller auth.Caller) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.budget != nil {
		return r.budget.check(r.now)
	}
	return r.take(caller, r.cost(ctx), admission)
}

// Charge charges the request in full to the caller's account or to the shared links of the account,
// once. It must precede all work beyond the check of the permission. It returns the model.Error
// rate_limited over the limit. Requests of unauthenticated callers are not charged: the mutations
// open to them have throttles of their own.
func (r *Request) Charge(ctx context.Context, caller auth.Caller) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.charged || r.budget != nil && r.budget.refused {
		return r.budget.check(r.now)
	}

	cost := r.cost(ctx)
	if r.budget != nil {
		cost -= admission
	}

	r.charged = true
	return r.take(caller, cost, cost)
}

// ChargeMore charges a request for work whose cost was unknown when it began. It returns the
// model.Error rate_limited over the limit. The request must have been charged.
func (r *Request) ChargeMore(caller auth.Caller, cost int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(caller, cost, cost)
}

// cost returns the cost of the request that is known before it runs. r.mu must be held.
func (r *Request) cost(ctx context.Context) int {
	return extension.GetComplexityStats(ctx).Complexity + r.surcharge
}

// take charges points if the caller's minute has room for a cost. r.mu must be held.
func (r *Request) take(caller auth.Caller, room, points int) error {
	b := r.limits.rate.take(AccountKey(caller), room, points, r.now)
	if r.budget != nil {
		b.cost += r.budget.cost
	}

	r.budget = &b
	if b.refused {
		r.retryAfter = b.resetAt.Sub(r.now)
	}

	return b.check(r.now)
}

// ChargeWork charges a request for work that is done, up to the limit. The request must have been
// charged; it is not refused, but the caller's next one can be.
func (r *Request) ChargeWork(caller auth.Caller, cost int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	b := r.limits.rate.spend(AccountKey(caller), cost, r.now)
	b.cost += r.budget.cost
	r.budget = &b
}

// maxHeld bounds the memory of the reports that the requests of an account, or of its shared links,
// hold until they are answered, in bytes. One report may take all of it.
const maxHeld = 128 << 20

// Hold counts the memory of a report until ctx, the context of the request, ends. It reports
// whether the caller has room for it.
func (r *Request) Hold(ctx context.Context, caller auth.Caller, bytes int64) bool {
	l, key := r.limits, AccountKey(caller)
	l.heldLock.Lock()
	defer l.heldLock.Unlock()

	if l.held[key]+bytes > maxHeld {
		return false
	}
	l.held[key] += bytes
	context.AfterFunc(ctx, func() {
		l.heldLock.Lock()
		defer l.heldLock.Unlock()
		if l.held[key] -= bytes; l.held[key] == 0 {
			delete(l.held, key)
		}
	})
	return true
}

// RateLimit returns the limit, the request's cost and the state of the account's minute. The
// request must have been charged.
func (r *Request) RateLimit() *generated.RateLimit {
	r.mu.Lock()
	defer r.mu.Unlock()

	limit := r.limits.rate.limit
	return &generated.RateLimit{
		Limit:     limit,
		Cost:      r.budget.cost,
		Remaining: limit - r.budget.used,
		ResetAt:   model.At(r.budget.resetAt),
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

	b := r.limits.introspections.take(r.network, 1, 1, r.now)
	if !b.refused {
		return nil
	}

	return RefusalFor(generated.ErrorCodeRateLimited, b.resetAt.Sub(r.now),
		"The schema was read too often from this network without signing in.")
}

// AccountKey returns the caller's account as the key of its counters and queues. All shared links
// of an account have one key together, and all its guests who belong to no other account another
// one, apart from the account's own: so they cannot use up the budget of the account, and an
// account cannot multiply its budget with links or guests.
func AccountKey(caller auth.Caller) string {
	if caller.Shared != nil {
		return "links " + strconv.FormatInt(int64(caller.Shared.Site.AccountID), 10)
	}
	if caller.User.IsGuest() {
		return "guests " + strconv.FormatInt(int64(caller.User.AccountID), 10)
	}
	return strconv.FormatInt(int64(caller.User.AccountID), 10)
}

// TakeTurn admits the request, waits for a mutation's turn, and returns the function that ends it.
// A mutation that is open to every caller waits for the turn of its client network, and any other
// one for the turn of its account. After the first mutation without a turn, all later ones of the
// request are refused too: the mutations that ran are always the first ones of the document.
func (r *Request) TakeTurn(ctx context.Context, open bool) (end func(), err error) {
	// The mutations of a request run one after another.
	if r.refused != nil {
		return nil, r.refused
	}

	if open {
		end, err = r.limits.openMutations.Take(ctx, r.network)
	} else {
		end, err = r.takeAccountTurn(ctx)
	}

	if errors.Is(err, turns.ErrBusy) {
		err = &model.Error{
			Kind: model.RateLimited, Code: "rate_limited", RetryAfter: time.Second,
			Message: "Too many changes are in progress. Try again.",
		}

		r.refused = err
		r.setRetryAfter(time.Second)
	}

	return end, err
}

// takeAccountTurn is TakeTurn for a mutation of the caller's account. An unauthenticated caller
// needs no turn: the mutation refuses the call without a write.
func (r *Request) takeAccountTurn(ctx context.Context) (end func(), err error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return func() {}, nil
	}
	if err := r.Admit(ctx, caller); err != nil {
		return nil, err
	}

	return r.limits.mutations.Take(ctx, AccountKey(caller))
}

// TakeQueryTurn waits for the turn of a query, and returns the function that ends it. The caller
// must end it after the response is written. It returns turns.ErrBusy, or the context's error if
// the context ends first. An unauthenticated caller, and one that cannot be identified now, needs
// no turn: nothing that it can query grows.
func (r *Request) TakeQueryTurn(ctx context.Context) (end func(), err error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil && caller.Shared == nil {
		return func() {}, nil
	}

	return r.takeTurn(ctx, r.limits.queries, caller)
}

// TakeMessageTurn is TakeQueryTurn for a message to the tools for assistants.
func (r *Request) TakeMessageTurn(ctx context.Context, caller auth.Caller) (end func(), err error) {
	return r.takeTurn(ctx, r.limits.messages, caller)
}

func (r *Request) takeTurn(ctx context.Context, queue *turns.Queue, caller auth.Caller) (end func(), err error) {
	end, err = queue.Take(ctx, AccountKey(caller))
	if errors.Is(err, turns.ErrBusy) {
		r.setRetryAfter(time.Second)
	}
	return end, err
}

// Impatient returns the remaining wait of a caller that ignored Retry-After too often, after a
// short pause; or 0. The caller must answer a positive wait without reading the request.
func (l *Limits) Impatient(r *http.Request, now time.Time) time.Duration {
	c, ok := credentialOf(r)
	if !ok {
		return 0
	}

	wait := l.impatience.wait(c, now)
	if wait > 0 {
		pause(r.Context(), refusalPause)
	}

	return wait
}

// CountRefusal counts the answered request if it was refused with Retry-After.
func (l *Limits) CountRefusal(r *http.Request, now time.Time) {
	request := Of(r.Context())
	request.mu.Lock()
	retryAfter := request.retryAfter
	request.mu.Unlock()

	if c, ok := credentialOf(r); ok && retryAfter > 0 {
		l.impatience.add(c, retryAfter, now)
	}
}
