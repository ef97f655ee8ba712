// Package command is the command line of the program: a type per command, with its arguments and
// what it does. The rules are in the packages that the commands call.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/jessevdk/go-flags"

	"github.com/tallygate/tallygate/cmd/commandline"
	"github.com/tallygate/tallygate/cmd/tallygate/background"
	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
)

// Main runs the command in the process's arguments until it is done, or until the first SIGINT or
// SIGTERM. It ends the process with the status of Run.
func Main() {
	setGarbageCollector()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		// A second signal terminates the process.
		stop()
	}()

	os.Exit(Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// The garbage collector's settings, unless GOGC or GOMEMLIMIT are set. The heap grows to five times
// the live memory before it is collected, up to the limit. The live memory is a few tens of
// megabytes while every hit allocates. With Go's default of 100 percent, the collector would take a
// tenth of the processor time.
const (
	gcPercent   = 400
	memoryLimit = 160 << 20 // bytes; a soft limit on Go's memory, without about 60 MB of SQLite
)

func setGarbageCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// The exit statuses other than 0. Service managers start the program again after statusFailed alone.
const (
	statusFailed  = 1 // the command failed, or doctor found an error
	statusUsage   = 2 // the command line or the environment is invalid
	statusWarning = 3 // doctor found a warning
	statusRefused = 4 // only a person can correct the reason, see db.Refusal
)

// failureStatus returns the exit status of a command that failed.
func failureStatus(err error) int {
	if _, refused := errors.AsType[*db.Refusal](err); refused {
		return statusRefused
	}
	return statusFailed
}

// Run runs one command until it is done or ctx ends. Results go to out, log lines to log. It
// returns the exit status.
func Run(ctx context.Context, args []string, out, log io.Writer) int {
	s := &session{terminal: terminal{out: out, log: log}}
	command, err := s.parse(args)
	switch {
	case errors.Is(err, commandline.ErrHelp):
		return 0
	case err != nil:
		reportFailure(s.log, wantsJSON(args), err.Error())
		return statusUsage
	}

	if strings.HasPrefix(s.name(), "admin ") {
		ctx = audit.WithActor(ctx, audit.Actor{Kind: audit.CommandLine, Action: s.name()})
	}

	err = s.close(command.Run(ctx, s))
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		// The admin commands write for people.
		asJSON := s.settings.LogFormat == config.FormatJSON && s.serves()
		reportFailure(s.log, asJSON, s.parser.NameVariables(err.Error()))
		return failureStatus(err)
	}

	return 0
}

// parse parses the arguments and the environment, and checks the settings. It returns the command.
func (s *session) parse(args []string) (runner, error) {
	var err error
	s.settings = new(config.Config)
	if s.parser, err = newParser(s.settings); err != nil {
		return nil, err
	}

	selected, err := s.parser.Parse(customary(args), s.out)
	if err != nil {
		return nil, err
	}

	command, ok := selected.(runner)
	if !ok {
		return nil, fmt.Errorf("%s cannot be run", s.parser.Path())
	}
	if unknown := unknownVariables(s.parser); len(unknown) > 0 && s.serves() {
		return nil, errors.New(strings.Join(unknown, "; "))
	}

	err = s.settings.Validate()
	if c, ok := command.(checker); ok && err == nil {
		err = c.check(s)
	}
	if err != nil {
		return nil, errors.New(s.parser.NameVariables(err.Error()))
	}

	return command, nil
}

// customary returns the arguments for "--version" and "help COMMAND", which other programs have.
func customary(args []string) []string {
	switch {
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// reportFailure writes the reason for the failure as the last log line.
func reportFailure(w io.Writer, asJSON bool, message string) {
	if !asJSON {
		fmt.Fprintln(w, "tallygate:", message)
		return
	}
	slog.New(slog.NewJSONHandler(w, nil)).Error(message)
}

// wantsJSON reports whether an invalid command line and environment select JSON log lines.
func wantsJSON(args []string) bool {
	if len(args) > 0 && args[0] == "admin" {
		return false
	}

	format := os.Getenv("TALLYGATE_LOG_FORMAT")
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, "--log-format"); found {
			if value == "" && i+1 < len(args) {
				value = args[i+1]
			}

			format = strings.TrimPrefix(value, "=")
		}
	}

	return format == config.FormatJSON
}

// entry is a command by its name.
type entry struct {
	name     string
	data     any // a runner, unless the command has commands
	commands []entry
}

// newParser returns a parser of the command line and the environment, which sets the settings.
func newParser(settings *config.Config) (*commandline.Parser, error) {
	parser := commandline.New("tallygate", "Cookieless web analytics and an invisible proof-of-work captcha.")
	if err := parser.AddSettings(settings); err != nil {
		return nil, err
	}

	if err := addCommands(parser, parser.Command, []entry{
		{name: "serve", data: new(serveCommand)},
		{name: "demo", data: new(demoCommand)},
		{name: "migrate", data: new(migrateCommand)},
		{name: "doctor", data: new(doctorCommand)},
		{name: "health", data: new(healthCommand)},
		{name: "version", data: new(versionCommand)},
		{name: "admin", data: new(struct{}), commands: adminCommands()},
	}); err != nil {
		return nil, err
	}

	child, err := parser.Add(parser.Command, background.Command, new(backgroundCommand))
	if err != nil {
		return nil, err
	}
	child.Hidden = true

	parser.SetDefault(parser.Command, "serve")
	parser.SetDefault(parser.Find("admin").Find("cells"), "list")
	addTexts(parser)
	return parser, nil
}

// addCommands adds commands with the commands below them.
func addCommands(parser *commandline.Parser, parent *flags.Command, entries []entry) error {
	for _, e := range entries {
		command, err := parser.Add(parent, e.name, e.data)
		if err != nil {
			return err
		}
		if err := addCommands(parser, command, e.commands); err != nil {
			return err
		}
	}
	return nil
}
