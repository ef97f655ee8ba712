package mcp

import (
	"fmt"
	"strings"
)

// composer builds a document with variables.
type composer struct {
	declared  []string
	variables map[string]any
}

// variable declares a variable and returns its use, such as $first.
func (c *composer) variable(name, typ string, value any) string {
	if c.variables == nil {
		c.variables = make(map[string]any)
	}
	c.declared = append(c.declared, "$"+name+": "+typ)
	c.variables[name] = value
	return "$" + name
}

// argument is an argument of a field with its variable.
type argument struct {
	name, typ string
	value     any
}

// arguments returns the list of arguments that have a value. Each becomes a variable.
func (c *composer) arguments(list ...argument) string {
	var parts []string
	for _, a := range list {
		if a.value == nil || a.value == "" || a.value == 0 {
			continue
		}
		parts = append(parts, a.name+": "+c.variable(a.name, a.typ, a.value))
	}
	if len(parts) == 0 {
		return ""
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// document returns the document of an operation.
func (c *composer) document(operation, selection string) *document {
	head := operation
	if len(c.declared) > 0 {
		head += "(" + strings.Join(c.declared, ", ") + ")"
	}
	if c.variables == nil {
		c.variables = map[string]any{}
	}
	return &document{text: head + " {\n" + indent(selection) + "\n}", variables: c.variables}
}

// siteDocument returns the document of a query that reads a site. A reader of a shared link reads the site
// of the link.
func (c *composer) siteDocument(operation, site string, reader bool, selection string) (*document, error) {
	if reader {
		d := c.document(operation, block("sharedSite", "name domain timeZone hidesRevenue\n"+selection))
		d.site = site
		return d, nil
	}

	root, err := c.site(site)
	if err != nil {
		return nil, err
	}
	return c.document(operation, block(root, "id name domain timeZone\n"+selection)), nil
}

// site returns the field of a site with its argument.
func (c *composer) site(site string) (string, error) {
	switch {
	case site == "":
		return "", invalid("site is missing: the domain or the id of a site. The tool sites lists them.")
	case isDomain(site):
		return "site(domain: " + c.variable("domain", "String!", site) + ")", nil
	}
	return "site(id: " + c.variable("id", "ID!", site) + ")", nil
}

// isDomain reports whether the argument site is a domain. Ids have no dot.
func isDomain(site string) bool { return strings.Contains(site, ".") }

// change returns the document of a mutation of a site.
func siteMutation(name, input, site string, values map[string]any, selection string) (*document, error) {
	if site == "" {
		return nil, invalid("site is missing: the domain or the id of a site. The tool sites lists them.")
	}
	d := mutation(name, input, values, selection)
	if isDomain(site) {
		d.domain = site
	} else {
		values["siteId"] = site
	}
	return d, nil
}

// mutation returns the document of a mutation with a payload that has the site.
func mutation(name, input string, values map[string]any, selection string) *document {
	var c composer
	operation := "mutation " + strings.ToUpper(name[:1]) + name[1:]
	root := fmt.Sprintf("%s(input: %s)", name, c.variable("input", input, values))
	return c.document(operation, block(root, block("site", selection)+"\nuserErrors { field code message }"))
}

// block returns a field with its selection.
func block(field, selection string) string { return field + " {\n" + indent(selection) + "\n}" }

// indent indents each line of a text.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}
