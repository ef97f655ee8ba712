package endpoint

import (
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// deprecatedUse is an entry of extensions.deprecated: a field or an argument of the document.
type deprecatedUse struct {
	Name   string `json:"name"` // such as "Site.name" or "Query.sites.orderBy"
	Reason string `json:"reason"`
}

// deprecatedUses returns the deprecated fields and arguments of an operation, each once, in the
// order of the document. The limits of documents bound the number of fields.
func deprecatedUses(operation *ast.OperationDefinition) []deprecatedUse {
	var uses []deprecatedUse
	seen := make(map[string]bool)
	add := func(directives ast.DirectiveList, name ...string) {
		deprecated := directives.ForName("deprecated")
		if deprecated == nil {
			return
		}
		use := deprecatedUse{Name: strings.Join(name, ".")}
		if seen[use.Name] {
			return
		}
		seen[use.Name] = true
		use.Reason, _ = deprecated.ArgumentMap(nil)["reason"].(string)
		uses = append(uses, use)
	}

	var walk func(set ast.SelectionSet)
	walk = func(set ast.SelectionSet) {
		for _, selection := range set {
			switch selection := selection.(type) {
			case *ast.Field:
				add(selection.Definition.Directives, selection.ObjectDefinition.Name, selection.Name)
				for _, argument := range selection.Arguments {
					if definition := selection.Definition.Arguments.ForName(argument.Name); definition != nil {
						add(definition.Directives, selection.ObjectDefinition.Name, selection.Name, argument.Name)
					}
				}
				walk(selection.SelectionSet)
			case *ast.InlineFragment:
				walk(selection.SelectionSet)
			case *ast.FragmentSpread:
				walk(selection.Definition.SelectionSet)
			}
		}
	}

	walk(operation.SelectionSet)
	return uses
}
