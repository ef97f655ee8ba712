package command

import (
	"context"
	"log/slog"
	"os"

	"github.com/tallygate/tallygate/cmd/tallygate/background"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
)

// backgroundCommand runs the child process of serve and demo. People do not call it.
type backgroundCommand struct{}

// Run serves until the parent orders the stop. The parent logs why it failed.
func (c *backgroundCommand) Run(ctx context.Context, s *session) error {
	parent, err := background.Join(os.Stdin)
	if err != nil {
		return err
	}
	s.settings = parent.Settings
	log := s.settings.Logger(s.log).With("process", background.Command)
	parent.LowerPriority(log)

	if err := c.serve(ctx, parent, log); err != nil {
		status := failureStatus(err)
		parent.Fail(readable(err).Error(), status == statusRefused)
		return exitStatus(status)
	}
	return nil
}

func (c *backgroundCommand) serve(ctx context.Context, parent *background.Parent, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go parent.Obey(stop)

	app, err := serve.OpenChild(ctx, parent, log)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}
