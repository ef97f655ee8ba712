package accounts

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// The domains of accounts' providers: verified by a DNS record, looked up again each day, and lost
// without it.

// ErrDomainClaimed is returned if another account has verified the domain.
var ErrDomainClaimed = &model.Error{
	Kind: model.Conflict, Code: "domain_taken", Field: "domain",
	Message: "Another account signs people of this domain in.",
}

// dnsTimeout bounds the lookup of a domain's record.
const dnsTimeout = 5 * time.Second

// LookupRecord returns the texts of the DNS record that verifies the domain of a provider, of all
// accounts that name the domain. There are none without a record. It fails if the DNS does not
// answer.
func LookupRecord(ctx context.Context, resolver *net.Resolver, provider *model.AccountProvider) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()

	texts, err := resolver.LookupTXT(ctx, provider.RecordName()+".")
	if failed, ok := errors.AsType[*net.DNSError](err); ok && failed.IsNotFound {
		return nil, nil
	}
	return texts, err
}

// Verify records that the domain of a provider belongs to its account, because its DNS record is
// among the texts that LookupRecord has found, or without texts because an operator confirms it.
// Without its own record among the texts, an account loses the domain, unless an operator has
// confirmed the domain. Verify fails with model.ErrNotFound if the provider or its domain has changed
// since, and with ErrDomainClaimed.
func (s *Providers) Verify(
	ctx context.Context, provider *model.AccountProvider, texts []string, now model.Instant,
) error {
	verified := *provider
	verified.VerifiedAt, verified.CheckedAt, verified.MissingSince = now, 0, 0
	if texts != nil {
		verified.CheckedAt = now
	}

	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		holder, err := lockHolder(ctx, tx, provider)
		if err != nil {
			return err
		}
		if texts != nil && holder != nil && holder.CheckedAt != 0 && !slices.Contains(texts, holder.RecordText()) {
			if err := loseDomain(ctx, tx, holder, now); err != nil {
				return err
			}
		}

		err = db.NeedRow(tx.NewUpdate().Model(&verified).Column("verified_at", "checked_at", "missing_since").
			WherePK().Where("domain = ?", provider.Domain).Where("domain_token = ?", provider.DomainToken).Exec(ctx))
		if err != nil {
			return err
		}
		return auditDomain(ctx, tx, audit.Change{
			AccountID: provider.AccountID, After: audit.Values{"verifiedDomain": provider.Domain},
		})
	})
	if db.IsUnique(err) {
		return ErrDomainClaimed
	}
	if err == nil {
		*provider = verified
	}
	return db.Wrap(err, "verify the provider of account %d", provider.AccountID)
}

// lockHolder locks the account of a provider, and that of the provider that has verified the same
// domain, which it returns; nil without one.
func lockHolder(ctx context.Context, tx *db.Tx, provider *model.AccountProvider) (*model.AccountProvider, error) {
	read := func() (rows []*model.AccountProvider, err error) {
		err = tx.NewSelect().Model(&rows).Where("domain = ?", provider.Domain).Where("verified_at > 0").
			Where("account_id <> ?", provider.AccountID).Scan(ctx)
		return rows, err
	}
	holders, err := read()
	if err != nil {
		return nil, err
	}

	// The order of locks requires the accounts in the order of their ids.
	locked := []model.AccountID{provider.AccountID}
	for _, holder := range holders {
		locked = append(locked, holder.AccountID)
	}
	slices.Sort(locked)
	for _, id := range locked {
		if err := tx.LockAccount(ctx, id); err != nil {
			return nil, err
		}
	}

	// A holder that came during the wait is not locked, and the index of the domains refuses the
	// change.
	holders, err = read()
	if err != nil || len(holders) == 0 || !slices.Contains(locked, holders[0].AccountID) {
		return nil, err
	}
	return holders[0], nil
}

// loseDomain ends the verification of a provider's domain, and the sessions that the provider has
// started. The account must be locked. It goes on requiring its provider, so that only owners and
// guests reach it until an owner decides.
func loseDomain(ctx context.Context, tx *db.Tx, holder *model.AccountProvider, now model.Instant) error {
	// The new time of the change ends sign-ins in progress.
	_, err := tx.ExecContext(ctx, "UPDATE account_providers SET verified_at = 0, checked_at = 0, missing_since = 0, "+
		"changed_at = ? WHERE account_id = ?", now, holder.AccountID)
	if err != nil {
		return err
	}
	if err := endProviderSessions(ctx, tx, holder.AccountID); err != nil {
		return err
	}

	// The owner who takes the domain over belongs to another account, and is not named in this
	// one's log.
	ctx = audit.WithActor(ctx, audit.Actor{Kind: audit.System, Action: "loseProviderDomain", At: now})
	return auditDomain(ctx, tx, audit.Change{
		AccountID: holder.AccountID, Before: audit.Values{"verifiedDomain": holder.Domain},
	})
}

// auditDomain records a change of a provider's domain. Its object is the account.
func auditDomain(ctx context.Context, tx *db.Tx, change audit.Change) error {
	account := model.Account{ID: model.AccountID(change.AccountID)}
	if err := tx.NewSelect().Model(&account).WherePK().Scan(ctx); err != nil {
		return err
	}
	change.Object = accountObject(&account)
	return audit.Write(ctx, tx, change)
}

// domainsAtOnce is how many domains one run of CheckDomains looks up. With a timeout each, it ends
// within 10 minutes.
const domainsAtOnce = 100

// CheckDomains looks up the records of the verified domains that are due. A domain whose record was
// missing for model.DomainGrace is no longer verified. CheckDomains returns the number of these. A
// lookup without an answer changes nothing. Housekeeping calls it.
func (s *Providers) CheckDomains(ctx context.Context, resolver *net.Resolver, now model.Instant) (lost int64, err error) {
	var due []*model.AccountProvider
	err = s.db.Read.NewSelect().Model(&due).Where("verified_at > 0").Where("checked_at > 0").
		Where("checked_at <= ?", now.Add(-model.DomainCheckInterval)).Order("checked_at").Limit(domainsAtOnce).Scan(ctx)
	if err != nil {
		return 0, db.Wrap(err, "read the domains of providers")
	}

	for _, provider := range due {
		texts, lookupErr := LookupRecord(ctx, resolver, provider)
		if ctx.Err() != nil {
			return lost, ctx.Err()
		}

		missing := provider.MissingSince
		switch {
		case lookupErr != nil:
		case slices.Contains(texts, provider.RecordText()):
			missing = 0
		case missing == 0:
			missing = now
		}

		ends := lookupErr == nil && missing != 0 && now.Sub(missing) >= model.DomainGrace
		err := s.noteRecord(ctx, provider, missing, ends, now)
		switch {
		case errors.Is(err, model.ErrNotFound):
			// The provider has changed during the lookup.
		case err != nil:
			return lost, db.Wrap(err, "check the domain of account %d", provider.AccountID)
		case ends:
			lost++
		}
	}
	return lost, nil
}

// noteRecord stores the outcome of a lookup. It fails with model.ErrNotFound if the provider has
// changed since.
func (s *Providers) noteRecord(
	ctx context.Context, provider *model.AccountProvider, missing model.Instant, ends bool, now model.Instant,
) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockAccount(ctx, provider.AccountID); err != nil {
			return err
		}
		err := db.NeedRow(tx.ExecContext(ctx, "UPDATE account_providers SET checked_at = ?, missing_since = ? "+
			"WHERE account_id = ? AND domain_token = ? AND verified_at > 0 AND checked_at = ?",
			now, missing, provider.AccountID, provider.DomainToken, provider.CheckedAt))
		if err != nil || !ends {
			return err
		}
		return loseDomain(ctx, tx, provider, now)
	})
}
