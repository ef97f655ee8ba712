// Package limits bounds what one caller of the GraphQL endpoint can take from the others: the size
// and cost of a document, the cost per minute, the mutations in progress, and requests that ignore
// Retry-After. The endpoint and the resolvers call it. It never reads the database, and it counts
// in this process only.
package limits

import (
	"sync"

	"github.com/tallygate/tallygate/db/turns"
)

// Limits holds the counters and queues of this process. It is safe for concurrent use.
type Limits struct {
	rate           *rateLimit   // by account
	introspections *rateLimit   // by client network, for callers without an account
	mutations      *turns.Queue // by account
	openMutations  *turns.Queue // by client network
	queries        *turns.Queue // by account or shared link
	messages       *turns.Queue // of the tools for assistants, ditto: each can wait for a query
	impatience     *impatience

	heldLock sync.Mutex
	held     map[string]int64 // bytes of reports that requests hold, by account or by its shared links
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
		queries:        newQueries(),
		messages:       newQueries(),
		impatience:     newImpatience(),
		held:           make(map[string]int64),
	}
}
