package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/doctor"
	"github.com/tallygate/tallygate/db/health"
)

type doctorCommand struct {
	Nodes int    `long:"nodes" default:"1" value-name:"N" description:"Services with these settings that share the database."`
	Site  string `long:"site" value-name:"URL" description:"Check only the proxy by which a website serves Tallygate's script at this address, or the tag of a page, from outside."`
	JSON  bool   `long:"json" description:"Print JSON."`
}

// Run checks the configuration and prints what should be changed.
func (c *doctorCommand) Run(ctx context.Context, s *session) error {
	if c.Nodes < 1 {
		return fmt.Errorf("--nodes: %d is not a positive number", c.Nodes)
	}

	report, err := c.examine(ctx, s)
	if err != nil {
		return err
	}
	if err := c.print(s.out, report); err != nil {
		return err
	}

	switch report.Worst() {
	case health.Error:
		return exitStatus(statusFailed)
	case health.Warning:
		return exitStatus(statusWarning)
	}

	return nil
}

// examine runs the checks that the command line asks for.
func (c *doctorCommand) examine(ctx context.Context, s *session) (*doctor.Report, error) {
	if c.Site == "" {
		return doctor.Examine(ctx, doctor.Options{
			Config: s.settings, Now: time.Now, Nodes: c.Nodes, UnknownVariables: unknownVariables(s.parser), Progress: s.progress,
		}), nil
	}

	script, err := doctor.ParseSite(c.Site)
	if err != nil {
		return nil, fmt.Errorf("--site: %w", err)
	}
	return doctor.ExamineSite(ctx, s.settings, script)
}

// progress prints a sentence to a person who waits, and nothing into a file or a pipe.
func (s *session) progress(text string) {
	file, ok := s.log.(*os.File)
	if !ok {
		return
	}
	if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintln(file, text)
	}
}

func (c *doctorCommand) print(w io.Writer, report *doctor.Report) error {
	if c.JSON {
		return writeJSON(w, report)
	}

	for _, f := range report.Findings {
		fmt.Fprintf(w, "%s: %s (%s)\n    %s\n", f.Level, f.Problem, f.Check, f.Action)
	}

	found := fmt.Sprintf("%d findings", len(report.Findings))
	if len(report.Findings) == 1 {
		found = "1 finding"
	}
	fmt.Fprintf(w, "%s. Checked: %s.", found, strings.Join(report.Checked, ", "))
	if len(report.Skipped) > 0 {
		fmt.Fprintf(w, " Not checked: %s.", strings.Join(report.Skipped, ", "))
	}

	_, err := fmt.Fprintln(w)
	return err
}

// exitStatus is the error of a command that has printed its outcome and ends with a status.
type exitStatus int

// Error implements error.
func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

type healthCommand struct{}

// Run asks the running service. Container images without a shell use it as health check.
func (c *healthCommand) Run(ctx context.Context, s *session) error {
	return doctor.Ready(ctx, s.settings)
}
