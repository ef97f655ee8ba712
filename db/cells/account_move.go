package cells

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// An account's captcha moves to another cell in steps. As with a site, each is one transaction that
// also records the progress, so any process can continue a move at any time.
//
//	copying   the claims are copied while more of them are stored, and the account is closed
//	closed    no challenge and no token of the account is claimed. The transactions that may have read
//	          that the account was open end; the usage and the later claims are copied, and the
//	          account is opened in the new cell. Requests wait meanwhile, for up to 2.5 seconds
//	switched  the account is in the new cell; a minute later its rows in the former one are deleted
//
// A claim is not deleted before it expires, so a part of an earlier attempt does no harm: a claim
// that is in the new cell already is left out. The claims of an account are those with its number.
// So they include those of sitekeys that it has given away, which are claimed in its cell
// (model.Sitekey.Claims), and not those of sitekeys that it has received.

// accountMove is a row of account_moves.
type accountMove struct {
	bun.BaseModel `bun:"table:account_moves"`

	AccountID model.AccountID `bun:",pk"`
	route

	State      string        `bun:",notnull"`
	StartedAt  model.Instant `bun:",notnull"`
	SwitchedAt model.Instant `bun:",notnull"`
}

// MoveAccount is Move for the captcha of an account. Its challenges and tokens wait near the end.
// The cell must be open.
func (s *Store) MoveAccount(ctx context.Context, accountID model.AccountID, toCell int64) error {
	return s.accounts().move(ctx, accountID, toCell)
}

// accounts returns the steps of moves of accounts.
func (s *Store) accounts() mover[model.AccountID] {
	return mover[model.AccountID]{what: "account", begin: s.beginAccount, advance: s.advanceAccount}
}

// beginAccount records a move, unless the same one is in progress.
func (s *Store) beginAccount(ctx context.Context, accountID model.AccountID, toCell int64) error {
	return s.beginTx(ctx, toCell, func(ctx context.Context, tx *db.Tx, now model.Instant) error {
		if err := tx.LockMoveOf(ctx, accountID); err != nil {
			return err
		}

		var account model.Account
		if err := tx.NewSelect().Model(&account).Where("id = ?", accountID).Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		wanted := route{FromCell: account.Cell, ToCell: toCell}
		isNew, err := s.accounts().isNew(ctx, tx, accountID, wanted)
		if !isNew || err != nil {
			return err
		}

		isOpen, err := tx.NewSelect().Table("cells").Where("id = ?", toCell).Where("open").Exists(ctx)
		if err == nil && !isOpen {
			err = fmt.Errorf("cell %d takes no new accounts: open it first", toCell)
		}
		if err != nil {
			return err
		}

		_, err = tx.NewInsert().Model(&accountMove{AccountID: accountID, route: wanted, State: copying, StartedAt: now}).
			Exec(ctx)
		return err
	})
}

// advanceAccount is advance for an account.
func (s *Store) advanceAccount(ctx context.Context, accountID model.AccountID, finish bool) (done bool, err error) {
	now, err := s.db.Now(ctx)
	if err != nil {
		return false, err
	}

	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		done = false
		if err := tx.LockMoveOf(ctx, accountID); err != nil {
			return err
		}

		step := &accountStep{store: s, tx: tx}
		if err := tx.NewSelect().Model(&step.move).Where("account_id = ?", accountID).Scan(ctx); err != nil {
			done = errors.Is(db.OrNotFound(err), model.ErrNotFound)
			if done {
				return nil
			}
			return err
		}

		if step.move.State == switched && (!finish || now < step.move.SwitchedAt.Add(readersLeave)) {
			done = true
			return nil
		}

		if step.schemas, err = s.schemas(ctx, step.move.route); err != nil {
			return err
		}
		return step.run(ctx)
	})
	return done, err
}

// accountStep is one transaction of a move, which holds its lock.
type accountStep struct {
	store *Store
	tx    *db.Tx
	move  accountMove
	schemas
}

// run does the next step and records it.
func (s *accountStep) run(ctx context.Context) (err error) {
	switch s.move.State {
	case copying:
		err = s.close(ctx)
	case closed:
		err = s.switchCell(ctx)
	default:
		return s.clean(ctx)
	}
	if err != nil {
		return err
	}

	_, err = s.tx.NewUpdate().Model(&s.move).Column("state", "switched_at").WherePK().Exec(ctx)
	return err
}

// close copies the claims, and ends the storing of others.
func (s *accountStep) close(ctx context.Context) error {
	if err := s.copyClaims(ctx); err != nil {
		return err
	}

	s.move.State = closed
	return s.setAccount(ctx, s.move.FromCell, true)
}

// switchCell copies what was stored since the claims were copied, and opens the account in its new
// cell.
func (s *accountStep) switchCell(ctx context.Context) error {
	if err := s.awaitClaims(ctx); err != nil {
		return err
	}

	if err := s.exec(ctx, s.tx, int64(s.move.AccountID), "DELETE FROM ?to.?table WHERE account_id = ?id", "captcha_usage"); err != nil {
		return err
	}
	if err := s.copy(ctx, s.tx, int64(s.move.AccountID), "captcha_usage", "account_id = ?id"); err != nil {
		return err
	}
	if err := s.copyClaims(ctx); err != nil {
		return err
	}

	now, err := s.store.db.Now(ctx) // after the waits
	if err != nil {
		return err
	}
	s.move.State, s.move.SwitchedAt = switched, now
	if err := s.setAccount(ctx, s.move.ToCell, false); err != nil {
		return err
	}

	// Processes would notice the move without it, at the price of a request that waits.
	var sitekeys []model.SitekeyID
	err = s.tx.NewSelect().Table("sitekeys").Column("id").
		Where("account_id = ?0 OR claim_space = ?0", s.move.AccountID).Scan(ctx, &sitekeys)
	if err != nil {
		return err
	}
	return s.tx.NotifySitekeys(ctx, sitekeys...)
}

// copyClaims copies the claims that are not in the new cell yet, also expired ones: a wrong clock
// must not make a used token valid.
func (s *accountStep) copyClaims(ctx context.Context) error {
	return s.copy(ctx, s.tx, int64(s.move.AccountID), "captcha_spent", "account_id = ?id ON CONFLICT DO NOTHING")
}

// setAccount changes the account's cell and whether it is closed.
func (s *accountStep) setAccount(ctx context.Context, cell int64, isClosed bool) error {
	if err := s.tx.TakeTurn(ctx, "accounts"); err != nil {
		return err
	}
	return db.NeedRow(s.tx.ExecContext(ctx, "UPDATE accounts SET cell = ?, cell_closed = ? WHERE id = ?", cell, isClosed,
		s.move.AccountID))
}

// cleanChunk is how many claims one transaction deletes from the former cell.
const cleanChunk = 10_000

// clean deletes some of the account's rows in its former cell. With the last of them it ends the
// move.
func (s *accountStep) clean(ctx context.Context) error {
	result, err := s.tx.NewRaw(`
DELETE FROM ?0 WHERE account_id = ?1 AND (issued_at, id) IN
  (SELECT issued_at, id FROM ?0 WHERE account_id = ?1 ORDER BY issued_at, id LIMIT ?2)`,
		bun.Safe(s.from+".captcha_spent"), s.move.AccountID, cleanChunk).Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); n == cleanChunk || err != nil {
		return err
	}

	err = s.exec(ctx, s.tx, int64(s.move.AccountID), "DELETE FROM ?from.captcha_usage WHERE account_id = ?id", "")
	if err != nil {
		return err
	}
	_, err = s.tx.NewDelete().Model(&s.move).WherePK().Exec(ctx)
	return err
}
