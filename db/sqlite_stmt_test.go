package db

import (
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TestSQLiteConnectionIsReplaced: the statements end with their connection, and a batch on the next
// one has its own.
func TestSQLiteConnectionIsReplaced(t *testing.T) {
	d, err := Open(sqliteScheme + filepath.Join(t.TempDir(), "x.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()

	if err := d.Migrate(t.Context(), time.Now); err != nil {
		t.Fatal(err)
	}

	store := d.HitStore()
	defer store.Close()

	day := model.Day(20_000)
	keys := HitKeys{Since: day.Start(), Until: (day + 1).Start()}
	claims := d.CaptchaStore()
	defer claims.Close()

	write := func(id int64) {
		t.Helper()
		visit := model.Visit{SiteID: 1, ID: id, StartedAt: day.Start(), Channel: "direct", UserID: []byte{7}, Referrer: "a.example"}

		page := model.Pageview{SiteID: 1, At: day.Start(), ID: id, VisitID: id, Path: "/", WidthRange: -1, Manual: true}
		if err := store.Update(t.Context(), keys, func(*HitState) *HitChanges {
			return &HitChanges{NewVisits: []model.Visit{visit}, Pageviews: []model.Pageview{page}}
		}); err != nil {
			t.Fatal(err)
		}
	}

	claim := func(want bool) {
		t.Helper()
		key := model.SpentKey{AccountID: 1, IssuedAt: day.Start(), ID: [16]byte{1}}
		if err := claims.Update(t.Context(), CaptchaKeys{Spent: []model.SpentKey{key}}, func(s *CaptchaState) *CaptchaChanges {
			if s.Claimed[key] != want {
				t.Errorf("claimed %v, want %v", s.Claimed, want)
			}
			return &CaptchaChanges{}
		}); err != nil {
			t.Fatal(err)
		}
	}

	write(1)
	claim(true)
	var first *SQLiteConn
	err = withSQLiteConn(t.Context(), d.DataWrite.DB, func(c *SQLiteConn) error {
		first = c
		// makes database/sql close it
		return driver.ErrBadConn
	})
	if !errors.Is(err, driver.ErrBadConn) || len(first.prepared) != 2 {
		t.Fatalf("%v, statements %v", err, first.prepared)
	}

	write(2)
	claim(false)

	if err := withSQLiteConn(t.Context(), d.DataWrite.DB, func(c *SQLiteConn) error {
		if c == first || len(c.prepared) != 2 {
			t.Error("the connection is the one that was closed, or has no statements")
		}
		for key, statements := range c.prepared {
			if statements == first.prepared[key] {
				t.Error("the statements are those that were closed")
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}

	var rows []struct {
		Manual bool
		Width  int64
	}
	if err := d.Read.NewRaw("SELECT manual, width_range AS width FROM pageviews ORDER BY id").Scan(t.Context(), &rows); err != nil || len(rows) != 2 || !rows[1].Manual || rows[1].Width != -1 {
		t.Errorf("stored %+v, %v", rows, err)
	}
}

func TestSQLiteValue(t *testing.T) {
	n, s := int64(3), "text"
	for _, test := range []struct{ arg, want any }{
		{nil, nil}, {int64(1), int64(1)}, {int32(-1), int64(-1)}, {int16(2), int64(2)}, {model.Instant(4), int64(4)}, {model.Month(202611), int64(202611)},
		{"x", "x"}, {true, true}, {&s, "text"}, {(*string)(nil), nil}, {&n, int64(3)}, {(*int64)(nil), nil},
	} {
		if got, err := sqliteValue(test.arg); err != nil || got != test.want {
			t.Errorf("%#v becomes %#v, %v", test.arg, got, err)
		}
	}

	if _, err := sqliteValue(3.5); err == nil {
		t.Error("a float is taken; no column has one")
	}
}

// TestSQLiteIsDurable: the connection that writes waits for the disk at each commit. No test that
// kills processes can tell: what they wrote outlives them.
func TestSQLiteIsDurable(t *testing.T) {
	d, err := Open(sqliteScheme + filepath.Join(t.TempDir(), "x.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()

	// 2 is FULL
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		if err := d.Write.NewRaw("PRAGMA "+pragma).Scan(t.Context(), &got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %s", pragma, got, err, want)
		}
	}
}
