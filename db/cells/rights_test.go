package cells_test

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCellWithoutRights: a role that cannot use a cell's schema changes no table instead of those
// of the default cell, until it has the right.
func TestCellWithoutRights(t *testing.T) {
	t.Parallel()

	t.Run("postgres", func(t *testing.T) {
		t.Parallel()

		databaseURL := dbtest.DefaultCellURL(t)
		owner := dbtest.Open(t, databaseURL)
		cell, err := dbtest.AddCell(t.Context(), owner, model.At(time.Now()))
		testkit.NoError(t, err)
		restricted := dbtest.RestrictedURL(t, databaseURL)
		d := dbtest.Open(t, restricted)

		each := func() error {
			return d.EachCell(t.Context(), func(in *db.Cell) error {
				_, err := in.Write.ExecContext(t.Context(), "DELETE FROM transactions")
				return err
			})
		}
		if _, err := d.Cell(t.Context(), cell.ID); !errors.Is(err, celllist.ErrDenied) {
			t.Errorf("InCell without the right: %v", err)
		}
		testkit.ErrorIs(t, each(), celllist.ErrDenied, "EachCell without the right")

		u, err := url.Parse(restricted)
		testkit.NoError(t, err)
		role := bun.Ident(u.User.Username())
		for _, grant := range []string{"GRANT USAGE ON SCHEMA cell_2 TO ?", "GRANT ALL ON ALL TABLES IN SCHEMA cell_2 TO ?"} {
			testkit.NoError(t, dbtest.Exec(owner, grant, role))
		}

		// A process that stores hits does not list the cells.
		d.ForgetCells()
		if _, err := d.Cell(t.Context(), cell.ID); err != nil {
			t.Errorf("InCell with the right: %v", err)
		}
		testkit.Succeeds(t, each(), "with the right")
	})
}
