package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// step is a part of the path in an error of the JSON schema package.
var step = regexp.MustCompile(`validating (\S+): `)

// number is a whole number as the JSON schema package writes it: 7/1 or 7.000000.
var number = regexp.MustCompile(`\b(\d+)(?:/1|\.0{6})(?: |$)`)

// arguments reads the arguments of a call, and checks them with their schema.
func (t *tool) arguments(text json.RawMessage) (map[string]any, error) {
	if len(text) == 0 || string(text) == "null" {
		return map[string]any{}, nil
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, invalid("The arguments cannot be read: %v.", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("The arguments are not an object.")
	}

	known := slices.Sorted(maps.Keys(t.input.Schema().Properties))
	for name := range object {
		if !slices.Contains(known, name) {
			return nil, invalid("%s has no argument %q. It has: %s.", t.operation.Name, name, strings.Join(known, ", "))
		}
	}
	if err := t.input.Validate(object); err != nil {
		return nil, wrongArgument(err)
	}

	// Assistants send an empty text for an argument that they leave out.
	required := t.input.Schema().Required
	maps.DeleteFunc(object, func(name string, value any) bool { return value == "" && !slices.Contains(required, name) })
	return object, nil
}

// wrongArgument returns an error of the JSON schema package with the name of the argument.
func wrongArgument(err error) error {
	// The path of the innermost schema names the argument, such as /properties/metrics/items.
	message, path := err.Error(), ""
	if steps := step.FindAllStringSubmatch(message, -1); len(steps) > 0 {
		path = steps[len(steps)-1][1]
	}
	message = strings.TrimSpace(number.ReplaceAllString(step.ReplaceAllString(message, ""), "$1 "))
	path = strings.NewReplacer("/properties/", ".", "/items", "", "root", "").Replace(path)
	if path = strings.TrimPrefix(path, "."); path != "" {
		message = path + ": " + message
	}
	return invalid("%s", message)
}

// values returns the values of variables: the arguments of a call, and the defaults of the others.
func (t *tool) values(arguments map[string]any) (map[string]any, error) {
	has := func(name string) bool { return arguments[name] != nil }
	switch {
	case has("period") && (has("from") || has("to")):
		return nil, invalid("Give either period, or from and to.")
	case has("from") != has("to"):
		return nil, invalid("from and to belong together.")
	case has("compare") && has("compareFrom"):
		return nil, invalid("Give either compare or compareFrom.")
	case t.operation.Name == "journey" && has("page") == has("event"):
		return nil, invalid("Give either page or event.")
	}

	values := maps.Clone(arguments)
	for _, v := range t.operation.VariableDefinitions {
		day, _ := arguments[v.Variable].(string)
		if _, err := time.Parse(time.DateOnly, day); err != nil && day != "" && v.Type.NamedType == "Date" {
			return nil, invalid("%s: %q is no day. A day has the form 2026-11-20.", v.Variable, day)
		}

		replaced := v.Variable == "period" && has("from") || v.Variable == "compare" && has("compareFrom")
		if v.DefaultValue == nil || has(v.Variable) || replaced {
			continue
		}
		var err error
		if values[v.Variable], err = v.DefaultValue.Value(nil); err != nil {
			return nil, err
		}
	}

	if has("matchDayOfWeek") && values["compare"] == nil && !has("compareFrom") {
		return nil, invalid("matchDayOfWeek needs compare or compareFrom.")
	}
	return values, nil
}

// maxMessage is the length of an error message, in bytes. Some repeat an argument.
const maxMessage = 2000

// invalid returns an error of an argument.
func invalid(format string, arguments ...any) error {
	return &model.Error{Kind: model.Invalid, Code: "invalid_argument", Message: shortened(fmt.Sprintf(format, arguments...))}
}

// shortened returns the message of an error within maxMessage.
func shortened(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}
