package auth

import (
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// ErrUnauthenticated is returned for a caller without a session and without an API token.
var ErrUnauthenticated = &model.Error{
	Kind: model.Unauthenticated, Code: "unauthenticated", Message: "Sign in first.",
}

var errToken = &model.Error{
	Kind: model.Unauthenticated, Code: "unauthenticated", Message: "The API token is wrong or was revoked.",
}

// errWrongCredentials is the response to an unknown e-mail address and to a wrong password alike.
var errWrongCredentials = &model.Error{
	Kind: model.Invalid, Code: "wrong_credentials", Message: "The e-mail address or the password is wrong.",
}

func wrongPassword(field string) error {
	return model.InvalidField(field, errWrongCredentials.Code, "The password is wrong.")
}

// errInvalidSecret is accounts.ErrInvalidToken with the name of ConfirmSignUp's field.
var errInvalidSecret = model.InvalidField("secret", accounts.ErrInvalidToken.Code, accounts.ErrInvalidToken.Message)

var errNoMail = &model.Error{
	Kind: model.Conflict, Code: "no_mail_server",
	Message: "This installation sends no mail. Its administrator can create a link with: tallygate admin invite.",
}

func tooManyAttempts(wait time.Duration) error {
	seconds := int64((wait + time.Second - 1) / time.Second)
	return &model.Error{
		Kind: model.RateLimited, Code: "rate_limited", RetryAfter: wait,
		Message: fmt.Sprintf("Too many attempts. Try again in %d s.", seconds),
	}
}
