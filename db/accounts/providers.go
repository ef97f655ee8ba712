package accounts

import (
	"context"
	"crypto/rand"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// Providers stores the providers of accounts, and the people whom providers sign in.
type Providers struct{ db *db.DB }

// Of returns the provider of an account, or model.ErrNotFound.
func (s *Providers) Of(ctx context.Context, accountID model.AccountID) (*model.AccountProvider, error) {
	return readOne[model.AccountProvider](ctx, s.db.Read, "account_id = ?", accountID)
}

// OfDomain returns the provider that has verified a domain, or model.ErrNotFound.
func (s *Providers) OfDomain(ctx context.Context, domain string) (*model.AccountProvider, error) {
	return readOne[model.AccountProvider](ctx, s.db.Read, "domain = ? AND verified_at > 0", domain)
}

// Required reports whether members of an account must sign in through its provider.
func (s *Providers) Required(ctx context.Context, accountID model.AccountID) (bool, error) {
	required, err := s.db.Read.NewSelect().Table("accounts").Where("id = ?", accountID).Where("require_provider").Exists(ctx)
	return required, db.Wrap(err, "read the rule of account %d", accountID)
}

// ClientSecret returns the decrypted client secret of a provider.
func (s *Providers) ClientSecret(provider *model.AccountProvider) (string, error) {
	return keys.New(s.db).Open(keys.ClientSecret(provider.AccountID), provider.ClientSecret)
}

// ErrClientSecret is returned for a new provider without a client secret. A secret belongs to one
// issuer and client, so that no other server ever gets it.
var ErrClientSecret = model.InvalidField("clientSecret", "invalid_text", "Enter the client secret.")

// ProviderChange holds an account's provider to store. The account is that of the provider.
type ProviderChange struct {
	Provider        model.AccountProvider
	Secret          *string // nil: unchanged
	RequireProvider bool    // see model.Account
}

// ErrUnverifiedProvider prevents requiring a provider without a verified domain.
var ErrUnverifiedProvider = &model.Error{
	Kind: model.Conflict, Code: "domain_not_verified", Field: "required",
	Message: "Verify the domain first: otherwise no member could sign in.",
}

// Set stores the provider of an account, and returns it. Another domain must be verified again, and
// another issuer, client or domain ends the sessions that the provider has started. After another
// issuer or client, people prove their address again. The caller must have checked the password of
// the user by. It fails with model.ErrStale, with model.ErrForbidden for a user who is no owner,
// with ErrClientSecret and ErrUnverifiedProvider.
func (s *Providers) Set(
	ctx context.Context, by *model.User, change ProviderChange,
) (*model.AccountProvider, error) {
	var provider model.AccountProvider
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		account, before, err := lockOwned(ctx, tx, by)
		if err != nil {
			return err
		}

		provider = change.Provider
		provider.AccountID, provider.DomainToken = account.ID, rand.Text()
		moved := before == nil || before.Issuer != provider.Issuer || before.ClientID != provider.ClientID
		if before != nil && before.Domain == provider.Domain {
			provider.DomainToken, provider.VerifiedAt = before.DomainToken, before.VerifiedAt
			provider.CheckedAt, provider.MissingSince = before.CheckedAt, before.MissingSince
		}

		switch {
		case change.Secret != nil:
			sealed, err := keys.New(s.db).Seal(ctx, tx, keys.ClientSecret(account.ID), *change.Secret)
			if err != nil {
				return err
			}
			provider.ClientSecret = sealed
		case moved:
			return ErrClientSecret
		default:
			provider.ClientSecret = before.ClientSecret
		}
		if change.RequireProvider && provider.VerifiedAt == 0 {
			return ErrUnverifiedProvider
		}

		if _, err := tx.ExecContext(ctx, "DELETE FROM account_providers WHERE account_id = ?", account.ID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&provider).Exec(ctx); err != nil {
			return err
		}
		if moved || provider.VerifiedAt == 0 {
			if err := endProviderSessions(ctx, tx, account.ID); err != nil {
				return err
			}
		}
		if moved {
			if err := deleteIdentities(ctx, tx, account.ID); err != nil {
				return err
			}
		}
		if err := setRequireProvider(ctx, tx, account.ID, change.RequireProvider); err != nil {
			return err
		}

		after := providerValues(&provider, change.RequireProvider)
		after["clientSecret"] = change.Secret != nil
		return audit.Write(ctx, tx, audit.Change{
			AccountID: account.ID, Object: accountObject(account),
			Before: providerValues(before, account.RequireProvider), After: after,
		})
	})
	if err != nil {
		return nil, db.Wrap(err, "set the provider of account %d", by.AccountID)
	}

	return &provider, nil
}

// Delete deletes the provider of an account with the sessions that it has started, and the people
// whom it knows. Their users stay members. The account no longer requires a provider. It fails as
// Set does, and succeeds without a provider.
func (s *Providers) Delete(ctx context.Context, by *model.User) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		account, before, err := lockOwned(ctx, tx, by)
		if err != nil {
			return err
		}

		if _, err := tx.ExecContext(ctx, "DELETE FROM account_providers WHERE account_id = ?", account.ID); err != nil {
			return err
		}
		if err := deleteIdentities(ctx, tx, account.ID); err != nil {
			return err
		}
		if err := endProviderSessions(ctx, tx, account.ID); err != nil {
			return err
		}
		if err := setRequireProvider(ctx, tx, account.ID, false); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: account.ID, Object: accountObject(account), Before: providerValues(before, account.RequireProvider),
		})
	})
	return db.Wrap(err, "delete the provider of account %d", by.AccountID)
}

// lockOwned locks the account of a user, the user and the account's provider, and returns the
// account and the provider, or nil. It fails as Set does.
func lockOwned(ctx context.Context, tx *db.Tx, by *model.User) (*model.Account, *model.AccountProvider, error) {
	if err := tx.LockAccount(ctx, by.AccountID); err != nil {
		return nil, nil, err
	}
	owner, err := lockOwner(ctx, tx, by)
	if err != nil {
		return nil, nil, err
	}

	provider, err := lockProvider(ctx, tx, by.AccountID)
	return owner.Account, provider, err
}

// lockProvider returns the provider of a locked account, or nil. Its row is locked, as a rotation
// of the application key requires.
func lockProvider(ctx context.Context, tx *db.Tx, accountID model.AccountID) (*model.AccountProvider, error) {
	var rows []*model.AccountProvider
	q := tx.NewSelect().Model(&rows).Where("account_id = ?", accountID)
	tx.Lock(q, "UPDATE")
	if err := q.Scan(ctx); err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// endProviderSessions ends the sessions that the provider of an account has started.
func endProviderSessions(ctx context.Context, tx *db.Tx, accountID model.AccountID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE provider_account = ?", accountID)
	return err
}

// deleteIdentities deletes the people whom the provider of an account knows.
func deleteIdentities(ctx context.Context, tx *db.Tx, accountID model.AccountID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM identities WHERE account_id = ?", accountID)
	return err
}

func setRequireProvider(ctx context.Context, tx *db.Tx, accountID model.AccountID, required bool) error {
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET require_provider = ? WHERE id = ?", required, accountID)
	return err
}

// providerValues are the values of a provider in the audit log; nil without one.
func providerValues(p *model.AccountProvider, required bool) audit.Values {
	if p == nil {
		return nil
	}
	values := audit.Values{
		"issuer": p.Issuer, "clientId": p.ClientID, "domain": p.Domain, "defaultRole": p.DefaultRole, "required": required,
		"trustsEmails": p.TrustsEmails,
	}
	if p.RoleClaim != "" {
		values["roleClaim"], values["roles"] = p.RoleClaim, p.Roles
	}
	return values
}
