package limits

import (
	"context"
	"errors"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/limits/turns"
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
	openMutationPatience      = 5 * time.Second // as long as a password waits to be hashed
)

// openMutations are the fields that need no account. They queue by client network; all others by
// account.
var openMutations = map[string]bool{
	"signUp": true, "signIn": true, "signOut": true,
	"requestPasswordReset": true, "resetPassword": true, "acceptInvitation": true,
}

func newMutations() *turns.Queue {
	return &turns.Queue{
		Most: mutationsAtOnce, MostPerKey: mutationsAtOncePerAccount,
		Line: mutationQueue, LinePerKey: mutationQueuePerCaller, Patience: mutationPatience,
	}
}

// newOpenMutations returns the queue of openMutations. One network may take all turns: behind a
// proxy that is not configured, all clients have one network.
func newOpenMutations() *turns.Queue {
	return &turns.Queue{
		Most: openMutationsAtOnce, MostPerKey: openMutationsAtOnce,
		Line: mutationQueue, LinePerKey: mutationQueuePerCaller, Patience: openMutationPatience,
	}
}

// TakeTurn waits for a mutation's turn, charged for the request, and returns the function that ends
// it. After the first mutation without a turn, all later ones of the request are refused too:
// the mutations that ran are always the first ones of the document.
func (r *Request) TakeTurn(ctx context.Context, mutation string) (end func(), err error) {
	// The mutations of a request run one after another.
	if r.refused != nil {
		return nil, r.refused
	}

	if openMutations[mutation] {
		end, err = r.limits.openMutations.Take(ctx, r.network)
	} else {
		end, err = r.takeAccountTurn(ctx)
	}

	if errors.Is(err, turns.ErrBusy) {
		err = &model.Error{
			Kind: model.RateLimited, Code: "rate_limited", RetryAfter: time.Second, Message: "Too many changes are in progress. Try again.",
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
	if err := r.Charge(ctx, caller); err != nil {
		return nil, err
	}

	return r.limits.mutations.Take(ctx, accountKey(caller))
}
