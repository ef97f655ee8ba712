package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/model"
)

// What the moves of sites and of accounts have in common.

// The states of a move.
const (
	copying  = "copying"
	closed   = "closed"
	switched = "switched"
)

// readersLeave is how long the rows in the former cell stay for readers that looked the cell up
// before the switch, such as a page of an export.
const readersLeave = time.Minute

// route is the way of a move, in a row of site_moves or account_moves.
type route struct {
	FromCell int64 `bun:",notnull"`
	ToCell   int64 `bun:",notnull"`
}

// mover moves sites or accounts.
type mover[ID ~int64] struct {
	what    string // site or account
	begin   func(ctx context.Context, id ID, toCell int64) error
	advance func(ctx context.Context, id ID, finish bool) (done bool, err error)
}

// move begins a move or continues it, and returns when no step is left but to delete the rows in
// the former cell.
func (m mover[ID]) move(ctx context.Context, id ID, toCell int64) error {
	err := m.begin(ctx, id, toCell)
	for done := false; err == nil && !done; {
		done, err = m.advance(ctx, id, false)
	}
	return db.Wrap(err, "move %s %d to cell %d", m.what, id, toCell)
}

// resume carries on all moves that were started, as Continue describes.
func (m mover[ID]) resume(ctx context.Context, d *db.DB) (finished int64, err error) {
	var moves []struct {
		ID     ID
		ToCell int64
	}
	table, key := bun.Ident(m.what+"_moves"), bun.Ident(m.what+"_id")
	err = d.Read.NewSelect().TableExpr("?", table).ColumnExpr("? AS id, to_cell", key).OrderExpr("started_at, ?", key).
		Scan(ctx, &moves)
	if err != nil {
		return 0, fmt.Errorf("list the moves of %ss: %w", m.what, err)
	}

	var failed []error
	for _, one := range moves {
		for done := false; !done; {
			if done, err = m.advance(ctx, one.ID, true); err != nil {
				failed = append(failed, fmt.Errorf("move %s %d to cell %d: %w", m.what, one.ID, one.ToCell, err))
				break
			}
		}

		left, err := d.Read.NewSelect().TableExpr("?", table).Where("? = ?", key, one.ID).Exists(ctx)
		if err == nil && !left {
			finished++
		}
	}

	return finished, errors.Join(failed...)
}

// Continue carries on all moves of sites and accounts that were started, and deletes the rows in
// the former cells of those that are over. It returns the number of moves that are finished.
func (s *Store) Continue(ctx context.Context) (finished int64, err error) {
	list, err := s.db.Cells(ctx)
	if err != nil || len(list) == 1 {
		return 0, err
	}

	ofSites, failed := s.sites().resume(ctx, s.db)
	ofAccounts, err := s.accounts().resume(ctx, s.db)
	return ofSites + ofAccounts, errors.Join(failed, err)
}

// beginTx runs a transaction that records a move to a cell, which all processes know.
func (s *Store) beginTx(
	ctx context.Context, toCell int64, record func(ctx context.Context, tx *db.Tx, now model.Instant) error,
) error {
	if !s.db.IsPostgres() {
		return ErrSQLite
	}

	s.db.ForgetCells()
	list, err := s.db.Cells(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(cell celllist.Cell) bool { return cell.ID == toCell }) {
		return fmt.Errorf("there is no cell %d", toCell)
	}

	now, err := s.db.Now(ctx)
	if err != nil {
		return err
	}

	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		isKnown, err := tx.NewSelect().Table("cells").Where("id = ?", toCell).Where(db.KnownCell).Exists(ctx)
		if err != nil {
			return err
		}
		if !isKnown {
			return fmt.Errorf("the cell is new: try again in %v, when all processes know it", celllist.Delay)
		}
		return record(ctx, tx, now)
	})
}

// isNew reports whether a move must be recorded: not if it is in progress. It fails if another one
// is, and if there is nothing to move.
func (m mover[ID]) isNew(ctx context.Context, tx *db.Tx, id ID, wanted route) (bool, error) {
	var others []route
	err := tx.NewSelect().TableExpr("?", bun.Ident(m.what+"_moves")).Column("from_cell", "to_cell").
		Where("? = ?", bun.Ident(m.what+"_id"), id).Scan(ctx, &others)

	switch {
	case err != nil:
		return false, err
	case len(others) > 0 && others[0].ToCell == wanted.ToCell:
		return false, nil
	case len(others) > 0:
		return false, fmt.Errorf("an earlier move from cell %d to cell %d is not finished", others[0].FromCell, others[0].ToCell)
	case wanted.FromCell == wanted.ToCell:
		return false, fmt.Errorf("the %s is in cell %d already", m.what, wanted.ToCell)
	}
	return true, nil
}

// schemas are those of the cells of a move, quoted.
type schemas struct{ from, to string }

// schemas returns the schemas of a move's cells.
func (s *Store) schemas(ctx context.Context, r route) (in schemas, err error) {
	if _, err := s.db.Cells(ctx); err != nil {
		return in, err
	}

	for id, schema := range map[int64]*string{r.FromCell: &in.from, r.ToCell: &in.to} {
		cell, err := s.db.Cell(ctx, id)
		if err != nil {
			return in, err
		}
		*schema = cell.QuotedSchema()
	}
	return in, nil
}

// exec runs a statement of a move. It names the schemas ?from and ?to, the ?table, and the ?id of
// the site or account.
func (in schemas) exec(ctx context.Context, tx *db.Tx, id int64, statement, table string, args ...any) error {
	text := strings.NewReplacer("?from", in.from, "?to", in.to, "?table", table, "?id", "?").Replace(statement)
	_, err := tx.NewRaw(text, append([]any{id}, args...)...).Exec(ctx)
	return err
}

// copy copies the rows of a site or account in a table, or the rows of a day. It names the columns,
// since their order may differ: a migration adds a column at the end, and a new cell may have it
// earlier.
func (in schemas) copy(ctx context.Context, tx *db.Tx, id int64, table, where string, args ...any) error {
	var columns string
	err := tx.NewRaw("SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute "+
		"WHERE attrelid = ?::regclass AND attnum > 0 AND NOT attisdropped", in.to+"."+table).Scan(ctx, &columns)
	if err != nil {
		return err
	}

	return in.exec(ctx, tx, id, "INSERT INTO ?to.?table ("+columns+") SELECT "+columns+" FROM ?from.?table WHERE "+where, table, args...)
}
