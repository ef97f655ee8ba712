package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Arrival is a person whom a provider has signed in, with a verified address.
type Arrival struct {
	Identity model.Identity // without a user; CreatedAt is the time of the arrival
	Email    string         // normalised
	Role     model.Role     // that the provider's claim sets; empty: none
	SignIn   Challenge      // the sign-in, which counts once
	Proved   *model.User    // the user who has proved to have the address, with the checked password; nil: none
	Language model.Language // of a new user
	Signups  model.SignupPolicy
	Plan     model.CaptchaPlan // of a new account
	Changed  model.Instant     // when the account's provider was changed, as the sign-in began

	PasswordHash string // of a new user: of an unknown random password
}

// The errors of Arrive.
var (
	// ErrProofNeeded is returned if a user has the address, and must prove it once.
	ErrProofNeeded = errors.New("a user with this address must prove it first")

	// ErrProviderChanged is returned if the provider was changed, or deleted, since the sign-in
	// began.
	ErrProviderChanged = &model.Error{
		Kind: model.Conflict, Code: "provider_expired", Message: "The provider was changed. Start the sign-in again.",
	}

	// ErrNoAccount is returned for a person whom no account has invited.
	ErrNoAccount = &model.Error{
		Kind: model.Conflict, Code: "no_account",
		Message: "No account of this installation knows you. Ask one of its owners for an invitation.",
	}

	// ErrSuspendedJoin is returned for a new person of a suspended account.
	ErrSuspendedJoin = &model.Error{
		Kind: model.Conflict, Code: "no_account", Message: "This account is suspended, so new people cannot join it.",
	}
)

// IdentityUser returns the user of a person whom a provider knows, with all memberships, or
// model.ErrNotFound.
func (s *Providers) IdentityUser(ctx context.Context, identity model.Identity) (*model.User, error) {
	id, err := identified(ctx, s.db.Read, identity)
	if err != nil {
		return nil, err
	}
	return userByID(ctx, s.db.Read, id)
}

// identified returns the id of the user of a person, or model.ErrNotFound.
func identified(ctx context.Context, idb bun.IDB, identity model.Identity) (model.UserID, error) {
	var ids []model.UserID
	err := idb.NewSelect().Model((*model.Identity)(nil)).Column("user_id").Where("account_id = ?", identity.AccountID).
		Where("issuer = ?", identity.Issuer).Where("subject = ?", identity.Subject).Scan(ctx, &ids)
	if err != nil {
		return 0, fmt.Errorf("look for a person of a provider: %w", err)
	}
	if len(ids) == 0 {
		return 0, model.ErrNotFound
	}
	return ids[0], nil
}

// UseChallenge records that a challenge was answered, or fails with ErrChallengeUsed.
func (s *Providers) UseChallenge(ctx context.Context, answered Challenge) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error { return consume(ctx, tx, answered) })
	if errors.Is(err, ErrChallengeUsed) {
		return err
	}
	return db.Wrap(err, "use a challenge")
}

// Arrive consumes a sign-in through a provider, and returns the user with all memberships. It
// creates the user of a new person, remembers a user who has proved the address, adds the
// membership that the provider gives, and sets its role. An account's provider changes nothing in
// other accounts, and the installation's provider adds memberships of invitations only. It fails
// with ErrProofNeeded, ErrChallengeUsed, ErrProviderChanged, ErrNoAccount, ErrSuspendedJoin, the
// Conflicts too_many_members and too_many_accounts, and with model.ErrStale when the proved
// password has changed since.
func (s *Providers) Arrive(ctx context.Context, a Arrival) (*model.User, error) {
	var user *model.User
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		account, provider, err := lockArrival(ctx, tx, a)
		if err != nil {
			return err
		}
		if err := consume(ctx, tx, a.SignIn); err != nil {
			return err
		}

		if user, err = arriving(ctx, tx, a, account); err != nil {
			return err
		}
		if account == nil {
			return nil
		}

		switch in := user.In(account.ID); {
		case in == nil:
			return joinThrough(ctx, tx, a, account, provider, user)
		case a.Role != "" && !in.IsGuest() && in.Role != a.Role:
			return followRole(ctx, tx, a, in)
		}
		return nil
	})
	switch {
	case db.IsUnique(err):
		// The address, or the identity, has got a user since.
		return nil, ErrProviderChanged
	case errors.Is(err, ErrProofNeeded), errors.Is(err, ErrChallengeUsed):
		return nil, err
	case err != nil:
		return nil, db.Wrap(err, "sign in through a provider")
	}

	// Memberships and roles may have changed.
	return userByID(ctx, s.db.Read, user.ID)
}

// lockArrival locks the account of an account's provider, and returns both. It locks the
// installation for the installation's provider, which may create an account.
func lockArrival(ctx context.Context, tx *db.Tx, a Arrival) (*model.Account, *model.AccountProvider, error) {
	if a.Identity.AccountID == 0 {
		return nil, nil, tx.LockInstallation(ctx)
	}

	account, err := lockAccount(ctx, tx, a.Identity.AccountID)
	if err != nil {
		return nil, nil, cmp.Or(notFoundAs(err, ErrProviderChanged), err)
	}

	provider, err := lockProvider(ctx, tx, account.ID)
	if err != nil {
		return nil, nil, err
	}
	if provider == nil || provider.Issuer != a.Identity.Issuer || provider.ChangedAt != a.Changed ||
		provider.VerifiedAt == 0 || !provider.HasAddress(a.Email) {
		return nil, nil, ErrProviderChanged
	}
	return account, provider, nil
}

// notFoundAs returns instead if err means that there is no row, or nil.
func notFoundAs(err, instead error) error {
	if model.KindOf(db.OrNotFound(err)) == model.NotFound {
		return instead
	}
	return nil
}

// arriving returns the locked user of an arrival with all memberships: a new one has none yet, if
// account is not nil.
func arriving(ctx context.Context, tx *db.Tx, a Arrival, account *model.Account) (*model.User, error) {
	id, err := identified(ctx, tx, a.Identity)
	switch {
	case err == nil:
		if err := tx.LockUser(ctx, id); err != nil {
			return nil, err
		}
		return userByID(ctx, tx, id)
	case !errors.Is(err, model.ErrNotFound):
		return nil, err
	case a.Proved != nil:
		return linkUser(ctx, tx, a)
	}

	taken, err := tx.NewSelect().Model((*model.User)(nil)).Where("email = ?", a.Email).Exists(ctx)
	switch {
	case err != nil:
		return nil, err
	case taken:
		return nil, ErrProofNeeded
	case account == nil:
		return newByInvitation(ctx, tx, a)
	}

	return newArrival(ctx, tx, a)
}

// linkUser remembers that a person whom a provider knows is a user, who has proved the address.
func linkUser(ctx context.Context, tx *db.Tx, a Arrival) (*model.User, error) {
	locked, err := lockUnchanged(ctx, tx, a.Proved.ID, a.Proved.PasswordHash)
	switch {
	case err != nil:
		return nil, err
	case locked.Email != a.Email:
		return nil, model.ErrStale
	}
	if err := insertIdentity(ctx, tx, a, locked.ID); err != nil {
		return nil, err
	}
	if err := auditUser(ctx, tx, locked, audit.Values{"issuer": a.Identity.Issuer}); err != nil {
		return nil, err
	}
	return userByID(ctx, tx, locked.ID)
}

// newArrival creates the user of a new person, without a membership.
func newArrival(ctx context.Context, tx *db.Tx, a Arrival) (*model.User, error) {
	user := &model.User{
		Email: a.Email, PasswordHash: a.PasswordHash, Language: cmp.Or(a.Language, model.English),
		CreatedAt: a.Identity.CreatedAt,
	}
	if _, err := tx.NewInsert().Model(user).Exec(ctx); err != nil {
		return nil, err
	}
	return user, insertIdentity(ctx, tx, a, user.ID)
}

func insertIdentity(ctx context.Context, tx *db.Tx, a Arrival, userID model.UserID) error {
	identity := a.Identity
	identity.UserID = userID
	_, err := tx.NewInsert().Model(&identity).Exec(ctx)
	return err
}

// joinThrough adds a user to the account of its provider: with the rights of an invitation that
// waits for the address, or else with the role of the claim, or the default role.
func joinThrough(
	ctx context.Context, tx *db.Tx, a Arrival, account *model.Account, provider *model.AccountProvider, user *model.User,
) error {
	if account.SuspendedAt != 0 {
		return ErrSuspendedJoin
	}
	if err := checkMemberships(user); err != nil {
		return err
	}

	invitation, err := takeInvitation(ctx, tx, a, account.ID)
	if err != nil {
		return err
	}
	if invitation == nil {
		// It deletes expired invitations and fails if the account is full.
		err := mayInvite(ctx, tx, model.Invitation{
			AccountID: account.ID, Email: a.Email, CreatedAt: a.Identity.CreatedAt,
		})
		if err != nil {
			return err
		}
	}

	role, siteIDs := cmp.Or(a.Role, provider.DefaultRole), []model.SiteID(nil)
	if invitation != nil {
		siteIDs = invitation.SiteIDs
		if a.Role == "" || siteIDs != nil {
			role = invitation.Role
		}
	}
	return join(ctx, tx, user, &model.Membership{
		AccountID: account.ID, Role: role, CreatedAt: a.Identity.CreatedAt, Account: account, SiteIDs: siteIDs,
	}, a.Identity.Issuer)
}

// takeInvitation deletes the valid invitation of an account to an arrival's address, and returns
// it, or nil.
func takeInvitation(ctx context.Context, tx *db.Tx, a Arrival, accountID model.AccountID) (*model.Invitation, error) {
	var invitations []*model.Invitation
	err := tx.NewDelete().Model(&invitations).Where("account_id = ?", accountID).Where("email = ?", a.Email).
		Where("expires_at > ?", a.Identity.CreatedAt).Returning("*").Scan(ctx)
	if err != nil || len(invitations) == 0 {
		return nil, notNoRows(err)
	}
	return invitations[0], nil
}

// notNoRows returns err, or nil if it means that there is no row.
func notNoRows(err error) error {
	if err == nil || model.KindOf(db.OrNotFound(err)) == model.NotFound {
		return nil
	}
	return err
}

// join adds a user to a locked account, with an entry in the audit log. issuer is the provider that
// has named the user, or "".
func join(ctx context.Context, tx *db.Tx, user *model.User, m *model.Membership, issuer string) error {
	if err := addMembership(ctx, tx, user, m); err != nil {
		return err
	}

	values := accessValues(audit.Values{"email": user.Email, "role": m.Role}, m.SiteIDs)
	if issuer != "" {
		values["issuer"] = issuer
	}
	err := audit.Write(ctx, tx, audit.Change{AccountID: m.AccountID, Object: userObject(user), By: user, After: values})
	if err != nil {
		return err
	}
	return outbox.DeleteUnsentLink(ctx, tx, model.MailInvitation, m.AccountID, user.Email)
}

// newByInvitation creates the user of a new person whom the installation's provider names: as a
// member of the account whose invitation has waited longest, or else as the owner of an own account
// if anyone may sign up. The first user of an installation signs up with a password, so that an
// unknown person does not become its operator.
func newByInvitation(ctx context.Context, tx *db.Tx, a Arrival) (*model.User, error) {
	var waiting []model.Invitation
	err := tx.NewSelect().Model(&waiting).Where("email = ?", a.Email).Where("expires_at > ?", a.Identity.CreatedAt).
		Order("id").Limit(1).Scan(ctx)
	if err != nil {
		return nil, err
	}
	if len(waiting) > 0 {
		return newInvited(ctx, tx, a, waiting[0].AccountID)
	}

	usersExist, err := hasUsers(ctx, tx)
	switch {
	case err != nil:
		return nil, err
	case !usersExist || !admits(a.Signups, true):
		return nil, ErrNoAccount
	}

	user := &model.User{
		Email: a.Email, PasswordHash: a.PasswordHash, Language: cmp.Or(a.Language, model.English), CreatedAt: a.Identity.CreatedAt,
	}
	account := &model.Account{
		Name: a.Email, CaptchaPlan: cmp.Or(a.Plan, model.CaptchaPlanFree), CreatedAt: a.Identity.CreatedAt,
	}
	if err := createAccount(ctx, tx, a.Signups, account, user); err != nil {
		return nil, err
	}
	if err := insertIdentity(ctx, tx, a, user.ID); err != nil {
		return nil, err
	}
	return user, audit.Write(ctx, tx, newAccount(user, account))
}

// newInvited creates the user of a new person as a member of the account that has invited the
// address.
func newInvited(ctx context.Context, tx *db.Tx, a Arrival, accountID model.AccountID) (*model.User, error) {
	account, err := lockAccount(ctx, tx, accountID)
	switch {
	case err != nil:
		return nil, cmp.Or(notFoundAs(err, ErrProviderChanged), err)
	case account.SuspendedAt != 0:
		return nil, ErrSuspendedJoin
	}

	invitation, err := takeInvitation(ctx, tx, a, accountID)
	switch {
	case err != nil:
		return nil, err
	case invitation == nil:
		return nil, ErrProviderChanged
	}

	user, err := newArrival(ctx, tx, a)
	if err != nil {
		return nil, err
	}
	return user, join(ctx, tx, user, &model.Membership{
		AccountID: account.ID, Role: invitation.Role, CreatedAt: a.Identity.CreatedAt, Account: account,
		SiteIDs: invitation.SiteIDs,
	}, a.Identity.Issuer)
}

// followRole sets the role of a member as the provider's claim names it. The last owner stays one.
func followRole(ctx context.Context, tx *db.Tx, a Arrival, member *model.User) error {
	if member.Role == model.RoleOwner {
		others, err := tx.NewSelect().Table("memberships").Where("account_id = ?", member.AccountID).
			Where("user_id <> ?", member.ID).Where("role = ?", model.RoleOwner).Exists(ctx)
		if err != nil || !others {
			return err
		}
	}

	err := db.NeedRow(tx.ExecContext(ctx, "UPDATE memberships SET role = ? WHERE user_id = ? AND account_id = ?",
		a.Role, member.ID, member.AccountID))
	if err != nil {
		return err
	}

	return audit.Write(ctx, tx, audit.Change{
		AccountID: member.AccountID, Object: userObject(member), By: member,
		Before: audit.Values{"role": member.Role}, After: audit.Values{"role": a.Role, "issuer": a.Identity.Issuer},
	})
}
