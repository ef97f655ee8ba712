package limits

import (
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
)

// TestLargeDocumentsAreNotCached checks the bounds of a document that the query cache keeps: its
// text and its tokens, of which a short text can have many.
func TestLargeDocumentsAreNotCached(t *testing.T) {
	values := func(n int) string {
		return `mutation { createSegment(input: {values: [` + strings.Repeat(`"" `, n) + `]}) { userErrors { code } } }`
	}
	for name, test := range map[string]struct {
		text string
		kept bool
	}{
		"usual":       {"{ viewer { id } }", true},
		"long":        {"{ viewer { id } } #" + strings.Repeat("x", cachedText-30), true},
		"too long":    {"{ viewer { id } } #" + strings.Repeat("x", cachedText), false},
		"tokens":      {values(cachedTokens - 40), true},
		"many tokens": {values(cachedTokens), false},
		"the most":    {values(maxTokens), false},
	} {
		cache := newQueryCache()
		cache.Add(t.Context(), test.text, &ast.QueryDocument{})
		if _, kept := cache.Get(t.Context(), test.text); kept != test.kept {
			t.Errorf("%s: a document of %d bytes is kept: %v", name, len(test.text), kept)
		}
	}
}
