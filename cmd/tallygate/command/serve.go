package command

import (
	"context"

	"github.com/tallygate/tallygate/cmd/tallygate/serve"
)

type serveCommand struct{}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, s *session) error {
	app, err := serve.Open(ctx, s.settings, s.settings.Logger(s.log))
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
