package mcp

import (
	"maps"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/formatter"
)

// document is a GraphQL request.
type document struct {
	text      string
	variables map[string]any

	operation *ast.OperationDefinition // of the text
	site      string                   // that the caller asked for; "": any
}

// composer builds the operation of one call: without the parts that the call does not need, and
// with the variables of the others.
type composer struct {
	values  map[string]any // of variables
	reader  bool           // of a shared link
	used    ast.VariableDefinitionList
	reasons map[string]string // why a variable is not used, by its name
}

// compose returns the request of a call, or an error of an argument. reader is a reader of a shared
// link.
func (t *tool) compose(arguments map[string]any, reader bool) (*document, error) {
	site, _ := arguments["site"].(string)
	if reader {
		// A link reaches one site. answer.add compares it with the argument.
		arguments = maps.Clone(arguments)
		delete(arguments, "site")
	} else if site == "" && t.operation.VariableDefinitions.ForName("site") != nil {
		return nil, invalid("site is missing: the domain or the id of a site. The tool sites lists them.")
	}

	values, err := t.values(arguments)
	if err != nil {
		return nil, err
	}

	c := &composer{values: values, reader: reader, reasons: make(map[string]string)}
	operation := &ast.OperationDefinition{
		Operation: t.operation.Operation, Name: t.operation.Name, SelectionSet: c.selections(t.operation.SelectionSet),
	}

	variables := make(map[string]any, len(c.used))
	for _, v := range c.used {
		variables[v.Variable] = values[v.Variable]
	}

	// The names are sorted so that equal calls get the same error.
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if _, used := variables[name]; !used && c.reasons[name] != "" {
			return nil, invalid("%s %s.", name, c.reasons[name])
		}
	}

	operation.VariableDefinitions = c.used
	var text strings.Builder
	formatter.NewFormatter(&text).FormatQueryDocument(&ast.QueryDocument{Operations: ast.OperationList{operation}})

	// An assistant reads the document in each answer, so it has no indentation. No text of it has
	// spaces: all values are variables.
	line := strings.Join(strings.Fields(text.String()), " ")
	return &document{text: line, variables: variables, operation: operation, site: site}, nil
}

// selections returns a copy of a selection with the fields of its fragments.
func (c *composer) selections(set ast.SelectionSet) (kept ast.SelectionSet) {
	for _, selection := range set {
		if spread, ok := selection.(*ast.FragmentSpread); ok {
			kept = append(kept, c.chosen(spread)...)
			continue
		}

		field := selection.(*ast.Field)
		if reason := c.leftOut(field); reason != "" {
			c.leaveOut(field, reason)
			continue
		}
		kept = append(kept, c.field(field))
	}
	return kept
}

// field returns a copy of a field without directives.
func (c *composer) field(field *ast.Field) *ast.Field {
	copied := *field
	copied.Arguments, copied.Directives, copied.SelectionSet = nil, nil, c.selections(field.SelectionSet)
	for _, argument := range field.Arguments {
		if value := c.value(argument.Value); value != nil {
			copied.Arguments = append(copied.Arguments, &ast.Argument{Name: argument.Name, Value: value})
		}
	}
	return &copied
}

// chosen returns the fields of a fragment that the directive @only keeps.
func (c *composer) chosen(spread *ast.FragmentSpread) ast.SelectionSet {
	kept := c.selections(spread.Definition.SelectionSet)
	only := spread.Directives.ForName("only")
	if only == nil {
		return kept
	}

	names := only.ArgumentMap(c.values)["fields"].([]any)
	return slices.DeleteFunc(kept, func(field ast.Selection) bool { return !slices.Contains(names, any(field.(*ast.Field).Name)) })
}

// leftOut returns the reason to leave a field out, or "".
func (c *composer) leftOut(field *ast.Field) string {
	// Readers of shared links read sharedSite, and nothing else.
	if field.ObjectDefinition.Name == "Query" && c.reader != (field.Name == "sharedSite") {
		return "does not apply to a shared link"
	}

	var when struct{ Given, Missing []string }
	if err := read(field.Directives, "when", &when); err != nil {
		// Lists of texts can be read.
		panic(err)
	}
	if len(when.Given) > 0 && !slices.ContainsFunc(when.Given, c.has) {
		return "needs the argument " + strings.Join(when.Given, " or ")
	}
	if i := slices.IndexFunc(when.Missing, c.has); i >= 0 {
		return "does not go with the argument " + when.Missing[i]
	}
	return ""
}

func (c *composer) has(variable string) bool {
	_, ok := c.values[variable]
	return ok
}

// leaveOut records why the variables of a field are not used.
func (c *composer) leaveOut(field *ast.Field, reason string) {
	unused := &composer{values: c.values, reader: c.reader, reasons: c.reasons}
	unused.field(field)
	for _, v := range unused.used {
		c.reasons[v.Variable] = reason
	}
}

// value returns a copy of a value without the variables that have none. It is nil if nothing is
// left.
func (c *composer) value(value *ast.Value) *ast.Value {
	switch value.Kind {
	case ast.Variable:
		return c.variable(value)
	case ast.ObjectValue:
		copied := *value
		copied.Children = nil
		for _, child := range value.Children {
			if member := c.value(child.Value); member != nil {
				copied.Children = append(copied.Children, &ast.ChildValue{Name: child.Name, Value: member})
			}
		}
		if copied.Children == nil {
			return nil
		}
		return &copied
	}
	return value
}

// variable declares a variable that has a value, with the type that its place needs.
func (c *composer) variable(use *ast.Value) *ast.Value {
	value, ok := c.values[use.Raw]
	if !ok {
		return nil
	}

	// The argument site stands for two arguments of GraphQL: a domain, which is a text, and an id.
	if site, _ := value.(string); use.Raw == "site" && isDomain(site) != (use.ExpectedType.Name() == "String") {
		return nil
	}

	typ := *use.ExpectedType
	typ.NonNull = true
	c.used = append(c.used, &ast.VariableDefinition{Variable: use.Raw, Type: &typ})
	return use
}

// isDomain reports whether the argument site is a domain. Ids have no dot.
func isDomain(site string) bool { return strings.Contains(site, ".") }
