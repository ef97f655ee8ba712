package limits

import (
	"math"
	"time"

	"github.com/tallygate/tallygate/db/turns"
)

// The bounds of mutations in progress in this process. A mutation takes a few milliseconds, so an
// account's full queue is served within its patience on any disk.
const (
	mutationsAtOnce           = 4
	mutationsAtOncePerAccount = 2
	openMutationsAtOnce       = 4 // sign-ins and the like, most of whose time is spent on a password's hash
	mutationQueue             = 200
	mutationQueuePerCaller    = 50
	mutationPatience          = 3 * time.Second
	openMutationPatience      = 5 * time.Second // the time that a password waits to be hashed
)

// The bounds of queries in progress in this process, and of messages to the tools for assistants.
// What a query has read stays in memory until its response is written, so that they bound the
// memory of an account and of a shared link.
const (
	queriesAtOncePerCaller = 12
	queryLine              = 1_000
	queryLinePerCaller     = 100
	queryPatience          = 5 * time.Second
)

func newMutations() *turns.Queue {
	return &turns.Queue{
		Most: mutationsAtOnce, MostPerKey: mutationsAtOncePerAccount,
		Line: mutationQueue, LinePerKey: mutationQueuePerCaller, Patience: mutationPatience,
	}
}

// newQueries returns the queue of queries, or of messages. No account waits for another one's.
func newQueries() *turns.Queue {
	return &turns.Queue{
		Most: math.MaxInt, MostPerKey: queriesAtOncePerCaller,
		Line: queryLine, LinePerKey: queryLinePerCaller, Patience: queryPatience,
	}
}

// newOpenMutations returns the queue of mutations that need no account. One network may take all
// turns: behind a proxy that is not configured, all clients have one network.
func newOpenMutations() *turns.Queue {
	return &turns.Queue{
		Most: openMutationsAtOnce, MostPerKey: openMutationsAtOnce,
		Line: mutationQueue, LinePerKey: mutationQueuePerCaller, Patience: openMutationPatience,
	}
}
