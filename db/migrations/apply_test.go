package migrations_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

func TestMigrateTwiceChangesNothing(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		testkit.NoError(t, migrations.Apply(t.Context(), d))
		schema, err := migrations.ReadSchema(t.Context(), d)
		if err != nil || len(schema.Pending) != 0 || len(schema.Unknown) != 0 || schema.TooNew() {
			t.Fatalf("schema %+v, error %v; want that of this program", schema, err)
		}
	})
}

func TestMigrateSeveralAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		const starters = 8
		errs := make([]error, starters)

		var wg sync.WaitGroup
		for i := range starters {
			wg.Go(func() {
				d, err := db.Open(databaseURL)
				if err != nil {
					errs[i] = err
					return
				}
				errs[i] = errors.Join(migrations.Apply(context.Background(), d), d.Close())
			})
		}

		wg.Wait()

		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%d concurrent starts on an empty database: %v", starters, err)
		}
	})
}

func TestSchemaOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		d, err := db.Open(databaseURL)
		testkit.NoError(t, err)
		defer d.Close()

		if schema, err := migrations.ReadSchema(t.Context(), d); err == nil {
			t.Fatalf("got %+v and no error from a database that was never migrated", schema)
		}
	})
}

// TestMigrateRefusesAnEarlierBuild checks that a database of the builds before the first release is
// refused with a clear error, and not changed.
func TestMigrateRefusesAnEarlierBuild(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"20261120_000001_first", "20261122_000016_first"} {
		dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
			d := dbtest.Open(t, databaseURL)
			for _, statement := range []string{
				"CREATE TABLE schema_migrations (name text PRIMARY KEY, applied_at bigint NOT NULL)",
				"INSERT INTO schema_migrations (name, applied_at) VALUES ('" + first + "', 1)",
				"CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL)",
				"CREATE TABLE visits (site_id bigint NOT NULL, id bigint NOT NULL, PRIMARY KEY (site_id, id))",
				"INSERT INTO visits (site_id, id) VALUES (1, 2)",
			} {
				testkit.NoError(t, dbtest.Exec(d, statement))
			}
			before, err := migrations.Objects(t.Context(), d)
			testkit.NoError(t, err)

			_, schemaErr := migrations.ReadSchema(t.Context(), d)
			for _, err := range []error{migrations.Apply(t.Context(), d), schemaErr} {
				if !errors.Is(err, migrations.ErrEarlierBuild) {
					t.Errorf("%s: error %v, want %v", first, err, migrations.ErrEarlierBuild)
				}
			}

			for table, want := range map[string]int{"schema_migrations": 1, "settings": 0, "visits": 1} {
				dbtest.HasRows(t, d, table, want, "rows of %s", table)
			}
			if after, err := migrations.Objects(t.Context(), d); err != nil || !slices.Equal(after, before) {
				t.Errorf("%q became %q, %v", before, after, err)
			}
		})
	}
}
