package endpoint

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/turns"
	"github.com/tallygate/tallygate/graph/limits"
)

// Reading the whole schema takes some 30 ms of a processor and needs no session. So it has a cost,
// it queues with the requests that are parsed, and the responses to the few queries that tools send
// are cached.

// introspection is what an operation reads of the schema.
type introspection uint8

const (
	notIntrospection introspection = iota
	partlyIntrospection
	onlyIntrospection
)

// introspectionOf looks at the root fields, of which limits.Apply allows few.
func introspectionOf(operation *ast.OperationDefinition) introspection {
	if operation.Operation != ast.Query {
		return notIntrospection
	}

	schema, other := rootFields(operation.SelectionSet)
	switch {
	case !schema:
		return notIntrospection
	case other:
		return partlyIntrospection
	}

	return onlyIntrospection
}

// rootFields reports whether a root selection has fields of the schema, and others.
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

// schemaCache caches the responses to requests that read nothing but the schema, which are the same
// for all callers. It is bounded to maxSchemaResponses of at most maxSchemaResponse bytes, and safe
// for concurrent use.
type schemaCache struct {
	mu        sync.Mutex
	responses *simplelru.LRU[responseKey, []byte]
}

const (
	maxSchemaResponses = 8
	maxSchemaResponse  = 2 << 20 // bytes; the whole schema has 0.7 MB
)

// responseKey is a hash of everything that a response depends on.
type responseKey [sha256.Size]byte

func newSchemaCache() *schemaCache {
	responses, err := simplelru.NewLRU[responseKey, []byte](maxSchemaResponses, nil)
	if err != nil {
		// Only a size below 1 fails.
		panic(err)
	}
	return &schemaCache{responses: responses}
}

// serve answers a request that reads nothing but the schema: from the cache, or with run in a turn
// of the queue.
func (c *schemaCache) serve(
	w http.ResponseWriter, r *http.Request, params *graphql.RawParams, queue *turns.Queue, run func() *graphql.Response,
) {
	key, err := keyOfResponse(params)
	if err != nil {
		// Params that were decoded from JSON can be encoded.
		panic(err)
	}

	if body, ok := c.get(key); ok {
		send(w, r, http.StatusOK, body)
		return
	}

	ctx := r.Context()
	end, err := queue.Take(ctx, limits.Of(ctx).Network())
	if err != nil {
		refuseUnserved(w, r, err)
		return
	}

	defer end()

	response := run()
	if response == nil {
		refuseUnserved(w, r, ctx.Err())
		return
	}

	if len(response.Errors) > 0 {
		reply(w, r, http.StatusOK, response)
		return
	}

	body, err := json.Marshal(envelope{Data: response.Data})
	if err != nil {
		// The server recovers the panic and answers with INTERNAL.
		panic(err)
	}

	c.add(key, body)

	// End the turn before writing: the client may read slowly.
	end()
	send(w, r, http.StatusOK, body)
}

// keyOfResponse hashes a request's query, operation name and variables.
func keyOfResponse(params *graphql.RawParams) (responseKey, error) {
	text, err := json.Marshal([]any{params.Query, params.OperationName, params.Variables})
	return sha256.Sum256(text), err
}

func (c *schemaCache) get(key responseKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.responses.Get(key)
}

func (c *schemaCache) add(key responseKey, body []byte) {
	if len(body) > maxSchemaResponse {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses.Add(key, body)
}
