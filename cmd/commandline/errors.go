package commandline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/jessevdk/go-flags"
)

// explain returns a parse error in the program's words: without the values of flags and variables,
// and with the variable instead of the flag if the value came from there. rest are the arguments
// from the failed one on.
func (p *Parser) explain(err error, rest []string) error {
	failed, ok := errors.AsType[*flags.Error](err)
	if !ok {
		return fmt.Errorf("%s: %s", emptyArgument(p.data[p.selected()]), reason(err.Error()))
	}

	command := p.selected()
	switch failed.Type {
	case flags.ErrUnknownFlag:
		_, name, _ := strings.Cut(strings.TrimSuffix(failed.Message, "'"), "`")
		return fmt.Errorf("unknown flag %s%s", dashed(name), suggestion(dashed(name), flagNames(append(options(command), options(p.Command)...))))
	case flags.ErrUnknownCommand:
		return fmt.Errorf("unknown command %q%s", rest[0], suggestion(rest[0], commandNames(command)))
	case flags.ErrCommandRequired:
		return fmt.Errorf("%s needs a command: see %[1]s --help", strings.TrimSpace(p.Name+" "+p.Path()))
	case flags.ErrRequired:
		return errors.New(strings.NewReplacer("`", "", "'", "").Replace(failed.Message))
	}

	option := p.named(failed.Message)
	if option == nil {
		return err
	}
	name := "--" + option.LongName
	if variable := variable(option); variable != "" {
		name = variable
	}

	switch failed.Type {
	case flags.ErrExpectedArgument:
		return fmt.Errorf("%s: needs a value", name)
	case flags.ErrInvalidChoice:
		return fmt.Errorf("%s must be one of %s", name, strings.Join(option.Choices, ", "))
	}
	_, text, _ := strings.Cut(failed.Message, ": ")
	return fmt.Errorf("%s: %s", name, reason(text))
}

// named returns the flag that a message of go-flags is about.
func (p *Parser) named(message string) *flags.Option {
	isNamed := func(option *flags.Option) bool { return strings.Contains(message, "`"+option.String()+"'") }

	// Several commands may have a flag of this name.
	for _, list := range [][]*flags.Option{options(p.selected()), options(p.Command)} {
		if i := slices.IndexFunc(list, isNamed); i >= 0 {
			return list[i]
		}
	}
	return nil
}

// reason returns why a value was refused, without the value, which the errors of the standard library contain.
func reason(text string) string {
	switch {
	case strings.HasPrefix(text, "strconv.ParseBool"):
		return "must be true or false"
	case strings.HasPrefix(text, "strconv."):
		return "must be a whole number within its limits"
	case strings.HasPrefix(text, "time: "):
		return "must be a duration such as 30s"
	}
	return text
}

// dashed returns a flag as it is written on the command line.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagNames returns the flags of a command and of all commands.
func flagNames(list []*flags.Option) []string {
	var names []string
	for _, option := range list {
		names = append(names, dashed(option.LongName))
	}
	return names
}

func commandNames(command *flags.Command) []string {
	var names []string
	for _, child := range command.Commands() {
		names = append(names, child.Name)
	}
	return names
}

// suggestion returns the end of a message about an unknown name: the nearest known one, or "" if none is near.
func suggestion(name string, known []string) string {
	if nearest := Nearest(name, known); nearest != "" {
		return ", did you mean " + nearest + "?"
	}
	return ""
}

// Nearest returns the known name with the fewest different characters, at most a third of them; "" without one.
func Nearest(name string, known []string) string {
	nearest, least := "", len(name)/3+1
	for _, candidate := range known {
		if distance := levenshtein.ComputeDistance(name, candidate); distance < least {
			nearest, least = candidate, distance
		}
	}
	return nearest
}
