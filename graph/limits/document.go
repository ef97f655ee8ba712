package limits

import (
	"context"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/lexer"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/core"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/tallygate/tallygate/graph/generated"
)

// The limits of one document. ErrorCode.TOO_COMPLEX in errors.graphqls documents the same numbers.
const (
	maxTokens             = 4_000
	maxDepth              = 12
	maxIntrospectionDepth = 20 // a tool's full introspection query has 15
	maxRootFields         = 10
	maxAliases            = 30
	maxFields             = 500
)

// The query cache keeps the documents that clients send repeatedly. Longer ones are not cached,
// which bounds the memory that unauthenticated callers can fill. A token takes up to 550 bytes.
const (
	cachedQueries = 200
	cachedText    = 8 << 10
	cachedTokens  = 600
)

// Apply installs the document limits, the query cache and the complexity limit on an executor.
// Without introspection, the schema cannot be read, and error messages suggest no names.
func Apply(exec *executor.Executor, introspection bool) {
	cache := newQueryCache()

	exec.SetQueryCache(cache)
	exec.SetParserTokenLimit(maxTokens)
	exec.SetDefaultRulesFn(silentRules)
	exec.SetDisableSuggestion(true)
	exec.Use(gate{cache: cache, introspection: introspection})
	exec.Use(extension.FixedComplexityLimit(maxComplexity))

	if introspection {
		exec.Use(extension.Introspection{})
	}
}

// gate refuses documents that are expensive to validate or run, before either starts. It measures
// the text alone. Validation compares fields pairwise and follows fragments wherever they are
// spread, so a small text could otherwise occupy a processor for long.
type gate struct {
	cache         *queryCache
	introspection bool
}

var _ graphql.OperationParameterMutator = gate{}

// ExtensionName implements graphql.HandlerExtension.
func (gate) ExtensionName() string { return "Gate" }

// Validate implements graphql.HandlerExtension.
func (gate) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters changes nothing: it is the only hook that gqlgen calls before it
// parses.
func (g gate) MutateOperationParameters(ctx context.Context, params *graphql.RawParams) *gqlerror.Error {
	if _, known := g.cache.Get(ctx, params.Query); known {
		// A cached document has passed before.
		return nil
	}

	src := &ast.Source{Input: params.Query}
	if hasMoreTokens(src, maxTokens) {
		return Refusal(generated.ErrorCodeTooComplex, "The query has more than %d tokens.", maxTokens)
	}

	doc, err := parser.ParseQuery(src)
	if err != nil {
		// gqlgen parses it again and reports the error.
		return nil
	}

	return g.measure(doc)
}

// hasMoreTokens reports whether a document has at least so many tokens, with its end.
func hasMoreTokens(src *ast.Source, most int) bool {
	lex := lexer.New(src)
	for range most {
		token, err := lex.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			// The parser reports lexical errors.
			return false
		}
	}
	return true
}

func (g gate) measure(doc *ast.QueryDocument) *gqlerror.Error {
	m := &measure{fragments: make(map[string]*ast.FragmentDefinition, len(doc.Fragments)), sizes: make(map[string]size)}
	for _, f := range doc.Fragments {
		m.fragments[f.Name] = f
	}

	var all size
	for _, op := range doc.Operations {
		s := m.selections(op.SelectionSet)
		all.fields = saturate(all.fields + s.fields)
		all.aliases = saturate(all.aliases + s.aliases)
		all.depth = max(all.depth, s.depth)
		all.introspectionDepth = max(all.introspectionDepth, s.introspectionDepth)
		all.width = max(all.width, s.width)
	}

	// Fragments that no operation spreads are validated too.
	for _, f := range doc.Fragments {
		s := m.fragment(f.Name)
		all.fields = max(all.fields, s.fields)
	}

	over := func(n, limit int, what string) *gqlerror.Error {
		if n <= limit {
			return nil
		}
		return Refusal(generated.ErrorCodeTooComplex, "The query has more than %d %s.", limit, what)
	}

	switch {
	case m.cycle:
		return Refusal(generated.ErrorCodeValidationFailed, "A fragment spreads itself.")
	case all.introspectionDepth > 0 && !g.introspection:
		return Refusal(generated.ErrorCodeValidationFailed, "Introspection is switched off.")
	case all.fields > maxFields:
		return over(all.fields, maxFields, "fields")
	case all.aliases > maxAliases:
		return over(all.aliases, maxAliases, "aliases")
	case all.width > maxRootFields:
		return over(all.width, maxRootFields, "fields at the top")
	case all.depth > maxDepth:
		return over(all.depth, maxDepth, "levels of fields")
	}

	return over(all.introspectionDepth, maxIntrospectionDepth, "levels of introspection")
}

// size counts a set of selections with its fragments expanded.
type size struct {
	fields             int // fields and fragments at all levels
	aliases            int
	width              int // fields at the top level
	depth              int // levels of fields, without introspection
	introspectionDepth int // levels of fields beneath __schema or __type
}

// measure measures a document. It walks each fragment once, so its work is linear in the text.
type measure struct {
	fragments map[string]*ast.FragmentDefinition
	sizes     map[string]size
	open      []string // fragments being walked
	cycle     bool
}

func (m *measure) selections(set ast.SelectionSet) size {
	var sum size
	for _, selection := range set {
		var s size

		switch selection := selection.(type) {
		case *ast.Field:
			s = m.field(selection)
		case *ast.InlineFragment:
			s = m.selections(selection.SelectionSet)
			s.fields++
		case *ast.FragmentSpread:
			s = m.fragment(selection.Name)
			s.fields++
		}

		sum.fields = saturate(sum.fields + s.fields)
		sum.aliases = saturate(sum.aliases + s.aliases)
		sum.width = saturate(sum.width + s.width)
		sum.depth = max(sum.depth, s.depth)
		sum.introspectionDepth = max(sum.introspectionDepth, s.introspectionDepth)
	}

	return sum
}

func (m *measure) field(f *ast.Field) size {
	s := m.selections(f.SelectionSet)
	s.fields++
	s.width = 1

	if f.Alias != "" && f.Alias != f.Name {
		s.aliases++
	}

	if f.Name == "__schema" || f.Name == "__type" {
		s.introspectionDepth = max(s.introspectionDepth, s.depth) + 1
		s.depth = 1
		return s
	}

	s.depth++
	return s
}

func (m *measure) fragment(name string) size {
	if s, ok := m.sizes[name]; ok {
		return s
	}

	def := m.fragments[name]
	if def == nil {
		// Validation reports the unknown fragment.
		return size{}
	}

	for _, open := range m.open {
		if open == name {
			m.cycle = true
			return size{}
		}
	}

	m.open = append(m.open, name)
	s := m.selections(def.SelectionSet)
	m.open = m.open[:len(m.open)-1]
	m.sizes[name] = s

	return s
}

// queryCache is a bounded cache of validated documents by their text.
type queryCache struct{ *lru.LRU[*ast.QueryDocument] }

func newQueryCache() *queryCache { return &queryCache{lru.New[*ast.QueryDocument](cachedQueries)} }

// Add caches a document unless it is longer than cachedText or cachedTokens.
func (c *queryCache) Add(ctx context.Context, text string, doc *ast.QueryDocument) {
	if len(text) <= cachedText && !hasMoreTokens(&ast.Source{Input: text}, cachedTokens) {
		c.LRU.Add(ctx, text, doc)
	}
}

// silentRules returns the validation rules without suggestions in their messages: with
// introspection off, a caller must not learn the schema's names from error messages.
func silentRules() *rules.Rules {
	r := rules.NewDefaultRules()
	for _, silent := range []core.Rule{
		rules.KnownArgumentNamesRuleWithoutSuggestions,
		rules.KnownTypeNamesRuleWithoutSuggestions,
		rules.ValuesOfCorrectTypeRuleWithoutSuggestions,
	} {
		r.RemoveRule(strings.TrimSuffix(silent.Name, "WithoutSuggestions"))
		r.AddRule(silent.Name, silent.RuleFunc)
	}

	return r
}
