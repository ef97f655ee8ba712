// Command gqlgen generates the GraphQL server's code from gqlgen.yml and graph/schema, as gqlgen's
// own command does. In addition, it derives the values of enums: a value of the schema is the
// constant of the enum's Go type with that value in any case (DATA_CENTRES and "data_centres"), or,
// if the constants are numbers, with that ending (NO_VALUES and ImportNoValues). "make generate"
// runs it.
package main

import (
	"fmt"
	"go/constant"
	"go/types"
	"os"
	"strings"
	"unicode"

	"github.com/99designs/gqlgen/api"
	"github.com/99designs/gqlgen/codegen/config"
	"github.com/vektah/gqlparser/v2/ast"
)

func main() {
	cfg, err := config.LoadConfigFromDefaultLocations()
	if err == nil {
		err = api.Generate(cfg, api.PrependPlugin(enums{}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gqlgen:", err)
		os.Exit(1)
	}
}

// enums is a plugin of gqlgen that adds the values of enums to the configuration.
type enums struct{}

// Name implements plugin.Plugin.
func (enums) Name() string { return "enums" }

// MutateConfig implements plugin.ConfigMutator.
func (enums) MutateConfig(cfg *config.Config) error {
	binder := cfg.NewBinder()
	for name, def := range cfg.Schema.Types {
		entry := cfg.Models[name]
		if def.Kind != ast.Enum || def.BuiltIn || len(entry.Model) == 0 {
			continue
		}

		dot := strings.LastIndex(entry.Model[0], ".")
		object, err := binder.FindObject(entry.Model[0][:dot], entry.Model[0][dot+1:])
		if err != nil {
			return err
		}

		// A function marshals its values itself.
		bound, isType := object.(*types.TypeName)
		if !isType {
			continue
		}

		if entry.EnumValues, err = enumValues(def, bound); err != nil {
			return err
		}
		cfg.Models[name] = entry
	}
	return nil
}

// enumValues returns the constants of an enum's type by their names in the schema, or nil if each
// of them equals its name: gqlgen then converts the type to a string and back.
func enumValues(def *ast.Definition, bound *types.TypeName) (map[string]config.EnumValue, error) {
	values := make(map[string]config.EnumValue, len(def.EnumValues))
	areEqual := true
	for _, value := range def.EnumValues {
		found, err := constantOf(value.Name, bound)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", def.Name, value.Name, err)
		}

		values[value.Name] = config.EnumValue{Value: found.Pkg().Path() + "." + found.Name()}
		areEqual = areEqual && found.Val().Kind() == constant.String && constant.StringVal(found.Val()) == value.Name
	}

	if areEqual {
		return nil, nil
	}
	return values, nil
}

// constantOf returns the constant of a type that has a name in the schema.
func constantOf(name string, bound *types.TypeName) (*types.Const, error) {
	var found *types.Const
	for _, other := range bound.Pkg().Scope().Names() {
		c, isConst := bound.Pkg().Scope().Lookup(other).(*types.Const)
		if !isConst || !types.Identical(c.Type(), bound.Type()) || !isNamed(c, name) {
			continue
		}

		if found != nil {
			return nil, fmt.Errorf("%s and %s both match", found.Name(), c.Name())
		}
		found = c
	}

	if found == nil {
		return nil, fmt.Errorf("no constant of %s matches", bound.Name())
	}
	return found, nil
}

// isNamed reports whether a constant has a name in the schema.
func isNamed(c *types.Const, name string) bool {
	if c.Val().Kind() == constant.String {
		value := strings.ReplaceAll(constant.StringVal(c.Val()), "-", "_")
		return strings.ToUpper(value) == name
	}
	return strings.HasSuffix("_"+upperSnake(c.Name()), "_"+name)
}

// upperSnake writes a Go name as the schema writes the names of values, for example WITHIN_QUOTA
// for WithinQuota.
func upperSnake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
