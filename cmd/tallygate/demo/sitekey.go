package demo

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

const sitekeyName = "Demo form"

// prepareSitekey returns the owner's sitekey for the demo's domain, created on the first run, and
// its secret. Only the secret's hash is stored, so every run rotates it.
func prepareSitekey(ctx context.Context, d *db.DB, ownerEmail string) (key *model.Sitekey, secret string, err error) {
	owner, err := accounts.New(d).UserByEmail(ctx, ownerEmail)
	if err != nil {
		return nil, "", err
	}

	keys, err := sites.New(d).Sitekeys.Sitekeys(ctx, owner.AccountID, 0, 100)
	if err != nil {
		return nil, "", err
	}

	for _, key := range keys {
		if key.Name == sitekeyName {
			_, secret, err := sites.New(d).Sitekeys.RotateSitekeySecret(ctx, owner.AccountID, key.ID, 0)
			return key, secret, err
		}
	}

	return sites.New(d).Sitekeys.CreateSitekey(ctx, owner.AccountID, sitekeyName, []string{Domain, "localhost"}, model.At(time.Now()))
}
