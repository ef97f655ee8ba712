package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/idempotency"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/schema"
)

// Repeats is the extension that answers repeated calls of mutations with an idempotencyKey. It runs
// inside of Access, so a repeat needs the same permission. A mutation takes part when its input has
// the field: its resolver knows nothing of keys.
type Repeats struct{ resolver *Resolver }

var _ graphql.FieldInterceptor = Repeats{}

// Repeats returns the extension for the resolvers.
func (r *Resolver) Repeats() Repeats { return Repeats{r} }

// ExtensionName implements graphql.HandlerExtension.
func (Repeats) ExtensionName() string { return "Repeats" }

// Validate implements graphql.HandlerExtension.
func (Repeats) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptField runs a mutation unless its call is a repeat.
func (p Repeats) InterceptField(ctx context.Context, next graphql.Resolver) (any, error) {
	field := graphql.GetFieldContext(ctx)
	if field.Object != "Mutation" {
		return next(ctx)
	}

	input, key := splitKey(field.Args["input"])
	if key == nil {
		return next(ctx)
	}

	call, err := p.call(ctx, field.Field.Name, input, *key)
	if err != nil {
		return nil, err
	}
	if payload, err := p.repeat(ctx, field, call); payload != nil || err != nil {
		return payload, err
	}

	payload, err := next(idempotency.WithCall(ctx, call))
	if err == nil {
		return payload, nil
	}

	// A concurrent call with the key may have committed, and then this one fails for that reason
	// alone: the name is taken, or a limit reached. This call itself may have failed after its
	// commit.
	repeated, lookup := p.repeat(ctx, field, call)
	switch {
	case repeated != nil && lookup == nil:
		return repeated, nil
	case errors.Is(err, idempotency.ErrTaken) && lookup != nil:
		return nil, lookup
	}
	return nil, err
}

// splitKey returns a mutation's input without its key, and the key; nil for an input without one.
func splitKey(input any) (any, *string) {
	given := reflect.ValueOf(input)
	if given.Kind() != reflect.Struct {
		return input, nil
	}
	key := given.FieldByName("IdempotencyKey")
	if !key.IsValid() || key.IsNil() {
		return input, nil
	}

	without := reflect.New(given.Type()).Elem()
	without.Set(given)
	without.FieldByName("IdempotencyKey").SetZero()
	return without.Interface(), key.Interface().(*string)
}

// maxKey is the length of a key in characters.
const maxKey = 100

// call returns the identity of the mutation's call.
func (p Repeats) call(ctx context.Context, mutation string, input any, key string) (idempotency.Call, error) {
	if !isKey(key) {
		return idempotency.Call{}, model.InvalidField(idempotency.Field, "invalid_idempotency_key",
			fmt.Sprintf("Use 1 to %d printable ASCII characters.", maxKey))
	}

	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return idempotency.Call{}, err
	}
	text, err := json.Marshal(input)
	if err != nil {
		return idempotency.Call{}, fmt.Errorf("encode the input of %s: %w", mutation, err)
	}

	member := memberOf(ctx)
	call := idempotency.Call{
		AccountID: member.AccountID, UserID: member.ID, At: requestOf(ctx).now,
		Key:   p.resolver.ids.Fingerprint("idempotency key", key),
		Input: p.resolver.ids.Fingerprint(mutation, string(text)),
	}
	if caller.Token != nil {
		call.TokenID = caller.Token.ID
	}

	return call, nil
}

func isKey(key string) bool {
	if key == "" || len(key) > maxKey {
		return false
	}
	for _, c := range []byte(key) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// repeat returns the payload of a repeated call: the object alone, without secrets. It is nil for a
// call that was not made before.
func (p Repeats) repeat(ctx context.Context, field *graphql.FieldContext, call idempotency.Call) (any, error) {
	object, err := p.resolver.idempotency.Find(ctx, call)
	if object == nil || err != nil {
		return nil, err
	}

	id := p.resolver.ids.Of(object.Kind, object.ID)
	if object.Kind == nodeid.Delivery {
		id = p.resolver.ids.OfDelivery(object.SiteID, object.ID)
	}

	node, err := p.node(ctx, object.Kind, object.ID, id)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, &model.Error{
			Kind: model.NotFound, Code: model.ErrNotFound.Code, Field: idempotency.Field,
			Message: "An earlier call with this key succeeded. Its object was deleted, or you no longer reach it.",
		}
	}

	return payloadOf(field.Field.Definition.Type.Name(), node)
}

// node returns the object of an earlier call, or nil. The caller is read again for an account: a
// concurrent call may have made the caller its owner during this request.
func (p Repeats) node(ctx context.Context, kind nodeid.Kind, number int64, id string) (schema.Node, error) {
	if kind != nodeid.Account {
		return (&queryResolver{p.resolver}).Node(ctx, id)
	}

	user, err := auth.Reload(ctx)
	if user == nil || err != nil {
		return nil, err
	}
	if member := user.In(model.AccountID(number)); member != nil {
		return member.Account, nil
	}
	return nil, nil
}

// payloadOf returns the payload of a mutation with an object and nothing else.
func payloadOf(name string, object any) (any, error) {
	t, _ := payloadType(name)
	payload := reflect.New(t)
	for i := range t.NumField() {
		if t.Field(i).Type == reflect.TypeOf(object) {
			payload.Elem().Field(i).Set(reflect.ValueOf(object))
			return payload.Interface(), nil
		}
	}
	return nil, fmt.Errorf("%s has no field for %T", name, object)
}
