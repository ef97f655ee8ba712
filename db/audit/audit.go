// Package audit records who changed what in an account. A store writes a row for each change, in
// the transaction of the change: without its row, no change is committed. The control plane and the
// command line name the actor once, in the context that they pass to the stores. Owners read the
// log.
//
// A change to the value already stored has a row too. A refused change has no row.
package audit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/idempotency"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// Kind is the kind of an actor.
type Kind string

// The kinds.
const (
	User            Kind = "USER"            // a signed-in user
	APIToken        Kind = "API_TOKEN"       // a program with a user's API token
	Operator        Kind = "OPERATOR"        // an operator of the installation, with that right
	CommandLine     Kind = "COMMAND_LINE"    // a command on the machine itself
	Unauthenticated Kind = "UNAUTHENTICATED" // a caller who has proved no identity
	System          Kind = "SYSTEM"          // the service itself
)

// Actor is who makes the changes of a mutation or a command.
type Actor struct {
	Kind      Kind
	UserID    model.UserID     // 0: not a user
	Email     string           // of the user
	TokenID   model.APITokenID // 0: no API token
	TokenName string

	Action string        // the mutation's or the command's name
	At     model.Instant // of its changes
}

type actorKey struct{}

// WithActor returns a context for the stores' calls of one mutation or command.
func WithActor(ctx context.Context, actor Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// ActorOf returns the context's actor. Without an actor it is the service itself.
func ActorOf(ctx context.Context) Actor {
	actor, ok := ctx.Value(actorKey{}).(Actor)
	if !ok {
		actor = Actor{Kind: System, Action: "system"}
	}
	if actor.At == 0 {
		actor.At = model.At(time.Now())
	}
	return actor
}

// Values are values of an object by name, as JSON can write them. They must not include secrets.
type Values map[string]any

// Object is the row that an action changed. Name is its name at that time.
type Object struct {
	Kind   nodeid.Kind
	ID     int64
	SiteID model.SiteID // of a delivery; otherwise 0
	Name   string
}

// Change is a change of an object. Before is nil for a new object, After for a deleted object.
type Change struct {
	AccountID     model.AccountID // the account with the log
	IsKnown       bool            // the transaction has read a site of the account
	Object        Object
	Before, After Values

	// By is the user who proves an identity with this change, for instance at a sign-in. The user
	// replaces the context's actor, except for the command line. nil: the context's actor.
	By *model.User

	// ByOperator marks a change that only operators can make.
	ByOperator bool

	// Returns is the object that the mutation returns if that is not Object, for package
	// idempotency.
	Returns *idempotency.Object
}

// written counts the rows of this process. It makes the ids of one microsecond unique and ordered.
var written atomic.Int64

// Write adds a row for a change. tx must be the transaction of the change. It writes nothing if no
// account has the number, with the same statement, unless the account is known. It records the
// object of a call with an idempotency key.
func Write(ctx context.Context, tx bun.IDB, c Change) error {
	actor := c.actor(ActorOf(ctx))
	before, err := encode(c.Before)
	if err != nil {
		return err
	}
	after, err := encode(c.After)
	if err != nil {
		return err
	}

	// A statement that reads accounts locks all of them on Citus. After the lock of a site that
	// would be against the order of locks.
	condition := " WHERE EXISTS (SELECT 1 FROM accounts WHERE id = ?)"
	if c.IsKnown {
		condition = " WHERE ? > 0"
	}

	id := model.FirstTimeID(actor.At) | written.Add(1)&(1<<12-1)
	_, err = tx.NewRaw(`
INSERT INTO audit_log (account_id, id, at, actor_kind, actor_user_id, actor_name, token_id, token_name, action,
  object_kind, object_id, object_site, object_name, before, after)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?`+condition,
		c.AccountID, id, actor.At, string(actor.Kind), actor.UserID, actor.Email, actor.TokenID, actor.TokenName, actor.Action,
		c.Object.Kind.Type(), c.Object.ID, c.Object.SiteID, c.Object.Name, before, after, c.AccountID).Exec(ctx)
	if err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}

	return idempotency.Record(ctx, tx, c.returned())
}

// returned is the object that the mutation returns.
func (c Change) returned() idempotency.Object {
	if c.Returns != nil {
		return *c.Returns
	}
	return idempotency.Object{Kind: c.Object.Kind, ID: c.Object.ID, SiteID: c.Object.SiteID}
}

// actor returns the actor of the change, given the context's.
func (c Change) actor(actor Actor) Actor {
	if c.By != nil && actor.Kind != CommandLine {
		return Actor{Kind: User, UserID: c.By.ID, Email: c.By.Email, Action: actor.Action, At: actor.At}
	}
	if c.ByOperator && actor.Kind == User {
		actor.Kind = Operator
	}
	return actor
}
