// Command loadgen tests and measures Tallygate under load. It drives an instance over HTTP with a
// realistic mix, verifies that every acknowledged hit is stored and counted once, kills and attacks
// servers under load, and measures the service against the limits of the machine. It uses the
// interfaces of browsers and owners. This package reads the command line; each command has a
// package of its own below.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/tallygate/tallygate/cmd/environment"
	"github.com/tallygate/tallygate/tools/loadgen/attack"
	"github.com/tallygate/tallygate/tools/loadgen/bench"
	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/cells"
	"github.com/tallygate/tallygate/tools/loadgen/chaos"
	"github.com/tallygate/tallygate/tools/loadgen/cluster"
	"github.com/tallygate/tallygate/tools/loadgen/fleet"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/run"
	"github.com/tallygate/tallygate/tools/loadgen/upgrade"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// commands is the command line.
type commands struct {
	Run     run.Command          `cmd:"" help:"Drive a running instance and report throughput, latency and errors."`
	Captcha captcha.Command      `cmd:"" help:"Drive the captcha of a running instance, and check that each token counts once."`
	Verify  verify.Command       `cmd:"" help:"Check that each acknowledged hit of a run is stored and counted once."`
	Chaos   chaos.Command        `cmd:"" help:"Kill, pause and restart an instance under load, then verify."`
	Upgrade upgrade.Command      `cmd:"" help:"Run the previous and the new program on one database under load, then verify."`
	Fleet   fleet.Command        `cmd:"" help:"Measure several data nodes on one PostgreSQL behind HAProxy, and kill them."`
	Cells   cells.Command        `cmd:"" help:"Measure one cell and four on one PostgreSQL, and four on a Citus cluster."`
	Cluster cluster.Command      `cmd:"" help:"Break a Citus cluster, data planes, workers and a Redis Cluster under load, then verify."`
	Limits  bench.LimitsCommand  `cmd:"" help:"Measure the empty handler and the database's bulk copy on this machine."`
	Bench   bench.Command        `cmd:"" help:"Measure the service and these limits, and write the table of ratios."`
	Growth  bench.GrowthCommand  `cmd:"" help:"Measure whether any cost grows with the number of stored rows."`
	Reports bench.ReportsCommand `cmd:"" help:"Measure reports of a site with a year of page views."`
	Attack  attack.Command       `cmd:"" help:"Measure the effect of an attack on other sites."`
	Noop    bench.NoopCommand    `cmd:"" hidden:"" help:"Serve the empty handler, the reference of the measurements."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		// A second signal terminates the process.
		stop()
	}()
	os.Exit(execute(ctx, os.Args[1:], report.Terminal{Out: os.Stdout, Log: os.Stderr}))
}

// execute runs one command and returns the exit status: 0, or 1 if it failed or found a fault, or 2
// if the command line is invalid.
func execute(ctx context.Context, args []string, term report.Terminal) int {
	var cli commands
	exited := -1
	parser, err := newParser(ctx, &cli, term, func(status int) { exited = status })
	if err != nil {
		fmt.Fprintln(term.Log, "loadgen:", err)
		return 2
	}

	command, err := parser.Parse(args)

	// --help was printed.
	if exited >= 0 {
		return exited
	}

	if err != nil {
		fmt.Fprintln(term.Log, "loadgen:", err)
		return 2
	}

	// An interrupted check fails too: it is not complete.
	if err := command.Run(); err != nil {
		fmt.Fprintln(term.Log, "loadgen:", err)
		return 1
	}

	return 0
}

// newParser returns a parser of the command line and the environment. It calls exit with the status
// after printing help.
func newParser(ctx context.Context, cli *commands, term report.Terminal, exit func(status int)) (*kong.Kong, error) {
	return kong.New(cli,
		kong.Name("loadgen"),
		kong.Description("Load, checks and measurements for Tallygate."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		environment.IgnoreEmpty(),
		kong.Writers(term.Out, term.Log),
		kong.Exit(exit),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(term),
	)
}
