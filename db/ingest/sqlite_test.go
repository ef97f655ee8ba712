package ingest_test

import (
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSQLiteConnectionIsReplaced checks that prepared statements are closed with their connection,
// and that a batch on the next connection prepares its own.
func TestSQLiteConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	store, claims := hitStore(t, d), claimStore(t, d)

	day := model.Day(20_000)
	keys := ingest.HitKeys{Since: day.Start(), Until: (day + 1).Start()}

	write := func(n int16) {
		t.Helper()
		visit := model.Visit{SiteID: 1, N: n, StartedAt: day.Start(), Channel: "direct", UserID: []byte{7},
			Referrer: "a.example"}
		page := model.Pageview{SiteID: 1, At: day.Start(), ID: int64(n), N: n, Path: "/", WidthRange: -1, Manual: true}

		testkit.NoError(t, store.Update(t.Context(), keys, func(*ingest.HitState) *ingest.HitChanges {
			return &ingest.HitChanges{NewVisits: []model.Visit{visit}, Pageviews: []model.Pageview{page}}
		}))
	}

	claim := func(want bool) {
		t.Helper()
		key := model.ConsumedKey{AccountID: 1, IssuedAt: day.Start(), ID: [16]byte{1}}
		if err := claims.Update(t.Context(), ingest.ClaimKeys{Consumed: []model.ConsumedKey{key}},
			func(s *ingest.ClaimState) *ingest.ClaimChanges {
				testkit.Equal(t, s.Claimed[key], want, "claimed %v", s.Claimed)
				return &ingest.ClaimChanges{}
			}); err != nil {
			t.Fatal(err)
		}
	}

	// prepared returns the connection and the statements that batches prepared on it.
	prepared := func(then error) (conn *db.SQLiteConn, statements *ingest.Statements, err error) {
		err = d.WithSQLiteConn(t.Context(), func(c *db.SQLiteConn) error {
			conn = c
			if statements, err = db.Prepared(c, func(*db.SQLiteConn) (*ingest.Statements, error) {
				return nil, errors.New("no batch has prepared statements")
			}); err != nil {
				return err
			}
			return then
		})

		return conn, statements, err
	}

	write(1)
	claim(true)

	// database/sql closes a bad connection.
	first, statements, err := prepared(driver.ErrBadConn)
	if !errors.Is(err, driver.ErrBadConn) {
		t.Fatal(err)
	}

	write(2)
	claim(false)

	second, others, err := prepared(nil)
	if err != nil || second == first || others == statements {
		t.Errorf("the connection or its statements are those that were closed; error %v", err)
	}

	type row struct {
		Manual bool
		Width  int64
	}

	rows, err := dbtest.Rows[row](d, "SELECT manual, width_range AS width FROM pageviews ORDER BY id")
	if err != nil || len(rows) != 2 || !rows[1].Manual || rows[1].Width != -1 {
		t.Errorf("stored %+v, %v", rows, err)
	}
}
