// Package accounts stores accounts and their users: sign-up, members, invitations, passwords,
// sign-in attempts, sessions and API tokens. The control plane and the operator's command line call
// it. It never sees a password or a secret, only their hashes.
package accounts

import "github.com/tallygate/tallygate/db"

// Store reads and changes accounts and users. Its fields do it with what belongs to them. It is
// safe for concurrent use.
type Store struct {
	Members       *Members
	Invitations   *Invitations
	Providers     *Providers
	Sessions      *Sessions
	SignIns       *SignIns
	SecondFactors *SecondFactors
	Passkeys      *Passkeys
	Tokens        *Tokens

	db *db.DB
}

// New returns the store of a database's accounts.
func New(d *db.DB) *Store {
	return &Store{
		Members: &Members{d}, Invitations: &Invitations{d}, Providers: &Providers{d}, Sessions: &Sessions{d},
		SignIns: &SignIns{db: d}, SecondFactors: &SecondFactors{d}, Passkeys: &Passkeys{d}, Tokens: &Tokens{d},
		db: d,
	}
}
