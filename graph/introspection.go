package graph

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// To read the whole schema takes some 30 ms of a processor, and a caller does not have to be signed
// in for it. So it has a price, its requests take turns with those that are validated, and the
// answers to the few queries that tools send are kept.

// schemaReading is what an operation reads of the schema.
type schemaReading uint8

const (
	schemaNotRead schemaReading = iota
	schemaToo                   // and other fields
	schemaOnly
)

// readsSchema looks at the fields at the top, which are few.
func readsSchema(operation *ast.OperationDefinition) schemaReading {
	if operation.Operation != ast.Query {
		return schemaNotRead
	}

	schema, other := rootFields(operation.SelectionSet)
	switch {
	case !schema:
		return schemaNotRead
	case other:
		return schemaToo
	}

	return schemaOnly
}

// rootFields reports whether a selection at the top has fields of the schema, and others.
func rootFields(set ast.SelectionSet) (schema, other bool) {
	for _, selection := range set {
		var inner ast.SelectionSet

		switch selection := selection.(type) {
		case *ast.Field:
			isSchema := selection.Name == "__schema" || selection.Name == "__type"
			schema = schema || isSchema
			other = other || !isSchema && selection.Name != "__typename"
		case *ast.InlineFragment:
			inner = selection.SelectionSet
		case *ast.FragmentSpread:
			inner = selection.Definition.SelectionSet
		}

		innerSchema, innerOther := rootFields(inner)
		schema, other = schema || innerSchema, other || innerOther
	}

	return schema, other
}

// chargeSchema charges a request that reads the schema: to the caller's account or, for an unknown
// caller, to the client's network. It returns the refusal, if any.
func (r *Resolver) chargeSchema(ctx context.Context) *gqlerror.Error {
	request := requestOf(ctx)
	request.surcharge = introspectionPoints

	caller, err := auth.Who(ctx)
	if err == nil && caller.User != nil {
		if r.charge(ctx, caller) == nil {
			return nil
		}

		return busyError(generated.ErrorCodeRateLimited, request.budget.resetAt.Sub(request.now.Time()), "The points of this minute are used up.")
	}

	if request.shared {
		return nil
	}

	b := r.schemaReads.take(request.network, 1, request.now.Time())
	if !b.refused {
		return nil
	}

	return busyError(generated.ErrorCodeRateLimited, b.resetAt.Sub(request.now.Time()),
		"The schema was read too often from this network without signing in.")
}

// answerSchema answers a request that reads nothing but the schema, which is the same for all
// callers.
func (t jsonPost) answerSchema(w http.ResponseWriter, r *http.Request, params *graphql.RawParams, run func() *graphql.Response) {
	key, err := keyOfAnswer(params)
	if err != nil {
		// what was decoded from JSON can be encoded
		panic(err)
	}

	if body, ok := t.answers.get(key); ok {
		send(w, r, http.StatusOK, body)
		return
	}

	ctx := r.Context()
	end, err := t.reading.Take(ctx, requestOf(ctx).network)
	if err != nil {
		refuseLate(w, r, err)
		return
	}

	defer end()

	response := run()
	if response == nil {
		refuseLate(w, r, ctx.Err())
		return
	}

	if len(response.Errors) > 0 {
		reply(w, r, http.StatusOK, response)
		return
	}

	body, err := json.Marshal(answer{Data: response.Data})
	if err != nil {
		// as in reply
		panic(err)
	}

	t.answers.add(key, body)

	// the caller may be slow to read
	end()
	send(w, r, http.StatusOK, body)
}

// schemaAnswers keeps answers to requests that read nothing but the schema. It is bounded to
// maxSchemaAnswers of at most maxSchemaAnswer bytes, and safe for concurrent use.
type schemaAnswers struct {
	mu   sync.Mutex
	kept *simplelru.LRU[answerKey, []byte]
}

const (
	maxSchemaAnswers = 8
	maxSchemaAnswer  = 2 << 20 // bytes; the whole schema has 0.7 MB
)

// answerKey is a hash of all that an answer depends on.
type answerKey [sha256.Size]byte

func newSchemaAnswers() *schemaAnswers {
	kept, err := simplelru.NewLRU[answerKey, []byte](maxSchemaAnswers, nil)
	if err != nil {
		// only a limit below one fails
		panic(err)
	}
	return &schemaAnswers{kept: kept}
}

// keyOfAnswer hashes a request's query, operation name and variables.
func keyOfAnswer(params *graphql.RawParams) (answerKey, error) {
	text, err := json.Marshal([]any{params.Query, params.OperationName, params.Variables})
	return sha256.Sum256(text), err
}

func (s *schemaAnswers) get(key answerKey) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.Get(key)
}

func (s *schemaAnswers) add(key answerKey, body []byte) {
	if len(body) > maxSchemaAnswer {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Add(key, body)
}
