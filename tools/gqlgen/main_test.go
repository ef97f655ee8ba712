package main

import (
	"go/constant"
	"go/token"
	"go/types"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
)

// TestEnumValues derives values from constants of texts and of numbers.
func TestEnumValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		kind      types.BasicKind
		constants map[string]constant.Value
		names     []string
		want      map[string]string // nil for constants that equal their names
		fails     bool
	}{{
		name: "equal", kind: types.String, names: []string{"ON", "OFF"},
		constants: map[string]constant.Value{"A": constant.MakeString("ON"), "B": constant.MakeString("OFF")},
	}, {
		name: "another case", kind: types.String, names: []string{"NO_HITS", "ON"},
		constants: map[string]constant.Value{"A": constant.MakeString("no-hits"), "B": constant.MakeString("ON")},
		want:      map[string]string{"NO_HITS": "p.A", "ON": "p.B"},
	}, {
		name: "numbers", kind: types.Int, names: []string{"VALUES", "NO_VALUES"},
		constants: map[string]constant.Value{"ImportNoValues": constant.MakeInt64(1), "Values": constant.MakeInt64(2)},
		fails:     true, // both end with VALUES
	}, {
		name: "numbers of other endings", kind: types.Int, names: []string{"NONE", "NO_VALUES"},
		constants: map[string]constant.Value{"ImportNone": constant.MakeInt64(0), "ImportNoValues": constant.MakeInt64(1)},
		want:      map[string]string{"NONE": "p.ImportNone", "NO_VALUES": "p.ImportNoValues"},
	}, {
		name: "a constant is missing", kind: types.String, names: []string{"ON", "OFF"},
		constants: map[string]constant.Value{"A": constant.MakeString("ON")}, fails: true,
	}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pkg := types.NewPackage("p", "p")
			bound := types.NewTypeName(token.NoPos, pkg, "T", nil)
			named := types.NewNamed(bound, types.Typ[c.kind], nil)
			for name, value := range c.constants {
				pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, name, named, value))
			}
			def := &ast.Definition{Name: "T"}
			for _, name := range c.names {
				def.EnumValues = append(def.EnumValues, &ast.EnumValueDefinition{Name: name})
			}

			got, err := enumValues(def, bound)
			if (err != nil) != c.fails || len(got) != len(c.want) {
				t.Fatalf("%v, %v", got, err)
			}
			for name, want := range c.want {
				if got[name].Value != want {
					t.Errorf("%s is %q, not %q", name, got[name].Value, want)
				}
			}
		})
	}
}
