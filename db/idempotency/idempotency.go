// Package idempotency records which object a call of a mutation with an idempotency key has created
// or changed, so that a repeated call finds the object and changes nothing. The control plane names
// the call in the context that it passes to the stores. Package audit writes the record with the
// entry of the change: in the same transaction, so that a crash leaves both or none.
package idempotency

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// The bounds of the records.
const (
	Lifetime = 24 * time.Hour
	MaxKeys  = 10_000 // of an account; concurrent calls can exceed it by their number
)

// Field is the field of a mutation's input with the key.
const Field = "idempotencyKey"

// The errors of calls with a key.
var (
	// ErrReused is the answer to a call with the key of another call.
	ErrReused = &model.Error{
		Kind: model.Conflict, Code: "idempotency_key_reused", Field: Field,
		Message: "This key belongs to an earlier call of another mutation or with another input. Use a new key.",
	}

	// ErrTaken means that another call with the key has committed while this one ran.
	ErrTaken = &model.Error{
		Kind: model.Conflict, Code: "idempotency_key_in_progress", Field: Field,
		Message: "Another call with this key was in progress. Repeat the call.",
	}

	errTooMany = &model.Error{
		Kind: model.Conflict, Code: "too_many_idempotency_keys", Field: Field,
		Message: fmt.Sprintf("An account can use %d keys in 24 hours. Call without a key, or later.", MaxKeys),
	}
)

// Call identifies a call of a mutation. A key is unique for an account and an actor, which is a
// user with sessions or one API token.
type Call struct {
	AccountID model.AccountID
	UserID    model.UserID
	TokenID   model.APITokenID // 0: a session
	Key       []byte           // a hash of the key
	Input     []byte           // a hash of the mutation's name and input
	At        model.Instant    // arrival
}

// Object is the object that a call has created or changed.
type Object struct {
	Kind   nodeid.Kind
	ID     int64
	SiteID model.SiteID // of a delivery; otherwise 0
}

type callKey struct{}

// WithCall returns a context for the stores' calls of one mutation with a key.
func WithCall(ctx context.Context, call Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// Record stores the object of the context's call. tx must be the transaction of the change. Without
// a call it does nothing. It fails with ErrTaken if another call with the key has committed: on
// PostgreSQL it waits for a concurrent one.
func Record(ctx context.Context, tx bun.IDB, object Object) error {
	call, ok := ctx.Value(callKey{}).(Call)
	if !ok {
		return nil
	}

	oldest := call.At.Add(-Lifetime)
	n, err := tx.NewSelect().Table("idempotency_keys").Where("account_id = ? AND created_at > ?", call.AccountID, oldest).
		Count(ctx)
	if err != nil {
		return fmt.Errorf("count idempotency keys: %w", err)
	}
	if n >= MaxKeys {
		return errTooMany
	}

	// A key of more than 24 hours ago is free, also before housekeeping deletes its row.
	stored, err := db.Changed(tx.NewRaw(`
INSERT INTO idempotency_keys AS k
  (account_id, user_id, token_id, key_hash, input_hash, object_kind, object_id, object_site, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (account_id, user_id, token_id, key_hash) DO UPDATE
SET input_hash = excluded.input_hash, object_kind = excluded.object_kind, object_id = excluded.object_id,
  object_site = excluded.object_site, created_at = excluded.created_at
WHERE k.created_at <= ?`,
		call.AccountID, call.UserID, call.TokenID, call.Key, call.Input,
		object.Kind.Type(), object.ID, object.SiteID, call.At, oldest).Exec(ctx))
	if err != nil {
		return fmt.Errorf("record an idempotency key: %w", err)
	}
	if !stored {
		return ErrTaken
	}

	return nil
}

// Store reads the records. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the store of a database's records.
func New(d *db.DB) *Store { return &Store{db: d} }

// Find returns the object of the call that had the same key and input within Lifetime, or nil. It
// fails with ErrReused if that call had another input.
func (s *Store) Find(ctx context.Context, call Call) (*Object, error) {
	var rows []struct {
		InputHash  []byte
		ObjectKind string
		ObjectID   int64
		ObjectSite model.SiteID
	}
	err := s.db.Read.NewSelect().Table("idempotency_keys").Column("input_hash", "object_kind", "object_id", "object_site").
		Where("account_id = ? AND user_id = ? AND token_id = ?", call.AccountID, call.UserID, call.TokenID).
		Where("key_hash = ? AND created_at > ?", call.Key, call.At.Add(-Lifetime)).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("look for an idempotency key of account %d: %w", call.AccountID, err)
	}

	switch {
	case len(rows) == 0:
		return nil, nil
	case !bytes.Equal(rows[0].InputHash, call.Input):
		return nil, ErrReused
	}

	row := rows[0]
	return &Object{Kind: nodeid.KindOfType(row.ObjectKind), ID: row.ObjectID, SiteID: row.ObjectSite}, nil
}
