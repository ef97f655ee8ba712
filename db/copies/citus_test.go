package copies

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// openCitus opens a database of a Citus cluster, with search_path set to a schema unless it is
// empty.
func openCitus(t *testing.T, databaseURL, schema string) *db.DB {
	t.Helper()
	if schema != "" {
		separator := "?"
		if strings.Contains(databaseURL, "?") {
			separator = "&"
		}
		databaseURL += separator + "search_path=" + schema
	}

	d, err := db.OpenWith(databaseURL, db.Options{}.ForCopy())
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestCopyToCitus copies an installation from SQLite to a Citus cluster and back.
func TestCopyToCitus(t *testing.T) {
	t.Parallel()
	cluster := openCitus(t, dbtest.EmptyCitusURL(t), "")
	from := source(t, "sqlite")

	if _, err := copyAll(t.Context(), from, cluster); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "on Citus", contents(t, cluster), contents(t, from))

	back := open(t, "sqlite")
	if _, err := copyAll(t.Context(), cluster, back); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "back from Citus", contents(t, back), contents(t, from))
}

// TestCopyRefusesDistributedSchema checks that a distributed schema of Citus is refused, and stays
// empty.
//
// It runs before the parallel tests: a schema of a new database was refused with a failed
// connection to a worker while another test created its tables.
func TestCopyRefusesDistributedSchema(t *testing.T) {
	databaseURL := dbtest.EmptyCitusURL(t)
	err := dbtest.Exec(openCitus(t, databaseURL, ""), "SET citus.enable_schema_based_sharding = on; CREATE SCHEMA tenant")
	testkit.NoError(t, err)

	tenant := openCitus(t, databaseURL, "tenant")
	_, err = copyAll(t.Context(), source(t, "sqlite"), tenant)
	if err == nil || !strings.Contains(err.Error(), "is a distributed schema of Citus, and nothing was written") {
		t.Errorf("got the error %v", err)
	}
	if exists, err := migrations.HasSchema(t.Context(), tenant); exists || err != nil {
		t.Errorf("schema_migrations exists: %v, %v", exists, err)
	}
}
