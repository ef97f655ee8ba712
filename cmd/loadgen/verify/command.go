package verify

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tallygate/tallygate/cmd/loadgen/report"
)

// Command checks a journal against what is stored.
type Command struct {
	Journal string `arg:"" default:"loadgen.journal" placeholder:"FILE" help:"Journal of the run."`
	JSON    bool   `name:"json" help:"Print the verdict as JSON."`
}

// Run runs the command. A fault is an error.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	v, err := Journal(ctx, c.Journal)
	if err != nil {
		return err
	}

	if c.JSON {
		err = json.NewEncoder(term.Out).Encode(v)
	} else {
		v.Print(term.Out)
	}

	if err == nil && !v.OK() {
		err = ErrFaults
	}

	return err
}

var ErrFaults = errors.New("hits were lost, duplicated or miscounted, or none was acknowledged")
