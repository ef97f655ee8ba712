package graph

import (
	"context"
	"errors"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/turns"
)

// The bounds of changes in progress in this process. A change takes a few milliseconds, so that an
// account's line is served within its patience on any disk.
const (
	writesAtOnce           = 4
	writesAtOncePerAccount = 2
	openWritesAtOnce       = 4 // sign-ins and the like, most of whose time is spent on a password's hash
	writeLine              = 200
	writeLinePerCaller     = 50
	writePatience          = 3 * time.Second
	openWritePatience      = 5 * time.Second // as long as a password waits to be hashed
)

// openMutations are the fields that anybody may call. They take turns by client network; all others
// by account.
var openMutations = map[string]bool{
	"signUp": true, "signIn": true, "signOut": true,
	"requestPasswordReset": true, "resetPassword": true, "acceptInvitation": true,
}

func newWrites() *turns.Queue {
	return &turns.Queue{
		Most: writesAtOnce, MostPerKey: writesAtOncePerAccount,
		Line: writeLine, LinePerKey: writeLinePerCaller, Patience: writePatience,
	}
}

// newOpenWrites makes the turns of openMutations. One network may have all of them: behind a proxy
// that is not configured, all clients are one.
func newOpenWrites() *turns.Queue {
	return &turns.Queue{
		Most: openWritesAtOnce, MostPerKey: openWritesAtOnce,
		Line: writeLine, LinePerKey: writeLinePerCaller, Patience: openWritePatience,
	}
}

// writeTurns makes each mutation wait for its turn, so that one account's changes do not keep other
// accounts, or the hits, waiting for the database.
type writeTurns struct{ *Resolver }

var _ graphql.FieldInterceptor = writeTurns{}

// ExtensionName names the extension to gqlgen.
func (writeTurns) ExtensionName() string { return "WriteTurns" }

// Validate is part of gqlgen's extension interface.
func (writeTurns) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptField runs a mutation when its turn has come. Other fields pass.
func (w writeTurns) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	if field.Object != "Mutation" || field.Field.Name == "__typename" {
		return next(ctx)
	}

	end, err := w.takeTurn(ctx, field.Field.Name)
	if err != nil {
		return nil, err
	}
	defer end()

	// the answer's fields are read after it
	defer requestOf(ctx).forget()

	return next(context.WithValue(ctx, turnEnd{}, end))
}

// turnEnd is the key of the function that ends the turn of a mutation.
type turnEnd struct{}

// endTurn ends the mutation's turn early, for the part of it that others need not wait for.
func endTurn(ctx context.Context) {
	if end, ok := ctx.Value(turnEnd{}).(func()); ok {
		end()
	}
}

// takeTurn waits for the mutation's turn, charged for the request. When one mutation of a request
// gets none, the later ones do not either: what is changed is always the beginning of what was
// asked for.
func (r *Resolver) takeTurn(ctx context.Context, mutation string) (end func(), err error) {
	request := requestOf(ctx)

	// mutations of a request run one after another
	if request.refused != nil {
		return nil, request.refused
	}

	if openMutations[mutation] {
		end, err = r.openWrites.Take(ctx, request.network)
	} else {
		end, err = r.takeAccountTurn(ctx)
	}

	if errors.Is(err, turns.ErrBusy) {
		err = &model.Error{
			Kind: model.RateLimited, Code: "rate_limited", RetryAfter: time.Second, Message: "Too many changes are in progress. Try again.",
		}

		request.refused, request.retryAfter = err, time.Second
	}

	return end, err
}

// takeAccountTurn is takeTurn for a mutation of the caller's account. A caller who is not known
// needs none: the mutation refuses it without a change.
func (r *Resolver) takeAccountTurn(ctx context.Context) (end func(), err error) {
	caller, err := auth.Who(ctx)
	if err != nil || caller.User == nil {
		return func() {}, nil
	}
	if err := r.charge(ctx, caller); err != nil {
		return nil, err
	}

	return r.writes.Take(ctx, accountKey(caller))
}
