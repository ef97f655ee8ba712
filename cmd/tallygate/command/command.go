// Package command is the command line of the program: a type per command, with its arguments and what
// it does. The rules are in the packages that the commands call.
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

	"github.com/alecthomas/kong"

	"github.com/tallygate/tallygate/cmd/environment"
	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/audit"
)

// commands is the command line.
type commands struct {
	config.Config `embed:"" group:"Settings:"`

	Serve   serveCommand   `cmd:"" default:"withargs"`
	Demo    demoCommand    `cmd:""`
	Migrate migrateCommand `cmd:""`
	Doctor  doctorCommand  `cmd:""`
	Health  healthCommand  `cmd:""`
	Version versionCommand `cmd:""`
	Admin   adminCommands  `cmd:""`
}

// terminal is the output of a command: results on out, log lines on log.
type terminal struct {
	out, log io.Writer
}

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

// Run runs one command until it is done or ctx ends. Results go to out, log lines to log. It returns
// the exit status: 0, 1 if the command failed, or 2 if the command line or the environment is
// invalid.
func Run(ctx context.Context, args []string, out, log io.Writer) int {
	term := terminal{out: out, log: log}
	var cli commands
	exited := -1
	parser, err := newParser(ctx, &cli, term, func(status int) { exited = status })
	if err != nil {
		fmt.Fprintln(term.log, "tallygate:", err)
		return 2
	}

	command, err := parser.Parse(args)

	// --help was printed.
	if exited >= 0 {
		return exited
	}

	if err != nil {
		// The rest of the message repeats the variable's value, which may be a secret.
		message, _, _ := strings.Cut(err.Error(), " (from envar ")
		reportFailure(term.log, wantsJSON(args), message)
		return 2
	}

	if name := adminCommand(command); name != "" {
		actor := audit.Actor{Kind: audit.CommandLine, Action: name}
		command.BindTo(audit.WithActor(ctx, actor), (*context.Context)(nil))
	}

	var d connection
	if err := command.BindSingletonProvider(d.open); err != nil {
		fmt.Fprintln(term.log, "tallygate:", err)
		return 2
	}

	err = d.close(command.Run())
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		reportFailure(term.log, cli.logsJSON(command.Command()), err.Error())
		return 1
	}

	return 0
}

// adminCommand returns the name of an admin command, such as "admin set-plan"; "" for other commands.
func adminCommand(command *kong.Context) string {
	words := strings.Fields(command.Command())
	if len(words) < 2 || words[0] != "admin" {
		return ""
	}
	return words[0] + " " + words[1]
}

// reportFailure writes the reason for the failure as the last log line.
func reportFailure(w io.Writer, asJSON bool, message string) {
	if !asJSON {
		fmt.Fprintln(w, "tallygate:", message)
		return
	}
	slog.New(slog.NewJSONHandler(w, nil)).Error(message)
}

// logsJSON reports whether a command writes JSON log lines. The admin commands write for people.
func (c *commands) logsJSON(command string) bool {
	return c.LogFormat == config.FormatJSON && slices.Contains([]string{"serve", "demo", "migrate"}, command)
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

// newParser returns a parser of the command line and the environment. It calls exit with the status
// after printing help.
func newParser(ctx context.Context, cli *commands, term terminal, exit func(status int)) (*kong.Kong, error) {
	return kong.New(cli,
		kong.Name("tallygate"),
		kong.Description("Cookieless web analytics and an invisible proof-of-work captcha."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(printHelp),
		kong.ValueFormatter(describe),
		kong.PostBuild(addTexts),
		environment.IgnoreEmpty(),
		kong.Writers(term.out, term.log),
		kong.Exit(exit),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(term, &cli.Config),
	)
}

// printHelp prints the help of a command with the settings after its own flags, and the help of a list of
// commands without settings.
func printHelp(options kong.HelpOptions, parsed *kong.Context) error {
	var own, settings []*kong.Flag
	for _, flag := range parsed.Model.Flags {
		if flag.Group == nil {
			own = append(own, flag)
		} else {
			settings = append(settings, flag)
		}
	}
	parsed.Model.Flags = own

	if selected := parsed.Selected(); selected != nil && selected.Leaf() {
		selected.Flags = append(selected.Flags, settings...)
	}

	return kong.DefaultHelpPrinter(options, parsed)
}

// describe returns a setting's help text: meaning, default and environment variable.
func describe(v *kong.Value) string {
	text := v.Help
	if v.HasDefault && v.Default != "" {
		text += " Default: " + v.Default + "."
	}

	for _, name := range v.Tag.Envs {
		text += " ($" + name + ")"
	}

	return text
}
