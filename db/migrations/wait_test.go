package migrations_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// The first migration of the sets of these tests. It creates what the marks of later ones need.
const firstMigration = "CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL);\n" +
	"CREATE TABLE shops (id bigint PRIMARY KEY, city text NOT NULL);\n"

// set returns migrations with these names and scripts, after firstMigration.
func set(scripts map[string]string) *migrations.Set {
	files := fstest.MapFS{"1_first.sql": {Data: []byte(firstMigration)}}
	for name, script := range scripts {
		files[name+".sql"] = &fstest.MapFile{Data: []byte(script)}
	}
	return migrations.MustSet(files)
}

// emptyEach runs a test with an empty database of each engine.
func emptyEach(t *testing.T, test func(t *testing.T, d *db.DB)) {
	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) { test(t, dbtest.Open(t, databaseURL)) })
}

// TestMigrationWaitsForATableInShortSteps checks that a migration behind a long read of the table
// does not stop others for the time of the read: they pass it between its attempts.
func TestMigrationWaitsForATableInShortSteps(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.EmptyPostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	testkit.NoError(t, migrations.ApplySet(t.Context(), d, set(nil)))

	reader, err := d.Write.BeginTx(t.Context(), nil)
	testkit.NoError(t, err)
	if _, err := reader.ExecContext(t.Context(), "SELECT count(*) FROM shops"); err != nil {
		t.Fatal(err)
	}

	migrated := make(chan error, 1)
	go func() {
		other := dbtest.Open(t, databaseURL)
		wider := set(map[string]string{"2_street": "ALTER TABLE shops ADD COLUMN street text;"})
		migrated <- migrations.ApplySet(context.Background(), other, wider)
	}()

	// Wait for the migration to wait, then write. The write waits for the migration's lock, and
	// gets it when the migration gives up, although the reader still reads.
	waitForLock(t, d)
	if _, err := d.DataWrite.ExecContext(t.Context(), "INSERT INTO shops (id, city) VALUES (1, 'Ulm')"); err != nil {
		t.Errorf("write while a migration waits: %v", err)
	}

	select {
	case err := <-migrated:
		t.Errorf("the migration ended while the table was read: %v", err)
	default:
	}

	testkit.NoError(t, reader.Rollback())
	testkit.Succeeds(t, <-migrated, "after the read")
}

// waitForLock waits until a session of the database waits for a lock of a table.
func waitForLock(t *testing.T, d *db.DB) {
	t.Helper()
	for {
		var waits bool
		err := d.Write.NewRaw("SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "+
			"AND wait_event_type = 'Lock' AND wait_event = 'relation')").Scan(t.Context(), &waits)
		testkit.NoError(t, err)
		if waits {
			return
		}
	}
}

// TestIndexOutsideOfATransaction checks that an index is built while its table is written, on a
// plain and on a partitioned table, and that an interrupted migration begins again.
func TestIndexOutsideOfATransaction(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.EmptyPostgresURL(t))
	before := map[string]string{"2_visits": `
CREATE TABLE visits (site_id bigint NOT NULL, day integer NOT NULL) PARTITION BY RANGE (day);
CREATE TABLE visits_1 PARTITION OF visits FOR VALUES FROM (0) TO (10);
CREATE TABLE visits_2 PARTITION OF visits FOR VALUES FROM (10) TO (20);
INSERT INTO visits SELECT i, i % 20 FROM generate_series(1, 1000) AS i;
INSERT INTO shops SELECT i, 'Ulm' FROM generate_series(1, 1000) AS i;`}
	testkit.NoError(t, migrations.ApplySet(t.Context(), d, set(before)))

	// A unique index over equal values fails and leaves an invalid index.
	const comment = "-- outside of a transaction\n"
	refused := map[string]string{"2_visits": before["2_visits"], "3_city": comment +
		"CREATE UNIQUE INDEX @concurrently IF NOT EXISTS shops_city ON shops (city);"}
	if err := migrations.ApplySet(t.Context(), d, set(refused)); !db.IsUnique(err) {
		t.Fatalf("error %v, want that the values are not unique", err)
	}

	// A transaction that writes both tables stays open: it does not stop the lock of the tables'
	// indexes, which writers share, and CREATE INDEX CONCURRENTLY waits for its end.
	writer, err := d.Write.BeginTx(t.Context(), nil)
	testkit.NoError(t, err)
	for _, statement := range []string{"INSERT INTO shops VALUES (0, 'Ulm')", "INSERT INTO visits_1 VALUES (0, 1)"} {
		if _, err := writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}

	accepted := map[string]string{"2_visits": before["2_visits"], "3_city": comment + `
-- Two indexes.
CREATE INDEX @concurrently IF NOT EXISTS shops_city ON shops (city);
CREATE INDEX @concurrently IF NOT EXISTS visits_site
  ON visits (site_id, day); -- of all partitions
`}
	migrated := make(chan error, 1)
	go func() { migrated <- migrations.ApplySet(context.Background(), d, set(accepted)) }()

	waitForIndex(t, d, "shops_city")
	if _, err := d.DataWrite.ExecContext(t.Context(), "INSERT INTO shops VALUES (-1, 'Bonn')"); err != nil {
		t.Errorf("write while the index is built: %v", err)
	}
	testkit.NoError(t, writer.Commit())
	testkit.NoError(t, <-migrated)

	var valid []string
	err = d.Write.NewRaw("SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indexrelid "+
		"WHERE indisvalid AND (relname LIKE 'shops_city%' OR relname LIKE 'visits_site%') ORDER BY 1").
		Scan(t.Context(), &valid)
	want := []string{"shops_city", "visits_site", "visits_site_1", "visits_site_2"}
	if err != nil || !slices.Equal(valid, want) {
		t.Errorf("valid indexes %v, %v; want %v", valid, err, want)
	}

	// Again, it does nothing.
	if err := migrations.ApplySet(t.Context(), d, set(accepted)); err != nil {
		t.Error(err)
	}
}

// waitForIndex waits until an index exists, valid or not.
func waitForIndex(t *testing.T, d *db.DB, name string) {
	t.Helper()
	for {
		var exists bool
		testkit.NoError(t, d.Write.NewRaw("SELECT to_regclass(?) IS NOT NULL", name).Scan(t.Context(), &exists))
		if exists {
			return
		}
	}
}

// TestOldestProgram checks that a schema keeps out programs that it names as too old, and no
// others.
func TestOldestProgram(t *testing.T) {
	t.Parallel()
	emptyEach(t, func(t *testing.T, d *db.DB) {
		old := set(nil)
		compatible := map[string]string{"2_street": "ALTER TABLE shops ADD COLUMN street text;"}
		breaking := map[string]string{"2_street": compatible["2_street"],
			"3_town": "-- oldest program: 2_street\n-- Towns instead of cities.\nALTER TABLE shops RENAME COLUMN city TO town;"}

		for _, step := range []struct {
			program *migrations.Set
			want    error
		}{
			{old, nil}, {set(compatible), nil}, {old, nil}, {set(breaking), nil}, {set(compatible), nil},
			{old, migrations.ErrProgramTooOld}, {set(breaking), nil},
		} {
			err := migrations.ApplySet(t.Context(), d, step.program)
			if !errors.Is(err, step.want) {
				t.Fatalf("program with %s: error %v, want %v", step.program.Newest(), err, step.want)
			}
		}
	})
}

// TestMigrateWithoutRights checks that a role of PostgreSQL that may only read and write rows
// starts on a schema that is up to date.
func TestMigrateWithoutRights(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.EmptyPostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	testkit.NoError(t, migrations.Apply(t.Context(), d))

	restricted := dbtest.Open(t, dbtest.RestrictedURL(t, databaseURL))
	if _, err := restricted.Write.ExecContext(t.Context(), "CREATE TABLE x (i int)"); err == nil {
		t.Fatal("the role may create tables")
	}
	if err := migrations.Apply(t.Context(), restricted); err != nil {
		t.Error(err)
	}
}
