package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// connection is the migrated database of a command. It is opened when a Run method takes a *db.DB.
type connection struct {
	db   *db.DB
	hold *database.Hold
}

// open opens the database. kong calls it once at most, before the command's Run.
func (c *connection) open(ctx context.Context, settings *config.Config, term terminal) (*db.DB, error) {
	var err error
	c.db, c.hold, err = database.Open(ctx, settings, settings.Logger(term.log))
	return c.db, err
}

// close closes the database after a command that ended with err. Domain errors are reduced to the
// messages for people, one on each line.
func (c *connection) close(err error) error {
	if c.db == nil {
		return err
	}
	defer c.hold.Release()

	return readable(errors.Join(err, c.db.Close()))
}

// email is an argument that is an e-mail address.
type email string

// UnmarshalText parses and normalizes an address.
func (e *email) UnmarshalText(text []byte) error {
	address, err := model.ParseEmail(string(text))
	if shown, ok := errors.AsType[*model.Error](err); ok {
		return errors.New(shown.Message)
	}

	*e = email(address)
	return err
}

// accountOf is the e-mail address of a user in an argument. Run gets the user's default account, if
// it takes a *model.Account after the *db.DB.
type accountOf string

// UnmarshalText parses and normalizes an address.
func (a *accountOf) UnmarshalText(text []byte) error { return (*email)(a).UnmarshalText(text) }

// AfterApply binds the account.
func (a accountOf) AfterApply(parsed *kong.Context) error {
	return parsed.BindSingletonProvider(func(ctx context.Context, d *db.DB) (*model.Account, error) {
		return accountByEmail(ctx, d, string(a))
	})
}

// accountByEmail returns the default account of the user with an address.
func accountByEmail(ctx context.Context, d *db.DB, address string) (*model.Account, error) {
	address, err := model.ParseEmail(address)
	if err != nil {
		return nil, err
	}

	user, err := accounts.New(d).UserByEmail(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", address, err)
	}

	return user.Account, nil
}

// day is an argument that is a date.
type day model.Day

// UnmarshalText parses a date.
func (d *day) UnmarshalText(text []byte) error {
	parsed, err := model.ParseDay(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a day such as 2026-05-31", text)
	}

	*d = day(parsed)
	return nil
}

// siteKey is the key of a site in an argument. Run gets the site, if it takes a *model.SiteRules after
// the *db.DB.
type siteKey string

// AfterApply binds the site.
func (k siteKey) AfterApply(parsed *kong.Context) error { return parsed.BindSingletonProvider(k.site) }

// site returns the site with the key.
func (k siteKey) site(ctx context.Context, d *db.DB) (*model.SiteRules, error) {
	site, err := sites.New(d).SiteRulesByKey(ctx, string(k))
	if errors.Is(err, model.ErrNotFound) {
		return nil, fmt.Errorf("there is no site with the key %q", string(k))
	}
	return site, err
}
