package graph

import (
	"context"
	"reflect"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/graph/limits"
)

// mutations runs every mutation: it waits for the account's turn, so that one account's writes do
// not delay other accounts or the hits, and it reports the mistakes in the input as userErrors of
// the payload. So a mutation's resolver just returns its error.
type mutations struct{}

var _ graphql.FieldInterceptor = mutations{}

// ExtensionName implements graphql.HandlerExtension.
func (mutations) ExtensionName() string { return "Mutations" }

// Validate implements graphql.HandlerExtension.
func (mutations) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptField runs a mutation in its turn. It does not change other fields.
func (mutations) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	if field.Object != "Mutation" || field.Field.Name == "__typename" {
		return next(ctx)
	}

	end, err := limits.Of(ctx).TakeTurn(ctx, field.Field.Name)
	if err != nil {
		return nil, err
	}
	defer end()

	// The fields of the payload are read afterwards and must see the write.
	defer requestOf(ctx).forget()

	return withUserErrors(next(context.WithValue(ctx, turnEnd{}, end)))
}

// withUserErrors turns an error that the schema reports in userErrors into a payload with nothing
// else in it. It returns other errors as they are. payload is a pointer to a mutation's payload
// type and may be nil.
func withUserErrors(payload any, err error) (any, error) {
	if err == nil {
		return payload, nil
	}

	mistakes, err := userErrors(err)
	if err != nil {
		return nil, err
	}

	failed := reflect.New(reflect.TypeOf(payload).Elem())
	failed.Elem().FieldByName("UserErrors").Set(reflect.ValueOf(mistakes))
	return failed.Interface(), nil
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
func (r *Resolver) purge(ctx context.Context, siteIDs ...int64) {
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
		r.log.ErrorContext(ctx, "purge deleted sites", "request_id", requestID(ctx), "error", err)
	}
}
