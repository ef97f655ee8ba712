package command

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/cmd/tallygate/secret"
)

type rotateSecretCommand struct{}

// Run replaces the application key in the database by the configured one. If the key is a file in
// the data folder, it creates a new one.
func (c *rotateSecretCommand) Run(ctx context.Context, s *session) error {
	if err := database.CheckExists(ctx, s.settings); err != nil {
		return err
	}

	result, err := secret.Rotate(ctx, s.settings, s.settings.Logger(s.log))
	if err != nil {
		return err
	}

	if result.Already {
		fmt.Fprintln(s.out, "The database used this key already.")
	} else {
		fmt.Fprintln(s.out, "The application key is replaced.")
	}

	fmt.Fprintf(s.out, "Webhook secrets sealed with the new key: %d.\n", result.Resealed)

	fmt.Fprintf(s.out, "TOTP secrets sealed with the new key: %d.\n", result.ResealedTOTP)

	if len(result.Unreadable) > 0 {
		fmt.Fprintf(s.out,
			"Neither key opens the webhook secrets of the sites %v. They are left as they are; their owners must "+
				"set them again.\n", result.Unreadable)
	}

	if len(result.UnreadableUsers) > 0 {
		fmt.Fprintf(s.out,
			"Neither key opens the TOTP secrets of %d users. They are left as they are; reset these users' second "+
				"factors with \"tallygate admin reset-second-factor\".\n", len(result.UnreadableUsers))
	}

	fmt.Fprintln(s.out,
		"Keep the previous key (TALLYGATE_SECRET_PREVIOUS, or the file secret.previous) until the time that "+
			"docs/operator/incidents.md names under \"Change the application key\".")
	return nil
}
