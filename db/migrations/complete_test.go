package migrations_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

var updateObjects = flag.Bool("update", false, "rewrite the lists of tables in db/migrations/objects")

// TestObjects compares the list of tables and keys that a complete database has with what the
// migrations create.
func TestObjects(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		names, err := migrations.Objects(t.Context(), d)
		testkit.NoError(t, err)

		path := filepath.Join("objects", d.Dialect()+".txt")
		text := strings.Join(names, "\n") + "\n"
		if *updateObjects {
			testkit.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}

		listed, err := os.ReadFile(path)
		if err != nil || string(listed) != text {
			t.Errorf("%s, %v, is not what the migrations create; run: go test -run TestObjects ./db/migrations -update", path, err)
		}
	})
}

// TestRestoredInPart checks that a start refuses a database that lacks what its migrations created.
func TestRestoredInPart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ statement, want string }{
		"a table is missing":      {"DROP TABLE failure_notices", "table failure_notices"},
		"the list is missing":     {"DROP TABLE schema_migrations", "no list of the migrations"},
		"the list is empty":       {"DELETE FROM schema_migrations", "no list of the migrations"},
		"complete":                {"", ""},
		"a table of the operator": {"CREATE TABLE notes (id integer)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
				if test.statement != "" {
					if _, err := d.Write.ExecContext(t.Context(), test.statement); err != nil {
						t.Fatal(err)
					}
				}
				checkRefusal(t, d, test.want)
			})
		})
	}
}

// checkRefusal checks that a migration fails with an IncompleteError that contains a text; "": it
// succeeds.
func checkRefusal(t *testing.T, d *db.DB, want string) {
	t.Helper()
	err := migrations.Apply(context.Background(), d)

	incomplete, ok := errors.AsType[*migrations.IncompleteError](err)
	switch {
	case want == "" && err != nil:
		t.Errorf("a complete database is refused: %v", err)
	case want != "" && (!ok || !strings.Contains(incomplete.Error(), want)):
		t.Errorf("error %v, want an IncompleteError with %q", err, want)
	}
}

// TestMissingKey checks that a table without a key is noticed, as after a restore of PostgreSQL
// that was ended before it created the keys, or that left out the rows of the table which a key
// refers to.
func TestMissingKey(t *testing.T) {
	t.Parallel()
	for table, key := range map[string]string{
		"schema_migrations": "schema_migrations_pkey",
		"memberships":       "memberships_user_id_fkey",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			d := dbtest.Open(t, dbtest.PostgresURL(t)) // SQLite creates keys with their tables
			if _, err := d.Write.ExecContext(t.Context(), "ALTER TABLE "+table+" DROP CONSTRAINT "+key); err != nil {
				t.Fatal(err)
			}
			checkRefusal(t, d, " key "+key)
		})
	}
}
