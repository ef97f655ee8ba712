package resolver

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/graph/loaders"
	"github.com/tallygate/tallygate/graph/schema"
)

// request is what the resolvers of one request share.
type request struct {
	id  string        // returned with an internal error, and logged with it
	now model.Instant // arrival

	newLoaders func() *loaders.Set

	mu         sync.Mutex
	loads      *loaders.Set
	reads      map[any]*sharedRead
	purgeUntil time.Time // zero before the first deletion
	rowBytes   int       // of the rows of reports
}

type requestKey struct{}

// WithRequest returns a context for the resolvers of a request that arrived at a time, and the id
// of the request.
func WithRequest(
	ctx context.Context, d *db.DB, ids *nodeid.IDs, now model.Instant,
) (context.Context, string) {
	state := &request{
		id:         rand.Text()[:16],
		now:        now,
		newLoaders: func() *loaders.Set { return loaders.New(d, now.Month()) },
	}
	return context.WithValue(schema.WithIDs(ctx, ids), requestKey{}, state), state.id
}

// requestOf returns what the resolvers of the request share. It panics on a context without it.
func requestOf(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

// RequestID returns the id of the request, which is returned and logged with an internal error.
func RequestID(ctx context.Context) string {
	if state, ok := ctx.Value(requestKey{}).(*request); ok {
		return state.id
	}
	return "none"
}

func (r *request) loaders() *loaders.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loads == nil {
		r.loads = r.newLoaders()
	}
	return r.loads
}

// forget drops what was loaded. Mutations call it after a write.
func (r *request) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads, r.reads = nil, nil
}

// maxRowBytes bounds the rows of reports in one response, in bytes of JSON. Values have up to 8 KB,
// and a request has up to 16,000 rows. A response is in memory several times while it is written.
const maxRowBytes = 4 << 20

// takeRow counts a row of a report. It fails with the model.Error too_expensive beyond maxRowBytes.
func (r *request) takeRow(bytes int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rowBytes += bytes; r.rowBytes > maxRowBytes {
		return &model.Error{
			Kind: model.Invalid, Code: reports.ErrTooExpensive.Code, Field: "first",
			Message: "The rows of the request's reports have more than 4 MB. Ask for fewer rows.",
		}
	}
	return nil
}

// purgeTime is how long the deletions of one request may delay its response by purging rows. The
// worker purges the remaining rows.
const purgeTime = 3 * time.Second

// purgeEnd returns when the purges of the request must stop. The time runs from the first of them.
func (r *request) purgeEnd() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.purgeUntil.IsZero() {
		r.purgeUntil = time.Now().Add(purgeTime)
	}
	return r.purgeUntil
}

// sharedRead is one call of shared.
type sharedRead struct {
	once  sync.Once
	value any
	err   error
}

var errSharedRead = errors.New("graph: a shared read panicked")

// shared returns the result of read, which it calls once per request and key until a mutation
// writes. A list of users contains the same account many times; its lists are read once.
func shared[T any](ctx context.Context, key any, read func() (T, error)) (T, error) {
	r := requestOf(ctx)
	r.mu.Lock()
	one := r.reads[key]
	if one == nil {
		one = &sharedRead{err: errSharedRead}

		if r.reads == nil {
			r.reads = make(map[any]*sharedRead)
		}

		r.reads[key] = one
	}

	r.mu.Unlock()

	one.once.Do(func() { one.value, one.err = read() })
	value, _ := one.value.(T)
	return value, one.err
}

// accountRead is the key of a shared read of an account's field.
type accountRead struct {
	field     string
	accountID model.AccountID
	arguments string
}

// Mutations is the extension that runs every mutation: it waits for the account's turn, so that one
// account's writes do not delay other accounts or the hits, it names the actor of the changes for
// the audit log, and it reports the mistakes in the input as userErrors of the payload. So a
// mutation's resolver just returns its error.
type Mutations struct{}

var _ graphql.FieldInterceptor = Mutations{}

// ExtensionName implements graphql.HandlerExtension.
func (Mutations) ExtensionName() string { return "Mutations" }

// InterceptField runs a mutation in its turn. It does not change other fields.
func (Mutations) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	if field.Object != "Mutation" || field.Field.Name == "__typename" {
		return next(ctx)
	}

	open := field.Field.Definition.Directives.ForName("open") != nil
	end, err := limits.Of(ctx).TakeTurn(ctx, open)
	if err != nil {
		return nil, err
	}
	defer end()

	// The fields of the payload are read afterwards and must see the write.
	defer requestOf(ctx).forget()

	ctx = audit.WithActor(ctx, actorOf(ctx, field.Field.Name))
	payload, err := next(context.WithValue(ctx, turnEnd{}, end))
	if err == nil {
		return payload, nil
	}
	return failedPayload(field.Field.Definition.Type.Name(), err)
}

// actorOf returns the caller as the author of a mutation's changes. A caller who cannot be
// identified is unauthenticated: the mutation refuses the call.
func actorOf(ctx context.Context, mutation string) audit.Actor {
	actor := audit.Actor{Kind: audit.Unauthenticated, Action: mutation, At: requestOf(ctx).now}
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return actor
	}

	actor.Kind, actor.UserID, actor.Email = audit.User, caller.User.ID, caller.User.Email
	if caller.Token != nil {
		actor.Kind, actor.TokenID, actor.TokenName = audit.APIToken, caller.Token.ID, caller.Token.Name
	}

	return actor
}

// turnEnd is the context key of the function that ends a mutation's turn.
type turnEnd struct{}

// endTurn ends the mutation's turn early, before work that other mutations need not wait for.
func endTurn(ctx context.Context) {
	if end, ok := ctx.Value(turnEnd{}).(func()); ok {
		end()
	}
}

// purge deletes the rows of sites that this request has deleted, up to purgeTime. The sites are
// deleted already: the worker retries what fails here, and does all of it while another request
// purges.
func (r *Resolver) purge(ctx context.Context, siteIDs ...model.SiteID) {
	// The account's other mutations need not wait for the purge.
	endTurn(ctx)

	select {
	case r.purging <- struct{}{}:
		defer func() { <-r.purging }()
	default:
		return
	}

	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), requestOf(ctx).purgeEnd())
	defer cancel()

	if _, err := r.retention.PurgeSites(ctx, siteIDs); err != nil && ctx.Err() == nil {
		r.log.ErrorContext(ctx, "purge deleted sites", "request_id", RequestID(ctx), "error", err)
	}
}
