package accounts

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// The objects of this package's changes in the audit log.

func accountObject(account *model.Account) audit.Object {
	return audit.Object{Kind: nodeid.Account, ID: int64(account.ID), Name: account.Name}
}

func userObject(user *model.User) audit.Object {
	return audit.Object{Kind: nodeid.User, ID: int64(user.ID), Name: user.Email}
}

func invitationObject(invitation *model.Invitation) audit.Object {
	return audit.Object{Kind: nodeid.Invitation, ID: int64(invitation.ID), Name: invitation.Email}
}

func tokenObject(token *model.APIToken) audit.Object {
	return audit.Object{Kind: nodeid.APIToken, ID: int64(token.ID), Name: token.Name}
}

// auditUser records a change that users make of themselves, such as a new password.
func auditUser(ctx context.Context, tx *db.Tx, user *model.User, values audit.Values) error {
	return audit.Write(ctx, tx, audit.Change{
		AccountID: user.AccountID, Object: userObject(user), By: user, After: values,
	})
}
