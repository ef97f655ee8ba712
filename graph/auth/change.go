package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// ChangePassword changes the password of the user who is signed in and knows it. All other sessions
// end, and this one goes on under a new id; other browsers are no longer known. The user's API
// tokens stay valid and are returned. A wrong password is wrong_credentials and counts like one at
// sign-in.
func (a *Auth) ChangePassword(ctx context.Context, current, password string) (*model.User, []*model.APIToken, error) {
	v, user, err := a.confirm(ctx, "currentPassword", current, model.CheckPassword(password))
	if err != nil {
		return nil, nil, err
	}

	hash, err := a.passwords.hash(ctx, password)
	if err != nil {
		return nil, nil, err
	}

	tokens, err := a.accounts.ChangePassword(ctx, user.ID, user.PasswordHash, a.passwordChange(hash, model.At(a.now())))

	// another change came first
	if model.KindOf(err) == model.NotFound {
		return nil, nil, wrongPassword("currentPassword")
	}
	if err != nil {
		return nil, nil, err
	}

	user.PasswordHash = hash
	user.PasswordGeneration++
	_, err = a.welcome(v, user)

	return user, tokens, err
}

// passwordChange is a new password for the database.
func (a *Auth) passwordChange(hash string, now model.Instant) accounts.PasswordChange {
	return accounts.PasswordChange{Hash: hash, At: now, Page: a.baseURL + "/"}
}

// DeleteAccount deletes the account of the owner who is signed in and knows the password, with all
// that belongs to it.
func (a *Auth) DeleteAccount(ctx context.Context, password string) error {
	v, user, err := a.confirm(ctx, "password", password, nil)
	if err != nil {
		return err
	}

	err = a.accounts.DeleteAccount(ctx, user, model.At(a.now()))

	// the password was changed meanwhile
	if model.KindOf(err) == model.NotFound {
		return wrongPassword("password")
	}
	if err != nil {
		return err
	}

	return v.end()
}

// confirm checks the password of the user who is signed in. Other mistakes in the input are
// reported before it is looked at.
func (a *Auth) confirm(ctx context.Context, field, password string, mistakes error) (*visitor, *model.User, error) {
	v, err := byPassword(ctx)
	if err != nil {
		return nil, nil, err
	}

	caller, err := v.identify()
	if err == nil && caller.User == nil {
		err = ErrUnauthenticated
	}
	if err = errors.Join(err, mistakes); err != nil {
		return nil, nil, err
	}
	if model.CheckPassword(password) != nil {
		return nil, nil, wrongPassword(field)
	}

	user, err := a.try(ctx, v, caller.User.Email, password)
	if errors.Is(err, errWrongCredentials) {
		err = wrongPassword(field)
	}

	return v, user, err
}

func wrongPassword(field string) error {
	return model.InvalidField(field, errWrongCredentials.Code, "The password is wrong.")
}
