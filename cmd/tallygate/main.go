// Command tallygate is the whole product in one program: cookieless web analytics and a
// proof-of-work captcha that a site owner runs for their own sites. This package reads the
// configuration and wires the parts together; the rules are theirs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/tallygate/tallygate/cmd/internal/environment"
)

// commands is the command line.
type commands struct {
	Serve   serveCommand   `cmd:"" default:"withargs" help:"Run the service (the default command)."`
	Demo    demoCommand    `cmd:"" help:"Run the service with a demo account, site and page, to look around."`
	Migrate migrateCommand `cmd:"" help:"Bring the database's schema up to date and exit."`
	Admin   adminCommands  `cmd:"" help:"What the operator does on the machine itself: accounts, passwords, plans."`
}

// terminal is what commands print to: results on out, log lines on log.
type terminal struct {
	out, log io.Writer
}

// The collector's settings, unless GOGC and GOMEMLIMIT say otherwise: the heap grows to five times
// what is in use before it is collected, but not beyond the limit. What is in use is a few tens of
// megabytes, while every hit allocates: by Go's default of 100 percent, the collector takes a tenth
// of all processor time.
const (
	gcPercent   = 400
	memoryLimit = 160 << 20 // bytes; a soft limit on what Go manages, to which SQLite adds about 60 MB
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		// a second signal ends the process at once
		stop()
	}()

	os.Exit(run(ctx, os.Args[1:], terminal{out: os.Stdout, log: os.Stderr}))
}

// run runs one command until it is done or ctx ends, and returns the exit status: 0, 1 when the
// command failed, 2 when the command line or the environment is wrong.
func run(ctx context.Context, args []string, term terminal) int {
	var cli commands
	exited := -1
	parser, err := newParser(ctx, &cli, term, func(status int) { exited = status })
	if err != nil {
		fmt.Fprintln(term.log, "tallygate:", err)
		return 2
	}

	command, err := parser.Parse(args)

	// --help
	if exited >= 0 {
		return exited
	}

	if err != nil {
		// What follows would repeat the variable's value, which may be a secret.
		message, _, _ := strings.Cut(err.Error(), " (from envar ")
		reportFailure(term.log, wantsJSON(args), message)
		return 2
	}

	if err := command.Run(); err != nil && !errors.Is(err, context.Canceled) {
		reportFailure(term.log, cli.logsJSON(command.Command()), err.Error())
		return 1
	}

	return 0
}

// reportFailure writes why the program ends, as its last log line.
func reportFailure(w io.Writer, asJSON bool, message string) {
	if !asJSON {
		fmt.Fprintln(w, "tallygate:", message)
		return
	}
	slog.New(slog.NewJSONHandler(w, nil)).Error(message)
}

// logsJSON reports whether a command writes its log as JSON. The commands of admin report to
// people.
func (c *commands) logsJSON(command string) bool {
	switch command {
	case "serve":
		return c.Serve.LogFormat == formatJSON
	case "demo":
		return c.Demo.LogFormat == formatJSON
	case "migrate":
		return c.Migrate.LogFormat == formatJSON
	}

	return false
}

// wantsJSON reports whether a command line and environment that cannot be read ask for log lines in JSON.
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

	return format == formatJSON
}

// formatJSON is the log format for machines.
const formatJSON = "json"

// newParser returns what reads the command line and the environment into cli. exit gets the status
// where --help ends the run.
func newParser(ctx context.Context, cli *commands, term terminal, exit func(status int)) (*kong.Kong, error) {
	return kong.New(cli,
		kong.Name("tallygate"),
		kong.Description("Cookieless web analytics and an invisible proof-of-work captcha."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.ValueFormatter(describe),
		environment.IgnoreEmpty(),
		kong.Writers(term.out, term.log),
		kong.Exit(exit),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(term),
	)
}

// describe is a setting's text in the help: what it is, its default and its environment variable.
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

// logger writes log lines in the configured form.
func logger(c *Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == formatJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
