package verify

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// Command compares a journal with the stored rows.
type Command struct {
	Journal string `arg:"" default:"loadgen.journal" placeholder:"FILE" help:"Journal of the run."`
	JSON    bool   `name:"json" help:"Print the verdict as JSON."`
}

// Run prints the verdict. It returns an error if a fault was found.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	v, err := Journal(ctx, c.Journal)
	if err != nil {
		return err
	}

	return Print(term, c.JSON, v)
}

// Result is the outcome of a command that verifies hits.
type Result interface {
	OK() bool        // no fault was found, and every check was made
	Print(io.Writer) // for people
}

// Print prints a result, as JSON if asked to. It returns ErrFaults unless the result is OK.
func Print(term report.Terminal, asJSON bool, result Result) error {
	if asJSON {
		if err := json.NewEncoder(term.Out).Encode(result); err != nil {
			return err
		}
	} else {
		result.Print(term.Out)
	}

	if !result.OK() {
		return ErrFaults
	}
	return nil
}

// ErrFaults is the error of a run with a verdict other than OK.
var ErrFaults = errors.New("hits were lost, duplicated or miscounted, or none was acknowledged")
