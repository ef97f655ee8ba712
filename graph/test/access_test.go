package graph_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db"
)

// TestEveryRootFieldHasARule: each field of Query and Mutation states who may call it, with @needs
// or @open, and @open stands nowhere else but on fields of Account.
func TestEveryRootFieldHasARule(t *testing.T) {
	t.Parallel()
	for _, def := range schema.Types {
		isRoot := def == schema.Query || def == schema.Mutation
		for _, f := range fieldsOf(def) {
			needs, open := f.Directives.ForName("needs") != nil, f.Directives.ForName("open") != nil
			switch {
			case isRoot && needs == open:
				t.Errorf("%s.%s must have either @needs or @open", def.Name, f.Name)
			case !isRoot && open && def.Name != "Account":
				t.Errorf("@open has no meaning on %s.%s", def.Name, f.Name)
			}
		}
	}
}

// TestTheGuideStatesTheCosts: ErrorCode.TOO_COMPLEX mentions what a field costs itself, from 1,000
// on, and how often the content of a list without a size counts.
func TestTheGuideStatesTheCosts(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(schema.Types["ErrorCode"].EnumValues.ForName("TOO_COMPLEX").Description, ",", "")
	for _, def := range schema.Types {
		for _, f := range fieldsOf(def) {
			cost := f.Directives.ForName("cost")
			if cost == nil {
				continue
			}

			args := cost.ArgumentMap(nil)
			add, _ := args["add"].(int64)
			for _, n := range []int64{add, args["search"].(int64)} {
				if n >= 1_000 && !strings.Contains(text, strconv.FormatInt(n, 10)) {
					t.Errorf("the cost %d of %s.%s is not documented", n, def.Name, f.Name)
				}
			}
			if n := args["most"].(int64); args["perItem"] == nil && n > 1 && !strings.Contains(text, fmt.Sprintf("by %d", n)) {
				t.Errorf("the %d items of %s.%s are not documented", n, def.Name, f.Name)
			}
		}
	}
}

// TestFieldsOfAnAccountThatAreOpen lists what a member who lacks the required second factor can
// read.
func TestFieldsOfAnAccountThatAreOpen(t *testing.T) {
	t.Parallel()
	var open []string
	for _, f := range fieldsOf(schema.Types["Account"]) {
		if f.Directives.ForName("open") != nil {
			open = append(open, f.Name)
		}
	}

	slices.Sort(open)
	if want := strings.Fields("createdAt id name requireSecondFactor suspension viewerIsGuest viewerRole"); !slices.Equal(open, want) {
		t.Errorf("open fields of Account: %v, want %v", open, want)
	}
}

// TestDescriptionsStateThePermission: a reader of the schema's description, which has no
// directives, sees who may call a field. The sentence comes from the directive, so that no
// description contradicts it.
func TestDescriptionsStateThePermission(t *testing.T) {
	t.Parallel()
	const query = `{ __schema { types { name fields { name description } } } }`

	onSQLite(t, func(t *testing.T, d *db.DB) {
		types, _ := newApp(t, d).client().query(query).ok(t, "").at("__schema.types").([]any)
		shown := map[string]string{}
		for _, def := range types {
			fields, _ := def.(map[string]any)["fields"].([]any)
			for _, f := range fields {
				f := f.(map[string]any)
				shown[def.(map[string]any)["name"].(string)+"."+f["name"].(string)], _ = f["description"].(string)
			}
		}

		for _, def := range []*ast.Definition{schema.Query, schema.Mutation} {
			for _, f := range fieldsOf(def) {
				want := "Needs no session."
				if needs := f.Directives.ForName("needs"); needs != nil {
					name := needs.Arguments.ForName("permission").Value.Raw
					want = schema.Types["Permission"].EnumValues.ForName(name).Description
				}
				if got := shown[def.Name+"."+f.Name]; !strings.HasSuffix(got, " "+want) || strings.Count(got, want) != 1 {
					t.Errorf("the description of %s.%s does not end with %q: %q", def.Name, f.Name, want, got)
				}
			}
		}
	})
}

// The sources do not repeat the sentences. Account.auditLog has a rule of its own.
func TestDescriptionsDoNotRepeatThePermission(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../schema/*.graphqls")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}

	repeated := regexp.MustCompile(`Requires (the role|a session|an operator)|Needs no session`)
	for _, file := range files {
		text := value(os.ReadFile(file))(t)

		most := map[string]int{"directives.graphqls": 7, "audit.graphqls": 1}[filepath.Base(file)]
		if found := repeated.FindAll(text, -1); len(found) > most {
			t.Errorf("%s states permissions in words: %q", file, found)
		}
	}
}
