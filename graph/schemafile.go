package graph

import (
	"net/http"
	"strings"

	"github.com/vektah/gqlparser/v2/formatter"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/graph/resolver"
)

// SchemaPath is the path of the schema as one file.
const SchemaPath = "/graphql/schema.graphqls"

// SchemaText returns the schema as the server runs it, in the schema definition language: all types
// in the order of their names, with the descriptions that introspection shows, and the directives,
// which introspection leaves out. It is the same in every process of a build.
func SchemaText() string {
	var text strings.Builder
	formatter.NewFormatter(&text, formatter.WithIndent("  ")).FormatSchema(resolver.Schema())
	return text.String()
}

// SchemaFile returns the handler of SchemaPath. The file is public, as introspection is: the
// program mounts it only if callers may read the schema.
func SchemaFile() http.Handler {
	return assets.TextDocument("application/graphql; charset=utf-8", []byte(SchemaText()))
}
