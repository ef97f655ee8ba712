package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// sessionTouch is the least time between two writes of a session's last use, so that most requests
// write nothing.
const sessionTouch = time.Minute

// SessionStart is a session to create.
type SessionStart struct {
	model.Session
	PasswordHash string // of the user's checked password
	Replaced     []byte // the session that it replaces; may be nil
	Proved       bool   // the user has proved a second factor; no session starts without it if the user has one
	SignIn       bool   // its start is an entry of the audit log, and not a part of another change

	// Provider is the account's provider that signs the user in, as the sign-in began; nil: no
	// provider of an account.
	Provider *ProviderState
}

// ProviderState names a provider of an account at a time.
type ProviderState struct {
	Issuer  string
	Changed model.Instant // see model.AccountProvider
}

// Sessions stores the sessions of users.
type Sessions struct{ db *db.DB }

// Create stores a session that starts at its CreatedAt, and deletes the session it replaces in the
// same transaction. The caller must have checked the user's password, and the second factor if the
// user has one. It fails with model.ErrStale when the password has changed since, the user has got
// a second factor that was not proved, or the user was deleted, and with ErrProviderChanged when
// the account's provider has changed: its end has ended the sessions that existed, and this one
// must not follow.
func (s *Sessions) Create(ctx context.Context, start SessionStart) error {
	session := start.Session
	session.LastSeenAt = session.CreatedAt
	session.ExpiresAt = sessionExpiry(session.CreatedAt, session.LastSeenAt)
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		alerted, err := lockAlerted(ctx, tx, &start)
		if err != nil {
			return err
		}
		if err := checkProvider(ctx, tx, &start); err != nil {
			return err
		}

		user, err := lockUnchanged(ctx, tx, session.UserID, start.PasswordHash)
		switch {
		case err != nil:
			return err
		case user.SecondFactor && !start.Proved:
			return model.ErrStale
		}

		if len(start.Replaced) > 0 {
			if err := deleteSession(ctx, tx, start.Replaced); err != nil {
				return err
			}
		}

		if _, err := tx.NewInsert().Model(&session).Exec(ctx); err != nil || !start.SignIn {
			return err
		}

		for _, accountID := range alerted {
			alert := model.Alert{AccountID: accountID, Event: model.AlertNewSignIn, Subject: user.Email}
			if err := outbox.New(s.db).AlertOnce(ctx, tx, alert, session.CreatedAt); err != nil {
				return err
			}
		}

		return auditUser(ctx, tx, user, nil)
	})
	return db.Wrap(err, "create session of user %d", session.UserID)
}

// checkProvider fails with ErrProviderChanged unless the provider of a session is as it was when
// the sign-in began. The lock that lockAlerted has taken keeps it so.
func checkProvider(ctx context.Context, tx *db.Tx, start *SessionStart) error {
	accountID := start.throughAccount()
	if accountID == 0 {
		return nil
	}
	if start.Provider == nil {
		return ErrProviderChanged
	}

	same, err := tx.NewSelect().Model((*model.AccountProvider)(nil)).Where("account_id = ?", accountID).
		Where("issuer = ?", start.Provider.Issuer).Where("changed_at = ?", start.Provider.Changed).
		Where("verified_at > 0").Exists(ctx)
	if err == nil && !same {
		return ErrProviderChanged
	}
	return err
}

// throughAccount returns the account with the provider that starts the session, or 0.
func (start *SessionStart) throughAccount() model.AccountID {
	if start.ProviderAccount == nil {
		return 0
	}
	return *start.ProviderAccount
}

// lockAlerted locks and returns the accounts that the session reaches and that can have a channel
// for a new sign-in. There are none for a browser that replaces a session of the same user, and so
// is not new. Nothing else is known of a browser, and no address is stored. lockAlerted also locks
// the account with the provider that starts the session.
func lockAlerted(ctx context.Context, tx *db.Tx, start *SessionStart) ([]model.AccountID, error) {
	alerted, err := alertedAccounts(ctx, tx, start)
	if err != nil {
		return nil, err
	}
	through := start.throughAccount()
	locked := slices.Clone(alerted)
	if through != 0 && !slices.Contains(locked, through) {
		locked = append(locked, through)
	}

	// The order of locks requires the accounts in the order of their ids, before the user.
	slices.Sort(locked)
	for _, id := range locked {
		strength := "KEY SHARE"
		if id == through {
			// It excludes a change of the provider.
			strength = "SHARE"
		}
		err := tx.LockRowFor(ctx, strength, "accounts", int64(id))
		switch {
		case errors.Is(err, model.ErrNotFound) && id == through:
			return nil, ErrProviderChanged
		case errors.Is(err, model.ErrNotFound):
			alerted = slices.DeleteFunc(alerted, func(other model.AccountID) bool { return other == id })
		case err != nil:
			return nil, err
		}
	}
	return alerted, nil
}

// alertedAccounts returns the accounts that lockAlerted returns.
func alertedAccounts(ctx context.Context, tx *db.Tx, start *SessionStart) ([]model.AccountID, error) {
	if !start.SignIn {
		return nil, nil
	}

	if len(start.Replaced) > 0 {
		known, err := tx.NewSelect().Model((*model.Session)(nil)).Where("id_hash = ?", start.Replaced).
			Where("user_id = ?", start.UserID).Exists(ctx)
		if err != nil || known {
			return nil, err
		}
	}

	q := tx.NewSelect().Table("alert_channels").Distinct().Column("account_id").Where("site_id IS NULL").
		Where("account_id IN (SELECT account_id FROM "+db.AllMemberships+" AS m WHERE user_id = ?)", start.UserID)
	if through := start.throughAccount(); through != 0 {
		q.Where("account_id = ?", through)
	} else {
		// As model.User.Through has it: owners and guests need no provider.
		q.Where("account_id NOT IN (SELECT m.account_id FROM memberships AS m JOIN accounts AS a ON a.id = m.account_id "+
			"WHERE m.user_id = ? AND a.require_provider AND m.role <> ?)", start.UserID, model.RoleOwner)
	}

	var accountIDs []model.AccountID
	err := q.Order("account_id").Scan(ctx, &accountIDs)
	return accountIDs, err
}

// User returns the user of a valid session as a member of the default account, with all memberships
// that the session reaches, see model.User.Through, and records the use of the session. It returns
// model.ErrNotFound for an ended, expired or unknown session, and if it reaches no account.
func (s *Sessions) User(ctx context.Context, idHash []byte, now model.Instant) (*model.User, error) {
	session, err := readOne[model.Session](ctx, s.db.Read, "id_hash = ? AND expires_at > ?", idHash, now)
	if err != nil {
		return nil, err
	}

	user, err := userByID(ctx, s.db.Read, session.UserID)
	if err != nil {
		return nil, err
	}
	if user = user.Through(session.ProviderAccount); user == nil {
		return nil, model.ErrNotFound
	}

	if seen := now.Add(-sessionTouch); session.LastSeenAt <= seen {
		// The condition lets only one of several concurrent requests write.
		_, err := s.db.Write.NewUpdate().Model((*model.Session)(nil)).
			Set("last_seen_at = ?", now).Set("expires_at = ?", sessionExpiry(session.CreatedAt, now)).
			Where("id_hash = ?", idHash).Where("last_seen_at <= ?", seen).Exec(ctx)
		if err != nil {
			return nil, fmt.Errorf("note use of a session of user %d: %w", session.UserID, err)
		}
	}

	return user, nil
}

// sessionExpiry returns when a session ends unless it is used again: the earlier of both limits.
func sessionExpiry(created, seen model.Instant) model.Instant {
	return min(seen.Add(model.SessionIdle), created.Add(model.SessionLifetime))
}

// Delete ends a session. It succeeds for a session that does not exist.
func (s *Sessions) Delete(ctx context.Context, idHash []byte) error {
	return deleteSession(ctx, s.db.Write, idHash)
}

func deleteSession(ctx context.Context, idb bun.IDB, idHash []byte) error {
	if _, err := idb.NewDelete().Model((*model.Session)(nil)).Where("id_hash = ?", idHash).Exec(ctx); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

// EndAll ends every session of a user and returns how many there were.
func (s *Sessions) EndAll(ctx context.Context, userID model.UserID) (int64, error) {
	return s.end(ctx, userID, "all", "user_id = ?", userID)
}

// EndByProvider ends the sessions of a user that the provider of an account has started.
func (s *Sessions) EndByProvider(ctx context.Context, userID model.UserID, accountID model.AccountID) error {
	_, err := s.end(ctx, userID, "provider", "provider_account = ?", accountID)
	return err
}

// end ends the sessions of a user that match a condition, and returns their number. which names
// them in the audit log: all, provider or one. It fails with model.ErrNotFound without the one.
func (s *Sessions) end(
	ctx context.Context, userID model.UserID, which, condition string, args ...any,
) (n int64, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}

		res, err := tx.NewDelete().Model((*model.Session)(nil)).Where("user_id = ?", userID).
			Where(condition, args...).Exec(ctx)
		if err == nil {
			n, err = res.RowsAffected()
		}
		switch {
		case err != nil:
			return err
		case n == 0 && which == "one":
			return model.ErrNotFound
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: user.AccountID, Object: userObject(user), Before: audit.Values{"sessions": which},
		})
	})
	if err != nil {
		return 0, db.Wrap(err, "delete sessions (%s) of user %d", which, userID)
	}

	return n, nil
}

// DeleteExpired deletes expired sessions, and returns their number. Housekeeping calls it.
func (s *Sessions) DeleteExpired(ctx context.Context, now model.Instant) (int64, error) {
	res, err := s.db.Write.NewDelete().Model((*model.Session)(nil)).Where("expires_at <= ?", now).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("delete expired sessions: %w", err)
	}
	return res.RowsAffected()
}

// Of returns the user's valid sessions, most recently used first, at most model.MaxSessions.
func (s *Sessions) Of(ctx context.Context, userID model.UserID, now model.Instant) ([]*model.Session, error) {
	var list []*model.Session
	err := s.db.Read.NewSelect().Model(&list).Where("user_id = ?", userID).Where("expires_at > ?", now).
		OrderExpr("last_seen_at DESC, id_hash").Limit(model.MaxSessions).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sessions of user %d: %w", userID, err)
	}
	return list, nil
}

// Get returns a valid session of the user, or model.ErrNotFound, also for a session of another
// user.
func (s *Sessions) Get(ctx context.Context, userID model.UserID, idHash []byte, now model.Instant) (*model.Session, error) {
	return readOne[model.Session](ctx, s.db.Read, "user_id = ? AND id_hash = ? AND expires_at > ?", userID, idHash, now)
}

// End ends a session of the user. It fails with model.ErrNotFound for a session of another user.
func (s *Sessions) End(ctx context.Context, userID model.UserID, idHash []byte) error {
	_, err := s.end(ctx, userID, "one", "id_hash = ?", idHash)
	return err
}
