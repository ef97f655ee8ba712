package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// MaxActions is how many actions a filter can have.
const MaxActions = 50

// Store reads the log. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the store of a database's log.
func New(d *db.DB) *Store { return &Store{db: d} }

// Entry is a row of the log.
type Entry struct {
	ID            int64
	Actor         Actor // with action and time
	Object        Object
	Before, After Values
}

// Filter selects entries. A zero field selects all.
type Filter struct {
	Actions    []string     // any of these; at most MaxActions
	UserID     model.UserID // the user, also through an API token
	ObjectKind nodeid.Kind
	ObjectID   int64
	ObjectSite model.SiteID // of a delivery
	Since      model.Instant
	Until      model.Instant // excluded
}

// Entries returns at most limit entries of the account with ids below before (0 for the first
// page), newest first. An index finds the entries of one condition in the order of ids, so the cost
// of a page follows its length. Several actions are read one by one and merged.
func (s *Store) Entries(
	ctx context.Context, accountID model.AccountID, filter Filter, before int64, limit int,
) ([]*Entry, error) {
	actions := filter.Actions
	if len(actions) == 0 {
		// Any action.
		actions = []string{""}
	}

	var parts []string
	var args []any
	for i, action := range actions {
		condition, values := filter.where(accountID, action, before)
		parts = append(parts, fmt.Sprintf(
			"SELECT * FROM (SELECT * FROM audit_log WHERE %s ORDER BY id DESC LIMIT ?) AS of_action_%d", condition, i))
		args = append(append(args, values...), limit)
	}

	var rows []row
	query := strings.Join(parts, " UNION ALL ") + " ORDER BY id DESC LIMIT ?"
	if err := s.db.Read.NewRaw(query, append(args, limit)...).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("read the audit log of account %d: %w", accountID, err)
	}

	entries := make([]*Entry, len(rows))
	for i := range rows {
		var err error
		if entries[i], err = rows[i].entry(); err != nil {
			return nil, err
		}
	}

	return entries, nil
}

// where returns the condition of the entries with an action, and its arguments. Times are
// conditions of the id, which grows with time.
func (f Filter) where(accountID model.AccountID, action string, before int64) (string, []any) {
	if before == 0 {
		before = math.MaxInt64
	}
	if f.Until != 0 {
		before = min(before, model.FirstTimeID(f.Until))
	}

	condition, args := "account_id = ? AND id < ?", []any{accountID, before}
	and := func(column string, value any) {
		condition += " AND " + column + " ?"
		args = append(args, value)
	}

	if f.Since != 0 {
		and("id >=", model.FirstTimeID(f.Since))
	}
	if action != "" {
		and("action =", action)
	}
	if f.UserID != 0 {
		and("actor_user_id =", f.UserID)
	}
	if f.ObjectKind != 0 {
		and("object_kind =", f.ObjectKind.Type())
		and("object_id =", f.ObjectID)
		and("object_site =", f.ObjectSite)
	}

	return condition, args
}

// row is a row of the table.
type row struct {
	bun.BaseModel `bun:"table:audit_log"`

	AccountID   model.AccountID
	ID          int64
	At          model.Instant
	ActorKind   Kind
	ActorUserID model.UserID
	ActorName   string
	TokenID     model.APITokenID
	TokenName   string
	Action      string
	ObjectKind  string
	ObjectID    int64
	ObjectSite  model.SiteID
	ObjectName  string
	Before      string
	After       string
}

func (r *row) entry() (*Entry, error) {
	entry := &Entry{
		ID: r.ID,
		Actor: Actor{
			Kind: r.ActorKind, UserID: r.ActorUserID, Email: r.ActorName, TokenID: r.TokenID, TokenName: r.TokenName,
			Action: r.Action, At: r.At,
		},
		Object: Object{
			Kind: nodeid.KindOfType(r.ObjectKind), ID: r.ObjectID, SiteID: r.ObjectSite, Name: r.ObjectName,
		},
	}

	for _, values := range []struct {
		text string
		into *Values
	}{{r.Before, &entry.Before}, {r.After, &entry.After}} {
		if values.text == "" {
			continue
		}

		// Large numbers keep their digits.
		decoder := json.NewDecoder(strings.NewReader(values.text))
		decoder.UseNumber()
		if err := decoder.Decode(values.into); err != nil {
			return nil, fmt.Errorf("audit log entry %d of account %d: %w", r.ID, r.AccountID, err)
		}
	}

	return entry, nil
}
