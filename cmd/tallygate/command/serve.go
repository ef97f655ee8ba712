package command

import (
	"context"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
)

type serveCommand struct {
	config.Config `embed:""`
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, term terminal) error {
	app, err := serve.Open(ctx, &c.Config, c.Logger(term.log))
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
