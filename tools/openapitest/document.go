package openapitest

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tallygate/tallygate/dataplane"
)

// document returns the parsed and validated document.
var document = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData(dataplane.OpenAPI)
	if err != nil {
		panic(fmt.Sprintf("openapitest: dataplane/openapi.json: %v", err))
	}
	if err := doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		panic(fmt.Sprintf("openapitest: dataplane/openapi.json: %v", err))
	}
	return doc
})

// raw is the document as JSON, for package jsonschema.
var raw = sync.OnceValue(func() any {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(dataplane.OpenAPI))
	if err != nil {
		panic(fmt.Sprintf("openapitest: dataplane/openapi.json: %v", err))
	}
	return doc
})

// schemas are the compiled schemas of the document by their position.
var schemas sync.Map

// schemaAt returns the schema at a position of the document. References on the way are followed.
func schemaAt(keys ...string) *jsonschema.Schema {
	position := ""
	at := raw()
	for i, key := range keys {
		at = at.(map[string]any)[key]
		position += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(key)

		// A schema's own reference is resolved by its compiler.
		if ref, ok := at.(map[string]any)["$ref"].(string); ok && key != "schema" {
			return schemaAt(append(strings.Split(strings.TrimPrefix(ref, "#/"), "/"), keys[i+1:]...)...)
		}
	}
	if known, ok := schemas.Load(position); ok {
		return known.(*jsonschema.Schema)
	}

	const name = "openapi.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(name, raw()); err != nil {
		panic(fmt.Sprintf("openapitest: %v", err))
	}

	schema := compiler.MustCompile(name + "#" + position)
	schemas.Store(position, schema)
	return schema
}

// Path returns the path in the document that matches the path of a request, or "" without a match.
// Of several, the one with the fewest parameters matches.
func Path(requested string) (found string) {
	if document().Paths.Value(requested) != nil {
		return requested
	}
	for path, pattern := range templates() {
		if pattern.MatchString(requested) && (found == "" || strings.Count(path, "{") < strings.Count(found, "{")) {
			found = path
		}
	}
	return found
}

// Paths returns the paths of the document, each with the methods that it lists.
func Paths() map[string][]string {
	paths := map[string][]string{}
	for path, item := range document().Paths.Map() {
		for method := range item.Operations() {
			paths[path] = append(paths[path], method)
		}
	}
	return paths
}

// OtherMethods returns the status with which a path of the document answers methods that it does
// not list.
func OtherMethods(path string) int { return otherMethods(document().Paths.Value(path)) }

// parameter is a parameter in a path of the document.
var parameter = regexp.MustCompile(`\\\{([a-z]+)\\\}`)

// templates returns the paths with parameters, each with a pattern of the paths that match it.
var templates = sync.OnceValue(func() map[string]*regexp.Regexp {
	patterns := map[string]*regexp.Regexp{}
	for path, item := range document().Paths.Map() {
		if !strings.Contains(path, "{") {
			continue
		}
		pattern := parameter.ReplaceAllStringFunc(regexp.QuoteMeta(path), func(quoted string) string {
			return "(" + valuesOf(item, strings.Trim(quoted, `\{}`)) + ")"
		})
		patterns[path] = regexp.MustCompile("^" + pattern + "$")
	}
	return patterns
})

// valuesOf returns a pattern of a parameter's values: the values or the pattern of its schema, if it
// lists values or permits points, and otherwise texts without a point.
func valuesOf(item *openapi3.PathItem, name string) string {
	p := item.Parameters.GetByInAndName("path", name)
	if p == nil {
		return `[^/.]+`
	}

	schema := p.Schema.Value
	if strings.Contains(schema.Pattern, `\.`) {
		return strings.Trim(schema.Pattern, "^$")
	}
	if len(schema.Enum) == 0 {
		return `[^/.]+`
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(schema.Enum), " ", "|"), "[]")
}
