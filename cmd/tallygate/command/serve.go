package command

import (
	"context"

	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
)

type serveCommand struct {
	Again bool `long:"again"`
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, s *session) error {
	log := s.settings.Logger(s.log)
	if c.Again {
		if err := database.Reclaim(ctx, s.settings, log); err != nil {
			return err
		}
	}

	app, err := serve.Open(ctx, s.settings, log)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
