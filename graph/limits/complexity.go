package limits

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// Bounds of arguments that multiply a field's cost. The directives @cost of the schema repeat them.
const (
	MaxPage     = 100 // items on a page of a connection
	DefaultPage = 20  // items on a page whose size is not given
	MaxDays     = 90  // days of rejections, usage and activity

	MaxMonths        = 25 // of the usage of sites and accounts
	MaxSitekeyMonths = 13 // of the usage of sitekeys

	MaxReportRows = 1_000 // rows of Report.breakdown
	MaxProperties = 100   // of Report.propertyNames
)

// The costs that no directive states. ErrorCode.TOO_COMPLEX in errors.graphqls documents the same
// numbers.
const (
	maxComplexity      = 5_000
	mutationComplexity = 100   // of a mutation without a cost of its own
	introspectionCost  = 1_000 // of a request that reads the schema, in addition to its complexity
)

// price is the directive @cost of a field.
type price struct {
	Add     *int   `json:"add"` // nil: the cost of any field, or of any mutation
	Most    int    `json:"most"`
	PerItem string `json:"perItem"`
	Rows    int    `json:"rows"`
	Search  int    `json:"search"`
}

// fieldName is a field of a type.
type fieldName struct{ typeName, field string }

// costed is a schema with the costs of its fields.
type costed struct {
	graphql.ExecutableSchema
	prices map[fieldName]price // of the mutations, and of the fields with @cost
}

// WithCosts returns a schema with fields that cost what their directives @cost state. It fails on a
// directive that it cannot read.
func WithCosts(schema graphql.ExecutableSchema) (graphql.ExecutableSchema, error) {
	prices := make(map[fieldName]price)
	for _, def := range schema.Schema().Types {
		for _, field := range def.Fields {
			directive := field.Directives.ForName("cost")
			if directive == nil && def.Name != "Mutation" {
				continue
			}

			p := price{Most: 1, Rows: 1}
			if directive != nil {
				if err := p.read(directive); err != nil {
					return nil, fmt.Errorf("@cost of %s.%s: %w", def.Name, field.Name, err)
				}
			}
			prices[fieldName{def.Name, field.Name}] = p
		}
	}

	return costed{schema, prices}, nil
}

// read reads the arguments of a directive.
func (p *price) read(directive *ast.Directive) error {
	text, err := json.Marshal(directive.ArgumentMap(nil))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, p)
}

// Complexity implements graphql.ExecutableSchema. child is the cost of the field's content. It
// returns false for a field that costs 1 and its content.
func (c costed) Complexity(_ context.Context, typeName, field string, child int, args map[string]any) (int, bool) {
	p, ok := c.prices[fieldName{typeName, field}]
	if !ok {
		return 0, false
	}
	times, err := p.times(args)
	if err != nil {
		// The resolver does not run with such an argument.
		return 0, false
	}

	cost := 1
	switch {
	case p.Add != nil:
		cost = *p.Add
	case typeName == "Mutation":
		cost = mutationComplexity + items(args)
	}
	if args["search"] != nil {
		cost += p.Search
	}

	return saturate(cost + saturate(child)*(times+p.Rows-1)/p.Rows), true
}

// times returns how many items the content of the field has.
func (p price) times(args map[string]any) (int, error) {
	if p.PerItem == "" {
		return p.Most, nil
	}

	size := args["last"]
	if size == nil {
		size = args[p.PerItem]
	}
	if size == nil {
		return DefaultPage, nil
	}

	n, err := graphql.UnmarshalInt(size)
	return min(max(n, 1), p.Most), err
}

// items counts the items of all lists in a value, at any depth.
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

// saturate prevents sums of nested fragments from overflowing.
func saturate(n int) int { return min(n, 1<<30) }
