package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// email is an argument that is an e-mail address.
type email string

// UnmarshalFlag parses and normalizes an address.
func (e *email) UnmarshalFlag(text string) error {
	address, err := model.ParseEmail(text)
	if shown, ok := errors.AsType[*model.Error](err); ok {
		return errors.New(shown.Message)
	}

	*e = email(address)
	return err
}

// accountOf is the e-mail address of a user, and stands for the default account of the user.
type accountOf string

// UnmarshalFlag parses and normalizes an address.
func (a *accountOf) UnmarshalFlag(text string) error { return (*email)(a).UnmarshalFlag(text) }

// accountByEmail returns the default account of the user with an address.
func accountByEmail(ctx context.Context, d *db.DB, address string) (*model.Account, error) {
	address, err := model.ParseEmail(address)
	if err != nil {
		return nil, err
	}

	user, err := accounts.New(d).UserByEmail(ctx, address)
	if err != nil {
		return nil, noUser(err, address)
	}

	return user.Account, nil
}

// noUser says which user is missing if err is model.ErrNotFound. It returns other errors as they
// are.
func noUser(err error, address string) error {
	if !errors.Is(err, model.ErrNotFound) {
		return err
	}
	return fmt.Errorf("there is no user with the address %s; \"tallygate admin users\" lists the users", address)
}

// day is an argument that is a date.
type day model.Day

// UnmarshalFlag parses a date.
func (d *day) UnmarshalFlag(text string) error {
	parsed, err := model.ParseDay(text)
	if err != nil {
		return fmt.Errorf("%q is not a day such as 2026-05-31", text)
	}

	*d = day(parsed)
	return nil
}

// existingFile is the path of a file that exists.
type existingFile string

// UnmarshalFlag checks the file.
func (f *existingFile) UnmarshalFlag(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder", path)
	}

	*f = existingFile(path)
	return err
}

// siteName is the domain or the key of a site.
type siteName string

// site returns the site.
func (n siteName) site(ctx context.Context, d *db.DB) (*model.SiteRules, error) {
	key, err := n.key(ctx, d, false)
	if err != nil {
		return nil, err
	}

	site, err := sites.New(d).Lookup.SiteRulesByKey(ctx, key)
	if errors.Is(err, model.ErrNotFound) {
		return nil, fmt.Errorf("there is no site with the key %q", key)
	}
	return site, err
}

// key returns the key of the site, which may not exist. A domain must belong to one site only: of
// those that are deleted, or of the others.
func (n siteName) key(ctx context.Context, d *db.DB, deleted bool) (string, error) {
	if model.IsSiteKey(string(n)) {
		return string(n), nil
	}

	keys, err := sites.New(d).Sites.KeysOfDomain(ctx, strings.ToLower(string(n)), deleted)
	switch {
	case err != nil:
		return "", err
	case len(keys) == 0 && deleted:
		return "", fmt.Errorf("there is no deleted site with the domain %q", string(n))
	case len(keys) == 0:
		return "", fmt.Errorf("there is no site with the domain %q", string(n))
	case len(keys) > 1:
		return "", fmt.Errorf("several sites have the domain %q: name one by its key, %s", string(n), strings.Join(keys, " or "))
	}
	return keys[0], nil
}
