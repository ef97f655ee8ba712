// Command loadgen tests and measures Tallygate under load. It drives an instance over HTTP with a
// realistic mix, verifies that every acknowledged hit is stored and counted once, kills and attacks
// servers under load, and measures the service against the limits of the machine. It uses the
// interfaces of browsers and owners. This package reads the command line; package scenario has what
// the commands do.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tallygate/tallygate/cmd/commandline"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/scenario"
)

// commands are the commands with their texts. A command of two words belongs to the group of the
// first.
func commands() []entry {
	return []entry{
		{"run", new(scenario.Hits), "Drive a running instance and report throughput, latency and errors."},
		{"captcha", new(scenario.Captcha), "Drive the captcha of a running instance, and check that each token counts once. " +
			"Start the server with TALLYGATE_CAPTCHA_DIFFICULTY=1024, so that solving is fast, and with " +
			"TALLYGATE_TRUSTED_PROXIES=127.0.0.1. The account must not verify other tokens during the run."},
		{"verify", new(scenario.Verify), "Check that each acknowledged hit of a run is stored and counted once."},

		{"chaos", new(scenario.Chaos), "Kill, pause and restart an instance under load, then verify."},
		{"upgrade", new(scenario.Upgrade), "Run the previous and the new program on one database under load, then verify."},
		{"fleet", new(scenario.Fleet), "Measure several data nodes on one PostgreSQL behind HAProxy, and kill them."},
		{"cells", new(scenario.Cells), "Measure one cell and four on one PostgreSQL, and four on a Citus cluster."},
		{"cluster", new(scenario.Cluster), "Break a Citus cluster, data planes, workers and a Redis Cluster under load, then verify."},

		{"bench", new(scenario.Bench), "Measure the service, the empty handler and the database's bulk copy, and write the table of ratios."},
		{"growth", new(scenario.Growth), "Measure whether any cost grows with the number of stored rows."},
		{"reports", new(scenario.Reports), "Measure reports of a site with a year of page views."},

		{"attack", new(struct{}), "Measure the effect of an attack on other sites."},
		{"attack visitor", scenario.NewAttack("visitor"), "Send expensive hits from one anonymous client, and measure another site's hits."},
		{"attack neighbours", scenario.NewAttack("neighbours"), "Give the service the most expensive work of one account, such as reports, imports, builds and sign-ins, and measure other accounts' hits."},
		{"attack report", scenario.NewAttack("report"), "Ask for the most expensive reports of a new account, and measure the process and another account."},
		{"attack captcha", new(scenario.AttackCaptcha), "Simulate attacks on a sitekey in virtual time, without a server: what the attacker gets, and how long people wait."},

		{"noop", new(scenario.Noop), "Serve the empty handler, the reference of the measurements."},
	}
}

// entry is a command of the command line.
type entry struct {
	name  string
	flags any // a scenario, the empty handler, or the empty struct of a group
	about string
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
	selected, err := parse(args, term.Out)
	if errors.Is(err, commandline.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(term.Log, "loadgen:", err)
		return 2
	}

	switch c := selected.(type) {
	case scenario.Scenario:
		err = scenario.Run(ctx, c, term)
	case *scenario.Noop:
		err = c.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(term.Log, "loadgen:", err)
		return 1
	}
	return 0
}

// parse returns the flags of the command that the arguments and the environment select. It prints
// the help to out.
func parse(args []string, out io.Writer) (any, error) {
	parser := commandline.New("loadgen", "Load, checks and measurements for Tallygate.")
	for _, c := range commands() {
		parent, name := parser.Command, c.name
		if group, member, ok := strings.Cut(c.name, " "); ok {
			parent, name = parser.Find(group), member
		}
		added, err := parser.Add(parent, name, c.flags)
		if err != nil {
			return nil, err
		}
		added.LongDescription = c.about
	}

	selected, err := parser.Parse(args, out)
	if checked, ok := selected.(interface{ Validate() error }); ok && err == nil {
		err = checked.Validate()
	}
	return selected, err
}
