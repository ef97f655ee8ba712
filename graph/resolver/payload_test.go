package resolver

import (
	"reflect"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestPayloads compares the list of payloads with the types that the mutations return, and fills
// the userErrors of each.
func TestPayloads(t *testing.T) {
	returned := map[string]bool{}
	for method := range reflect.TypeFor[generated.MutationResolver]().Methods() {
		want := method.Type.Out(0)
		returned[want.Elem().Name()] = true

		got, err := failedPayload(want.Elem().Name(), model.ErrNotFound)
		if err != nil || reflect.TypeOf(got) != want {
			t.Errorf("%s: %T, %v; want %v", method.Name, got, err, want)
			continue
		}

		mistakes := reflect.ValueOf(got).Elem().FieldByName("UserErrors").Interface().([]*generated.UserError)
		if !slices.ContainsFunc(mistakes, func(e *generated.UserError) bool { return e.Code == generated.UserErrorCodeNotFound }) {
			t.Errorf("%s: %v", method.Name, mistakes)
		}
	}

	testkit.Equal(t, len(payloads), len(returned), "payloads are listed, and mutations return %d", len(returned))
}

// TestPayloadsOfSchema checks that a mutation with an unlisted payload is refused at the start.
func TestPayloadsOfSchema(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{})
	if err := (Mutations{}).Validate(schema); err != nil {
		t.Error(err)
	}

	delete(payloadTypes, "signinpayload")
	defer func() { payloadTypes["signinpayload"] = reflect.TypeFor[generated.SignInPayload]() }()
	if err := (Mutations{}).Validate(schema); err == nil {
		t.Error("a schema with an unlisted payload is accepted")
	}
}
