package commandline

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/jessevdk/go-flags"
)

// The columns of the help.
const (
	helpWidth = 80
	textStart = 28 // where the texts begin
)

// writeHelp prints the help of the selected command, or the settings if --help-settings was given.
func (p *Parser) writeHelp(w io.Writer) error {
	var b bytes.Buffer
	if p.wanted != nil {
		p.helpSettings(&b)
	} else {
		p.helpCommand(&b, p.selected())
	}
	_, err := w.Write(b.Bytes())
	return err
}

// helpSettings prints the settings with their sections.
func (p *Parser) helpSettings(b *bytes.Buffer) {
	fmt.Fprintln(b, wrap("Settings of all commands. Each is a flag or an environment variable; a flag takes precedence, "+
		"and an empty variable counts as unset.", helpWidth, ""))
	for _, option := range p.settings.Options() {
		if section := option.Field().Tag.Get("section"); section != "" {
			fmt.Fprintf(b, "\n%s:\n", section)
		}
		writeFlag(b, option)
	}
}

// helpCommand prints the arguments, flags and commands of a command.
func (p *Parser) helpCommand(b *bytes.Buffer, command *flags.Command) {
	fmt.Fprintf(b, "Usage: %s [flags]%s\n\n%s\n", strings.TrimSpace(p.Name+" "+p.Path()), usage(command),
		wrap(command.LongDescription, helpWidth, ""))

	if args := command.Args(); len(args) > 0 {
		fmt.Fprintln(b, "\nArguments:")
		for _, arg := range args {
			writeRow(b, arg.Name, arg.Description)
		}
	}

	fmt.Fprintln(b, "\nFlags:")
	for _, option := range command.Options() {
		writeFlag(b, option)
	}
	for _, group := range p.Groups() {
		for _, option := range group.Options() {
			if group != p.settings {
				writeFlag(b, option)
			}
		}
	}

	if commands := command.Commands(); len(commands) > 0 {
		fmt.Fprintln(b, "\nCommands:")
		for _, child := range commands {
			if !child.Hidden {
				writeRow(b, child.Name, child.LongDescription)
			}
		}
		fmt.Fprintf(b, "\n\"%s COMMAND --help\" describes a command.\n", strings.TrimSpace(p.Name+" "+p.Path()))
	}

	if p.settings != nil {
		fmt.Fprintln(b, "\nSettings: --help-settings lists them.")
	}
}

// usage returns the arguments and commands that follow a command.
func usage(command *flags.Command) string {
	var words string
	for _, arg := range command.Args() {
		switch {
		case arg.Required > 0:
			words += " " + arg.Name + "..."
		case command.ArgsRequired:
			words += " " + arg.Name
		default:
			words += " [" + arg.Name + "]"
		}
	}

	switch {
	case len(command.Commands()) == 0:
		return words
	case command.SubcommandsOptional:
		return words + " [COMMAND]"
	}
	return words + " COMMAND"
}

// writeFlag prints a flag with its value's name, text, default and variable.
func writeFlag(b *bytes.Buffer, option *flags.Option) {
	if option.Hidden {
		return
	}

	name := "--" + option.LongName
	if option.ShortName != 0 {
		name = fmt.Sprintf("-%c, %s", option.ShortName, name)
	}
	if option.ValueName != "" {
		name += "=" + option.ValueName
	}

	text := option.Description
	if len(option.Default) > 0 {
		text += " Default: " + strings.Join(option.Default, ", ") + "."
	}
	if option.EnvDefaultKey != "" {
		text += " ($" + option.EnvDefaultKey + ")"
	}
	writeRow(b, name, text)
}

// writeRow prints a name, and the text in the same line or below it.
func writeRow(b *bytes.Buffer, name, text string) {
	margin := strings.Repeat(" ", textStart)
	text = wrap(text, helpWidth-textStart, margin)
	if name = "  " + name; len(name) <= textStart-2 {
		fmt.Fprintf(b, "%-*s%s\n", textStart, name, text)
	} else {
		fmt.Fprintf(b, "%s\n%s%s\n", name, margin, text)
	}
}

// wrap breaks a text into lines of at most width bytes, if its words permit. margin precedes all
// lines but the first.
func wrap(text string, width int, margin string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && column+1+len(word) > width:
			b.WriteString("\n" + margin)
			column = 0
		case i > 0:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
