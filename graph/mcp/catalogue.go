package mcp

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

// documents are the tools: operations of GraphQL, in the order of the files' names.
//
//go:embed tools/*.graphql
var documents embed.FS

// definitions are the directives and types that describe the tools.
//
//go:embed tools/tools.graphqls
var definitions string

// tool is an operation of a document. Its exported fields are the arguments of the directive @tool.
type tool struct {
	operation *ast.OperationDefinition
	input     *jsonschema.Resolved // the arguments

	Title     string
	Untrusted bool // its answer has texts of visitors
	Replaces  bool // can undo an earlier change
	Repeats   bool // has no further effect when it is called again
}

// changes reports whether a tool needs the permission CONFIGURE.
func (t *tool) changes() bool { return t.operation.Operation == ast.Mutation }

// readers reports whether a tool works for readers of shared links.
func (t *tool) readers() bool {
	return slices.ContainsFunc(t.operation.SelectionSet, func(root ast.Selection) bool { return root.(*ast.Field).Name == "sharedSite" })
}

// isFor reports whether a tool is in the list of callers of a kind.
func (t *tool) isFor(kind callerKind) bool {
	return kind == configures || kind == reads && !t.changes() || kind == readsLink && t.readers()
}

// loadTools reads the tools. It fails on a document that does not match the schema.
func loadTools(schema *ast.Schema) ([]*tool, error) {
	extended, err := withDefinitions(*schema)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(documents, "tools/*")
	if err != nil {
		return nil, err
	}

	// The documents share fragments, so they are one text.
	var all strings.Builder
	for _, name := range names {
		text, err := documents.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all.Write(text)
	}

	// An argument that is optional for a tool can be required where it is used, because a request
	// has only the arguments of the call: their types follow from their use.
	checks := rules.NewDefaultRules()
	checks.RemoveRule("VariablesInAllowedPosition")
	parsed, errs := gqlparser.LoadQueryWithRules(extended, all.String(), checks)
	if len(errs) > 0 {
		return nil, errs
	}

	var tools []*tool
	for _, operation := range parsed.Operations {
		t := &tool{operation: operation}
		if err := t.describe(extended); err != nil {
			return nil, fmt.Errorf("the tool %s: %w", operation.Name, err)
		}
		tools = append(tools, t)
	}
	return tools, nil
}

// withDefinitions returns the schema with the definitions.
func withDefinitions(schema ast.Schema) (*ast.Schema, error) {
	parsed, err := parser.ParseSchema(&ast.Source{Name: "tools.graphqls", Input: definitions})
	if err != nil {
		return nil, err
	}

	// Other users of the schema must not see them.
	schema.Types, schema.Directives = maps.Clone(schema.Types), maps.Clone(schema.Directives)
	for _, directive := range parsed.Directives {
		schema.Directives[directive.Name] = directive
	}
	for _, definition := range parsed.Definitions {
		schema.Types[definition.Name] = definition
		for _, field := range definition.Fields {
			for _, directive := range field.Directives {
				directive.Definition = schema.Directives[directive.Name]
			}
		}
	}
	return &schema, nil
}

// describe sets what the directive and the variables of the operation say.
func (t *tool) describe(schema *ast.Schema) error {
	if err := read(t.operation.Directives, "tool", t); err != nil {
		return err
	}

	shared, input := schema.Types["Arguments"].Fields, object()
	for _, v := range t.operation.VariableDefinitions {
		argument, description, directives := schemaOf(schema, v.Type), v.Description, v.Directives
		if field := shared.ForName(v.Variable); field != nil {
			if description == "" {
				description = field.Description
			}
			directives = slices.Concat(directives, field.Directives)
		}

		describe(argument, description, v.DefaultValue)
		if err := bound(argument, directives); err != nil {
			return err
		}
		input.Properties[v.Variable] = argument
		if v.Type.NonNull {
			input.Required = append(input.Required, v.Variable)
		}
	}

	var err error
	t.input, err = input.Resolve(nil)
	return err
}

// read decodes the arguments of a directive. It changes nothing if the list lacks the directive.
func read(list ast.DirectiveList, name string, into any) error {
	directive := list.ForName(name)
	if directive == nil {
		return nil
	}
	text, err := json.Marshal(directive.ArgumentMap(nil))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// object returns the schema of an object without other properties.
func object() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", Properties: make(map[string]*jsonschema.Schema), AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
}

// schemaOf returns the JSON schema of a type of arguments.
func schemaOf(schema *ast.Schema, typ *ast.Type) *jsonschema.Schema {
	if typ.Elem != nil {
		return &jsonschema.Schema{Type: "array", Items: schemaOf(schema, typ.Elem)}
	}

	definition, text := schema.Types[typ.NamedType], &jsonschema.Schema{Type: "string"}
	switch {
	case definition.Kind == ast.Enum:
		for _, value := range definition.EnumValues {
			text.Enum = append(text.Enum, value.Name)
		}
	case definition.Kind == ast.InputObject:
		input := object()
		for _, field := range definition.Fields {
			input.Properties[field.Name] = schemaOf(schema, field.Type)

			// An assistant reads the list in each conversation: one sentence must do.
			sentence, _, _ := strings.Cut(field.Description+" ", ". ")
			describe(input.Properties[field.Name], sentence+".", field.DefaultValue)
			if field.Type.NonNull && field.DefaultValue == nil {
				input.Required = append(input.Required, field.Name)
			}
		}
		return input
	case definition.Name == "Int":
		return &jsonschema.Schema{Type: "integer"}
	case definition.Name == "Boolean":
		return &jsonschema.Schema{Type: "boolean"}
	case definition.Name == "Date":
		text.Format = "date"
	}
	return text
}

// describe sets a description with the default. The keyword default is left out: clients that fill
// it in would send period together with from and to.
func describe(argument *jsonschema.Schema, description string, byDefault *ast.Value) {
	if byDefault != nil {
		value := strings.NewReplacer("[", "", "]", "", ",", ", ").Replace(byDefault.String())
		description += " Default: " + value + "."
	}
	argument.Description = strings.TrimSpace(strings.ReplaceAll(description, "\n", " "))
}

// bound sets the bounds of a number or list by the first directive @size.
func bound(argument *jsonschema.Schema, directives ast.DirectiveList) error {
	var size struct{ Min, Max *int }
	if err := read(directives, "size", &size); err != nil || size.Max == nil {
		return err
	}

	if argument.Type == "array" {
		argument.MinItems, argument.MaxItems = size.Min, size.Max
		return nil
	}
	least, most := float64(*size.Min), float64(*size.Max)
	argument.Minimum, argument.Maximum = &least, &most
	return nil
}
