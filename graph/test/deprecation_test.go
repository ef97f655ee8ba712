package graph_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

// checkedOn is the day for which the schema is checked: no deprecated field may be past its
// removal. Set it to the day of a release, so that the fields that the release can remove are
// found.
var checkedOn = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)

// deprecationMonths is how long a deprecated field works at least.
const deprecationMonths = 12

// deprecation is the reason of a directive @deprecated.
type deprecation struct {
	replacement string // a name of the schema, such as "Site.name" or "updateSite"
	since       time.Time
	removal     time.Time // the earliest day
}

// deprecationForm is the one form of a reason.
var deprecationForm = regexp.MustCompile(
	"^Use `([A-Za-z][A-Za-z0-9.]*)`\\. Deprecated on (\\d{4}-\\d\\d-\\d\\d), removed on (\\d{4}-\\d\\d-\\d\\d) at the earliest\\.$")

// parseDeprecation reads a reason. It fails for a text of another form, for days that do not exist,
// and for a removal within deprecationMonths.
func parseDeprecation(reason string) (deprecation, error) {
	parts := deprecationForm.FindStringSubmatch(reason)
	if parts == nil {
		return deprecation{}, fmt.Errorf("%q does not have the form %q", reason,
			"Use `NAME`. Deprecated on YYYY-MM-DD, removed on YYYY-MM-DD at the earliest.")
	}

	d := deprecation{replacement: parts[1]}
	for i, day := range []*time.Time{&d.since, &d.removal} {
		var err error
		if *day, err = time.Parse(time.DateOnly, parts[i+2]); err != nil {
			return deprecation{}, err
		}
	}
	if earliest := d.since.AddDate(0, deprecationMonths, 0); d.removal.Before(earliest) {
		return deprecation{}, fmt.Errorf("%q: the removal is before %s", reason, earliest.Format(time.DateOnly))
	}

	return d, nil
}

// TestParseDeprecation reads reasons, and refuses other forms.
func TestParseDeprecation(t *testing.T) {
	t.Parallel()
	got, err := parseDeprecation("Use `Site.title`. Deprecated on 2026-11-27, removed on 2027-11-27 at the earliest.")
	want := deprecation{
		replacement: "Site.title", since: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), removal: time.Date(2027, 11, 27, 0, 0, 0, 0, time.UTC),
	}
	if got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}

	for _, reason := range []string{
		"", "No longer supported", "Use `title`.",
		"Use title. Deprecated on 2026-11-27, removed on 2027-11-27 at the earliest.",
		"Use ``. Deprecated on 2026-11-27, removed on 2027-11-27 at the earliest.",
		"Use `title`. Deprecated on 2026-11-27, removed on 2027-11-26 at the earliest.",
		"Use `title`. Deprecated on 2026-11-27, removed on 2026-11-27 at the earliest.",
		"Use `title`. Deprecated on 2026-11-31, removed on 2028-11-27 at the earliest.",
		"Use `title`. Deprecated on 2026-11-27, removed on 2027-13-27 at the earliest.",
		"Use `title`. Deprecated on 2026-11-27, removed on 2027-11-27 at the earliest. Sorry.",
		"Use `title`.\nDeprecated on 2026-11-27, removed on 2027-11-27 at the earliest.",
	} {
		if got, err := parseDeprecation(reason); err == nil {
			t.Errorf("%q is accepted as %+v", reason, got)
		}
	}
}

// TestDeprecations checks the rule of docs/owner/graphql.md for the schema.
func TestDeprecations(t *testing.T) {
	t.Parallel()
	changelog := value(os.ReadFile("../../CHANGELOG.md"))(t)
	for _, wrong := range wrongDeprecations(schema, string(changelog), checkedOn) {
		t.Error(wrong)
	}
}

// wrongDeprecations returns what is wrong with the deprecated fields, arguments and values of a
// schema.
func wrongDeprecations(schema *ast.Schema, changelog string, today time.Time) (wrong []string) {
	check := func(name string, directives ast.DirectiveList) {
		directive := directives.ForName("deprecated")
		if directive == nil {
			return
		}

		reason, _ := directive.ArgumentMap(nil)["reason"].(string)
		found, err := parseDeprecation(reason)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %v", name, err))
		case !today.Before(found.removal):
			wrong = append(wrong, fmt.Sprintf("%s is past its removal on %s", name, found.removal.Format(time.DateOnly)))
		case found.since.After(today):
			wrong = append(wrong, fmt.Sprintf("%s is deprecated on a later day", name))
		case !has(schema, found.replacement):
			wrong = append(wrong, fmt.Sprintf("%s: the replacement %s does not exist", name, found.replacement))
		case !strings.Contains(changelog, "`"+name+"`"):
			wrong = append(wrong, fmt.Sprintf("CHANGELOG.md does not name `%s`", name))
		}
	}

	for _, def := range schema.Types {
		if strings.HasPrefix(def.Name, "__") {
			continue
		}
		for _, field := range def.Fields {
			check(def.Name+"."+field.Name, field.Directives)
			for _, argument := range field.Arguments {
				check(def.Name+"."+field.Name+"."+argument.Name, argument.Directives)
			}
		}
		for _, value := range def.EnumValues {
			check(def.Name+"."+value.Name, value.Directives)
		}
	}

	return wrong
}

// has reports whether a schema has a type, a field or value of a type ("Site.name"), or a root
// field.
func has(schema *ast.Schema, name string) bool {
	typeName, member, ok := strings.Cut(name, ".")
	if !ok {
		return schema.Types[name] != nil || schema.Query.Fields.ForName(name) != nil || schema.Mutation.Fields.ForName(name) != nil
	}
	def := schema.Types[typeName]
	if def == nil {
		return false
	}

	member, argument, ofArgument := strings.Cut(member, ".")
	field := def.Fields.ForName(member)
	if ofArgument {
		return field != nil && field.Arguments.ForName(argument) != nil
	}
	return field != nil || def.EnumValues.ForName(member) != nil
}

// TestWrongDeprecations checks the check, with schemas of the test.
func TestWrongDeprecations(t *testing.T) {
	t.Parallel()
	const changelog = "- `Site.old`, `Query.sites.old`, `Order.OLD` and `NewSite.old` are deprecated."
	reason := func(replacement, since, removal string) string {
		return fmt.Sprintf("@deprecated(reason: \"Use `%s`. Deprecated on %s, removed on %s at the earliest.\")", replacement, since, removal)
	}
	good := reason("Site.title", "2026-11-01", "2027-11-01")

	for name, test := range map[string]struct{ field, argument, value, input, want string }{
		"nothing":                 {},
		"one of each":             {field: good, argument: good, value: good, input: good},
		"a type":                  {field: reason("Site", "2026-11-01", "2027-11-01")},
		"a root field":            {field: reason("sites", "2026-11-01", "2027-11-01")},
		"an argument":             {field: reason("Query.sites.orderBy", "2026-11-01", "2027-11-01")},
		"a value":                 {value: reason("Order.NEWEST", "2026-11-01", "2027-11-01")},
		"removed tomorrow":        {field: reason("Site.title", "2025-11-28", "2026-11-28")},
		"removed today":           {field: reason("Site.title", "2025-11-27", "2026-11-27"), want: "Site.old is past its removal on 2026-11-27"},
		"deprecated tomorrow":     {argument: reason("Site.title", "2026-11-28", "2027-11-28"), want: "Query.sites.old is deprecated on a later day"},
		"too soon":                {value: reason("Site.title", "2026-11-01", "2027-10-31"), want: "the removal is before 2027-11-01"},
		"no reason":               {input: "@deprecated", want: "does not have the form"},
		"another form":            {field: `@deprecated(reason: "use title")`, want: "does not have the form"},
		"an unknown replacement":  {field: reason("Site.name", "2026-11-01", "2027-11-01"), want: "the replacement Site.name does not exist"},
		"not in the changelog":    {field: good + " more: String " + good, want: "CHANGELOG.md does not name `Site.more`"},
		"an argument that is not": {field: reason("Query.sites.by", "2026-11-01", "2027-11-01"), want: "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := gqlparser.MustLoadSchema(&ast.Source{Input: `
				type Site { title: String old: String ` + test.field + ` }
				enum Order { NEWEST OLD ` + test.value + ` }
				input NewSite { title: String old: String ` + test.input + ` }
				type Query { sites(orderBy: Order, old: Int ` + test.argument + `): [Site] }
				type Mutation { add(input: NewSite): Site }`})
			wrong := wrongDeprecations(old, changelog, checkedOn)
			if test.want == "" && len(wrong) > 0 || test.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], test.want)) {
				t.Errorf("%q, want %q", wrong, test.want)
			}
		})
	}
}
