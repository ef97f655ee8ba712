// Package limits bounds what one caller of the GraphQL endpoint can take from the others: the size
// and cost of a document, the cost per minute, the mutations in progress, and requests that ignore
// Retry-After. The endpoint and the resolvers call it. It never reads the database, and it counts in
// this process only.
package limits

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/tallygate/tallygate/graph/limits/turns"
)

// Limits holds the counters and queues of this process. It is safe for concurrent use.
type Limits struct {
	rate           *rateLimit   // by account
	introspections *rateLimit   // by client network, for callers without an account
	mutations      *turns.Queue // by account
	openMutations  *turns.Queue // by client network
	impatience     *impatience
}

// New returns empty counters and queues. costPerMinute is the cost that an account may use in a
// minute; 0 means CostPerMinute.
func New(costPerMinute int) *Limits {
	if costPerMinute == 0 {
		costPerMinute = CostPerMinute
	}

	return &Limits{
		rate:           newRateLimit(costPerMinute),
		introspections: newRateLimit(introspectionsPerMinute),
		mutations:      newMutations(),
		openMutations:  newOpenMutations(),
		impatience:     newImpatience(),
	}
}

// Request is what the limits keep of one request.
type Request struct {
	limits  *Limits
	network string    // of the client, see Network
	shared  bool      // many clients have this network: no limit by network applies
	now     time.Time // arrival

	mu         sync.Mutex
	budget     *budget       // nil until the caller is known
	surcharge  int           // cost beyond the complexity
	refused    error         // of the first mutation without a turn: later ones get none either
	retryAfter time.Duration // sent to a caller over the rate limit or without a turn
}

type requestKey struct{}

// WithRequest returns a context with the limits of one request, which arrived now from addr. shared
// means that many clients have that address.
func (l *Limits) WithRequest(ctx context.Context, addr netip.Addr, shared bool, now time.Time) context.Context {
	return context.WithValue(ctx, requestKey{}, &Request{limits: l, network: networkOf(addr), shared: shared, now: now})
}

// Of returns the limits of a request. It panics on a context without WithRequest.
func Of(ctx context.Context) *Request { return ctx.Value(requestKey{}).(*Request) }

// Network returns the client's network: an IPv4 address, or an IPv6 network of 64 bits.
func (r *Request) Network() string { return r.network }

// networkOf returns the network that one client can be assumed to have.
func networkOf(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if network, err := addr.Prefix(64); addr.Is6() && err == nil {
		addr = network.Addr()
	}
	return addr.String()
}

// setRetryAfter records the wait that the caller was sent.
func (r *Request) setRetryAfter(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retryAfter = d
}
