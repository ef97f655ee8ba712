package command

import (
	"context"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
)

type serveCommand struct{}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, term terminal, settings *config.Config) error {
	app, err := serve.Open(ctx, settings, settings.Logger(term.log))
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
