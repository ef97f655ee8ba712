package verify

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tallygate/tallygate/cmd/loadgen/report"
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

// ErrFaults is the error of a run whose verdict is not OK.
var ErrFaults = errors.New("hits were lost, duplicated or miscounted, or none was acknowledged")
