package accounts

import (
	"context"
	"encoding/json"
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

// tokenTouch is the precision of an API token's last use, so that most requests write nothing.
const tokenTouch = time.Minute

// Tokens stores the API tokens of users.
type Tokens struct{ db *db.DB }

// Create stores a token and returns it with its id. A user has at most model.MaxAPITokens, not
// counting expired tokens, which are deleted when there is no room. A site that the token is
// restricted to must belong to its account, else the error is a *model.Error of kind NotFound in
// the field siteIds.
func (s *Tokens) Create(ctx context.Context, token model.APIToken) (*model.APIToken, error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Lock the account before the user, as deleting the account does.
		if err := tx.LockAccount(ctx, token.AccountID); err != nil {
			return err
		}
		if err := tx.LockUser(ctx, token.UserID); err != nil {
			return err
		}

		// The user may have left the account since the request was authenticated.
		user, err := member(ctx, tx, token.AccountID, token.UserID)
		if err != nil {
			return err
		}

		// A site that a guest does not reach is unknown to the guest.
		if slices.ContainsFunc(token.SiteIDs, func(id model.SiteID) bool { return !user.Reaches(id) }) {
			return errUnknownSite
		}
		if err := checkSites(ctx, tx, token.AccountID, token.SiteIDs); err != nil {
			return err
		}

		if err := makeRoomForToken(ctx, tx, token.UserID, token.CreatedAt); err != nil {
			return err
		}

		if _, err := tx.NewInsert().Model(&token).Exec(ctx); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: token.AccountID, Object: tokenObject(&token),
			After: tokenValues(&token),
		})
	})
	if err != nil {
		return nil, db.Wrap(err, "create API token of user %d", token.UserID)
	}

	return &token, nil
}

// makeRoomForToken returns an error if a user has model.MaxAPITokens that have not expired. It
// deletes the others if they leave no room.
func makeRoomForToken(ctx context.Context, tx *db.Tx, userID model.UserID, now model.Instant) error {
	count := func() (int64, error) {
		return tx.NewSelect().Model((*model.APIToken)(nil)).Where("user_id = ?", userID).Count(ctx)
	}

	n, err := count()
	if err != nil || n < model.MaxAPITokens {
		return err
	}

	_, err = tx.NewDelete().Model((*model.APIToken)(nil)).Where("user_id = ?", userID).
		Where("expires_at <= ?", now).Exec(ctx)
	if err != nil {
		return err
	}

	if n, err = count(); err != nil || n < model.MaxAPITokens {
		return err
	}

	return &model.Error{
		Kind: model.Conflict, Code: "too_many_tokens",
		Message: fmt.Sprintf("A user has at most %d API tokens. Revoke one first.", model.MaxAPITokens),
	}
}

// errUnknownSite is the answer to a site that does not belong to the account, or that a guest does
// not reach.
var errUnknownSite = &model.Error{
	Kind: model.NotFound, Code: model.ErrNotFound.Code, Field: "siteIds", Message: model.ErrNotFound.Message,
}

// checkSites returns an error in the field siteIds unless all sites that a token or a guest is
// restricted to belong to the account. siteIDs is nil without a restriction.
func checkSites(ctx context.Context, tx *db.Tx, accountID model.AccountID, siteIDs []model.SiteID) error {
	if len(siteIDs) == 0 {
		return nil
	}

	n, err := tx.NewSelect().Model((*model.Site)(nil)).Where("account_id = ?", accountID).
		Where("id IN ?", bun.Tuple(siteIDs)).Where("deleted_at = 0").Count(ctx)
	if err == nil && n < int64(len(siteIDs)) {
		err = errUnknownSite
	}
	return err
}

// Of returns the tokens of a user in the order of their creation.
func (s *Tokens) Of(ctx context.Context, userID model.UserID) ([]*model.APIToken, error) {
	var tokens []*model.APIToken
	if err := s.db.Read.NewSelect().Model(&tokens).Where("user_id = ?", userID).Order("id").Scan(ctx); err != nil {
		return nil, fmt.Errorf("list API tokens of user %d: %w", userID, err)
	}
	return tokens, nil
}

// Get returns a token of the user, or model.ErrNotFound, also for a token of another user.
func (s *Tokens) Get(ctx context.Context, userID model.UserID, id model.APITokenID) (*model.APIToken, error) {
	return readOne[model.APIToken](ctx, s.db.Read, "user_id = ? AND id = ?", userID, id)
}

// OfAccount returns the tokens of an account with their users, oldest first, at most
// model.MaxAccountTokens. The caller must have checked that the user is an owner of the account.
func (s *Tokens) OfAccount(ctx context.Context, accountID model.AccountID) ([]*model.APIToken, error) {
	var tokens []*model.APIToken
	err := s.db.Read.NewSelect().Model(&tokens).Where("account_id = ?", accountID).Order("id").
		Limit(model.MaxAccountTokens).Scan(ctx)
	if err != nil || len(tokens) == 0 {
		return nil, db.Wrap(err, "list API tokens of account %d", accountID)
	}

	members, err := (&Members{s.db}).Of(ctx, accountID)
	if err != nil {
		return nil, err
	}

	users := make(map[model.UserID]*model.User, len(members))
	for _, member := range members {
		users[member.ID] = member
	}

	// The user may have left the account since the tokens were read.
	return slices.DeleteFunc(tokens, func(token *model.APIToken) bool {
		token.User = users[token.UserID]
		return token.User == nil
	}), nil
}

// Delete revokes a token of the user, or of another member of an account that the user is an owner
// of, and returns it. It fails with model.ErrNotFound for any other token.
func (s *Tokens) Delete(ctx context.Context, userID model.UserID, id model.APITokenID) (*model.APIToken, error) {
	return s.DeleteIn(ctx, 0, userID, id)
}

// DeleteIn is Delete for the tokens of one account; 0: of any account.
func (s *Tokens) DeleteIn(ctx context.Context, accountID model.AccountID, userID model.UserID, id model.APITokenID) (*model.APIToken, error) {
	var token model.APIToken
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		q := tx.NewSelect().Model(&token).Where("id = ?", id).
			Where("(user_id = ? OR account_id IN (SELECT m.account_id FROM memberships m WHERE m.user_id = ? AND m.role = ?))",
				userID, userID, model.RoleOwner)
		if accountID != 0 {
			q.Where("account_id = ?", accountID)
		}
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		if _, err := tx.NewDelete().Model(&token).WherePK().Exec(ctx); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: token.AccountID, Object: tokenObject(&token), Before: tokenValues(&token),
		})
	})
	if err != nil {
		return nil, db.Wrap(err, "delete API token %d", id)
	}

	return &token, nil
}

// tokenValues are the values of a token in the audit log.
func tokenValues(token *model.APIToken) audit.Values {
	values := audit.Values{"name": token.Name, "scopes": token.Scopes, "hint": token.TokenHint}
	if token.ExpiresAt != 0 {
		values["expiresAt"] = token.ExpiresAt.Time().Format(time.RFC3339)
	}
	if token.SiteIDs != nil {
		values["sites"] = token.SiteIDs
	}
	return values
}

// ErrTokenExpired is returned for an API token after its expiry.
var ErrTokenExpired = &model.Error{
	Kind: model.Unauthenticated, Code: "unauthenticated", Message: "The API token has expired. Create a new one.",
}

// MailExpiring mails the users of tokens that expire soon, at each of model.TokenMailTimes, and
// returns the number of mails. A mail and its note in the token's row are one transaction, so no
// process repeats it.
func (s *Tokens) MailExpiring(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for i, before := range model.TokenMailTimes {
		var ids []int64
		err := s.db.Read.NewSelect().Model((*model.APIToken)(nil)).Column("id").Where("expires_at > ?", now).
			Where("expires_at <= ?", now.Add(before)).Where("expiry_mails <= ?", i).Order("id").Scan(ctx, &ids)
		if err != nil {
			return all, fmt.Errorf("look for API tokens that expire: %w", err)
		}

		for _, id := range ids {
			mailed, err := s.mailExpiringToken(ctx, id, int32(i), now)
			if err != nil {
				return all, fmt.Errorf("mail the expiry of API token %d: %w", id, err)
			}
			if mailed {
				all++
			}
		}
	}

	return all, nil
}

// mailExpiringToken queues the mail that follows the given number of earlier mails, unless another
// process has.
func (s *Tokens) mailExpiringToken(ctx context.Context, id int64, earlier int32, now model.Instant) (mailed bool, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		mailed = false

		var token model.APIToken
		err := tx.NewSelect().Model(&token).Where("id = ?", id).Scan(ctx)
		if errors.Is(db.OrNotFound(err), model.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}

		data, err := json.Marshal(outbox.TokenExpiresMail{Name: token.Name, Hint: token.TokenHint, At: token.ExpiresAt})
		if err != nil {
			return err
		}

		// MailMember locks the account, as the changes of its tokens do.
		if err := outbox.MailMember(ctx, tx, token.AccountID, token.UserID, model.MailTokenExpires, string(data), now); err != nil {
			return err
		}

		err = db.NeedRow(tx.NewUpdate().Model((*model.APIToken)(nil)).Set("expiry_mails = ?", earlier+1).
			Where("id = ?", id).Where("expiry_mails <= ?", earlier).Exec(ctx))
		mailed = err == nil

		return err
	})
	if model.KindOf(err) == model.NotFound {
		// The token was revoked, or another process has queued the mail.
		return false, nil
	}

	return mailed, err
}

// User returns the token with this hash and its user as a member of the token's account, with no
// other membership, and records the use of the token. It returns model.ErrNotFound for an unknown
// hash, and ErrTokenExpired after the expiry.
func (s *Tokens) User(
	ctx context.Context, hash []byte, now model.Instant,
) (*model.APIToken, *model.User, error) {
	token, err := readOne[model.APIToken](ctx, s.db.Read, "token_hash = ?", hash)
	if err != nil {
		return nil, nil, err
	}
	if token.Expired(now) {
		return nil, nil, ErrTokenExpired
	}

	user, err := member(ctx, s.db.Read, token.AccountID, token.UserID)
	if err != nil {
		return nil, nil, err
	}

	user = user.Restrict(token.SiteIDs)

	if seen := now.Add(-tokenTouch); token.LastUsedAt <= seen {
		// The condition lets only one of several concurrent requests write.
		_, err := s.db.Write.NewUpdate().Model((*model.APIToken)(nil)).Set("last_used_at = ?", now).
			Where("id = ?", token.ID).Where("last_used_at IS NULL OR last_used_at <= ?", seen).Exec(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("note use of API token %d: %w", token.ID, err)
		}
	}

	return token, user, nil
}
