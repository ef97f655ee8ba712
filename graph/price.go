package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
)

const (
	mutationComplexity  = 100   // of each change, beyond the fields that are read of its outcome
	introspectionPoints = 1_000 // of a request that reads the schema, beyond its complexity
)

// priced is the executable schema with prices for mutations. Each costs mutationComplexity and one
// more for each item of the lists in its input, which are rows to be written. Those that check a
// password or send a mail have a price of their own, see complexity.
type priced struct{ graphql.ExecutableSchema }

// Complexity implements graphql.ExecutableSchema.
func (p priced) Complexity(ctx context.Context, typeName, field string, child int, args map[string]any) (int, bool) {
	price, ok := p.ExecutableSchema.Complexity(ctx, typeName, field, child, args)
	if ok || typeName != "Mutation" || field == "__typename" {
		return price, ok
	}
	return saturate(mutationComplexity + child + items(args)), true
}

// items counts the items of all lists in a value.
func items(value any) (n int) {
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			n += items(member)
		}
	case []any:
		n = len(value)
		for _, item := range value {
			n += items(item)
		}
	}

	return n
}
