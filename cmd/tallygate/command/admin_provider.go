package command

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db/accounts"
)

type verifyDomainCommand struct {
	Args struct {
		Email accountOf `positional-arg-name:"<email>" description:"E-mail address of a user of the account."`
	} `positional-args:"yes" required:"yes"`
}

// Run confirms the domain of the account's provider.
func (c *verifyDomainCommand) Run(ctx context.Context, s *session) error {
	d, account, err := s.account(ctx, c.Args.Email)
	if err != nil {
		return err
	}

	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	store := accounts.New(d)
	provider, err := store.Providers.Of(ctx, account.ID)
	if err != nil {
		return fmt.Errorf("the account %s has no provider: %w", account.Name, err)
	}
	if err := store.Providers.Verify(ctx, provider, nil, now); err != nil {
		return err
	}

	fmt.Fprintf(s.out, "%s belongs to %s.\n", provider.Domain, account.Name)
	return nil
}
