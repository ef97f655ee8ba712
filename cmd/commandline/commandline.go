// Package commandline is what the command lines of all programs share: help, and errors that name
// the flag or the variable to correct without its value, which may be a secret. go-flags parses.
package commandline

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/jessevdk/go-flags"
)

// ErrHelp is returned after the help was printed.
var ErrHelp = errors.New("the help was printed")

// Parser parses the command line and the environment of a program. Types of flags and arguments may
// implement flags.Unmarshaler. In addition to the tags of go-flags, a flag of the settings may
// begin a section of their help, named by the tag section, and the tag defaults has values
// separated by commas, also of a bool.
type Parser struct {
	*flags.Parser
	data     map[*flags.Command]any
	settings *flags.Group // flags of all commands, which only --help-settings lists; nil: none
	wanted   *flags.Group // settings, if --help-settings was given
}

// New returns a parser of a program without commands and flags.
func New(name, about string) *Parser {
	p := &Parser{
		Parser: flags.NewNamedParser(name, flags.HelpFlag|flags.PassDoubleDash|flags.AllowBoolValues),
		data:   make(map[*flags.Command]any),
	}
	p.LongDescription = about
	return p
}

// AddFlags adds flags of all commands, the fields of a struct.
func (p *Parser) AddFlags(data any) error {
	group, err := p.AddGroup("Flags", "", data)
	if err != nil {
		return err
	}
	complete(group)
	return nil
}

// AddSettings adds flags of all commands that only --help-settings lists.
func (p *Parser) AddSettings(data any) error {
	var help struct {
		Help func() error `long:"help-settings" hidden:"true"`
	}
	help.Help = func() error {
		p.wanted = p.settings
		return &flags.Error{Type: flags.ErrHelp}
	}
	if err := p.AddFlags(&help); err != nil {
		return err
	}

	var err error
	if p.settings, err = p.AddGroup("Settings", "", data); err != nil {
		return err
	}
	complete(p.settings)
	return nil
}

// Add adds a command to the program or to a command. Its flags and arguments are the fields of
// data, a pointer to a struct. The caller sets the long description.
func (p *Parser) Add(parent *flags.Command, name string, data any) (*flags.Command, error) {
	command, err := parent.AddCommand(name, "", "", data)
	if err != nil {
		return nil, err
	}
	p.data[command] = data
	complete(command.Group)
	return command, nil
}

// SetDefault lets a child of a command, or of the program, run if the arguments name no command.
func (p *Parser) SetDefault(parent *flags.Command, child string) {
	parent.SubcommandsOptional = true
	p.data[parent] = p.data[parent.Find(child)]
}

// complete applies the tag defaults.
func complete(group *flags.Group) {
	for _, option := range group.Options() {
		if defaults := option.Field().Tag.Get("defaults"); defaults != "" {
			option.Default = strings.Split(defaults, ",")
		}
	}
}

// Parse parses arguments and the environment, where an empty variable counts as unset. It returns
// the data of the selected command, or nil if none is selected and the program needs none. It
// prints the help to out.
func (p *Parser) Parse(args []string, out io.Writer) (any, error) {
	if err := p.unsetEmpty(); err != nil {
		return nil, err
	}

	rest, err := p.ParseArgs(args)
	if flags.WroteHelp(err) {
		return nil, errors.Join(ErrHelp, p.writeHelp(out))
	}
	if err != nil {
		return nil, p.explain(err, rest)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q%s", rest[0], suggestion(rest[0], commandNames(p.selected())))
	}

	return p.data[p.selected()], nil
}

// selected returns the command that the arguments name, or the program itself.
func (p *Parser) selected() *flags.Command {
	command := p.Command
	for command.Active != nil {
		command = command.Active
	}
	return command
}

// Path returns the words of the selected command, such as "admin invite".
func (p *Parser) Path() string {
	var words []string
	for command := p.Active; command != nil; command = command.Active {
		words = append(words, command.Name)
	}
	return strings.Join(words, " ")
}

// unsetEmpty removes empty variables from the process's environment, because go-flags itself takes
// them as values. Compose and systemd files set empty variables for what is not configured.
func (p *Parser) unsetEmpty() error {
	for _, name := range p.Variables() {
		if value, set := os.LookupEnv(name); set && value == "" {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Variables returns the environment variables of the program and all its commands.
func (p *Parser) Variables() []string {
	var names []string
	for _, option := range options(p.Command) {
		if option.EnvDefaultKey != "" {
			names = append(names, option.EnvDefaultKey)
		}
	}
	return names
}

// options returns the flags of a command and of all commands below it.
func options(command *flags.Command) []*flags.Option {
	list := slices.Clone(command.Options())
	for _, group := range command.Groups() {
		list = append(list, group.Options()...)
	}
	for _, child := range command.Commands() {
		list = append(list, options(child)...)
	}
	return list
}

// IsConfigured reports whether the arguments or the environment set a flag of the selected command
// or of all commands.
func (p *Parser) IsConfigured(flag string) bool {
	option := p.selected().FindOptionByLongName(flag)
	return option != nil && (!option.IsSetDefault() || variable(option) != "")
}

// variable returns the variable from which a flag has its value; "" if it has another source.
func variable(option *flags.Option) string {
	if option.IsSetDefault() && os.Getenv(option.EnvDefaultKey) != "" {
		return option.EnvDefaultKey
	}
	return ""
}

// flagName matches the name of a flag in a message.
var flagName = regexp.MustCompile(`--[a-z][a-z-]*`)

// NameVariables replaces each flag in a message by its variable, if the value came from there. A flag
// without a value is replaced, too, if another one in the message has its value from a variable: a
// person who sets variables is asked for variables.
func (p *Parser) NameVariables(message string) string {
	option := func(name string) *flags.Option { return p.selected().FindOptionByLongName(name[len("--"):]) }
	usesVariables := slices.ContainsFunc(flagName.FindAllString(message, -1), func(name string) bool {
		o := option(name)
		return o != nil && variable(o) != ""
	})

	return flagName.ReplaceAllStringFunc(message, func(name string) string {
		o := option(name)
		isGiven := o != nil && o.IsSet() && !o.IsSetDefault()
		if o == nil || isGiven || !usesVariables || o.EnvDefaultKey == "" {
			return name
		}
		return o.EnvDefaultKey
	})
}

// emptyArgument returns the name of the first positional argument without a value, at which the
// conversion failed.
func emptyArgument(data any) string {
	command := reflect.ValueOf(data).Elem()
	for i := range command.NumField() {
		if command.Type().Field(i).Tag.Get("positional-args") == "" {
			continue
		}

		arguments := command.Field(i)
		for j := range arguments.NumField() {
			if arguments.Field(j).IsZero() {
				return arguments.Type().Field(j).Tag.Get("positional-arg-name")
			}
		}
	}
	return "argument"
}
