package graph

import (
	"context"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/lexer"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/core"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// The limits of one request. ErrorCode.TOO_COMPLEX in errors.graphqls tells callers the same
// numbers.
const (
	maxBody               = 64 << 10
	maxTokens             = 4_000
	maxDepth              = 12
	maxIntrospectionDepth = 20 // a tool's full introspection query has 15
	maxRootFields         = 10
	maxAliases            = 30
	maxFields             = 500
	maxComplexity         = 5_000
	passwordComplexity    = 3_000 // so that one request checks one password or sends one mail
	erasureComplexity     = 1_000 // for reading all visits of a site
)

// The query cache keeps what clients send again and again. Texts longer than cachedText are not
// kept, so that strangers can fill it with little.
const (
	cachedQueries = 200
	cachedText    = 8 << 10
)

// gate refuses documents that would cost much to validate or run, before either begins: what it
// measures is all in the text. Validation compares fields pairwise and follows fragments wherever
// they are spread, so a small text could otherwise keep a processor busy for long.
type gate struct {
	cache         *queryCache
	introspection bool
}

var _ graphql.OperationParameterMutator = gate{}

// ExtensionName names the gate to gqlgen.
func (gate) ExtensionName() string { return "Gate" }

// Validate is part of gqlgen's extension interface.
func (gate) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters changes nothing; it is the one hook that gqlgen calls before it parses.
func (g gate) MutateOperationParameters(ctx context.Context, params *graphql.RawParams) *gqlerror.Error {
	if _, known := g.cache.Get(ctx, params.Query); known {
		// it passed before
		return nil
	}

	src := &ast.Source{Input: params.Query}
	if err := countTokens(src); err != nil {
		return err
	}

	doc, err := parser.ParseQuery(src)
	if err != nil {
		// gqlgen parses again and reports it
		return nil
	}

	return g.measure(doc)
}

func countTokens(src *ast.Source) *gqlerror.Error {
	lex := lexer.New(src)
	for range maxTokens {
		token, err := lex.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			// a lexical error is the parser's to report
			return nil
		}
	}

	return libraryError(generated.ErrorCodeTooComplex, "The query has more than %d tokens.", maxTokens)
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

	// those that no operation spreads are validated too
	for _, f := range doc.Fragments {
		s := m.fragment(f.Name)
		all.fields = max(all.fields, s.fields)
	}

	over := func(n, limit int, what string) *gqlerror.Error {
		if n <= limit {
			return nil
		}
		return libraryError(generated.ErrorCodeTooComplex, "The query has more than %d %s.", limit, what)
	}

	switch {
	case m.cycle:
		return libraryError(generated.ErrorCodeValidationFailed, "A fragment spreads itself.")
	case all.introspectionDepth > 0 && !g.introspection:
		return libraryError(generated.ErrorCodeValidationFailed, "Introspection is switched off.")
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

// size is what a set of selections amounts to with its fragments written out.
type size struct {
	fields             int // fields and fragments at all levels
	aliases            int
	width              int // fields at the top level
	depth              int // levels of fields, apart from introspection
	introspectionDepth int // levels of fields beneath __schema or __type
}

// measure measures a document. Every fragment is walked once, so the work is proportional to the
// text.
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
		// validation reports it
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

// saturate keeps sums of doubling fragments from overflowing.
func saturate(n int) int { return min(n, 1<<30) }

// complexity prices fields that cost more than one: a connection as often as it may have edges, a
// password check so high that one request holds only one.
func complexity() generated.ComplexityRoot {
	var c generated.ComplexityRoot
	page := func(child, first int, _ *string) int { return 1 + child*min(max(first, 1), maxFirst) }
	c.Query.Sites = page
	c.Query.Sitekeys = page
	c.Account.Sites = page
	whole := func(most int) func(int) int { return func(child int) int { return 1 + child*most } }
	c.Account.Members = whole(model.MaxMembers)
	c.Account.Invitations = whole(model.MaxMembers)
	c.Query.APITokens = whole(model.MaxAPITokens)
	c.ChangePasswordPayload.APITokens = whole(model.MaxAPITokens)
	c.ResetPasswordPayload.APITokens = whole(model.MaxAPITokens)
	c.Query.Sessions = whole(model.MaxSessions)
	c.Site.Deliveries = page
	c.Delivery.Attempts = func(child int) int { return 1 + child*model.ShownAttempts }
	c.Site.Rejections = func(child, days int) int { return 1 + child*min(max(days, 1), maxDays) }
	c.Mutation.SignUp = costly[generated.SignUpInput]
	c.Mutation.ConfirmSignUp = costly[generated.ConfirmSignUpInput]
	c.Mutation.SignIn = costly[generated.SignInInput]
	c.Mutation.ChangePassword = costly[generated.ChangePasswordInput]
	c.Mutation.RequestPasswordReset = costly[generated.RequestPasswordResetInput]
	c.Mutation.ResetPassword = costly[generated.ResetPasswordInput]
	c.Mutation.InviteMember = costly[generated.InviteMemberInput]
	c.Mutation.AcceptInvitation = costly[generated.AcceptInvitationInput]
	c.Mutation.DeleteUserData = func(child int, _ generated.DeleteUserDataInput) int { return erasureComplexity + child }
	c.Mutation.DeleteAccount = costly[generated.DeleteAccountInput]

	return c
}

func costly[Input any](child int, _ Input) int { return passwordComplexity + child }

// queryCache is a bounded cache of validated documents by their text.
type queryCache struct{ *lru.LRU[*ast.QueryDocument] }

func newQueryCache() *queryCache { return &queryCache{lru.New[*ast.QueryDocument](cachedQueries)} }

// Add keeps the document unless its text is long.
func (c *queryCache) Add(ctx context.Context, text string, doc *ast.QueryDocument) {
	if len(text) <= cachedText {
		c.LRU.Add(ctx, text, doc)
	}
}

// silentRules are the validation rules whose messages guess what the caller may have meant. Each
// has a twin that does not: a schema whose introspection is off should not be guessed out of its
// error messages.
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
