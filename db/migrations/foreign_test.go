package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestForeign checks that a database of another program is refused and not changed, also if a table
// has the name of one of this program.
func TestForeign(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ tables, want string }{
		{"CREATE TABLE wp_posts (id integer)", "wp_posts"},
		{"CREATE TABLE settings (name text); CREATE TABLE wp_posts (id integer)", "wp_posts"},
		{"CREATE TABLE users (id integer); CREATE TABLE toots (id integer)", "toots"},
		{"CREATE TABLE schema_migrations (version text); INSERT INTO schema_migrations VALUES ('1'); CREATE TABLE toots (id integer)", "toots"},
		{"CREATE TABLE schema_migrations (version text); CREATE TABLE toots (id integer)", "toots"},
	} {
		dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
			d, err := db.Open(databaseURL)
			testkit.NoError(t, err)
			t.Cleanup(func() { _ = d.Close() })
			for statement := range strings.SplitSeq(test.tables, "; ") {
				if _, err := d.Write.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			before, err := migrations.Objects(t.Context(), d)
			testkit.NoError(t, err)

			_, schemaErr := migrations.ReadSchemaOrEmpty(t.Context(), d)
			for _, err := range []error{migrations.Apply(t.Context(), d), schemaErr} {
				if foreign, ok := errors.AsType[*migrations.ForeignError](err); !ok || foreign.Table != test.want {
					t.Errorf("%s: %v", test.tables, err)
				}
			}
			if after, err := migrations.Objects(t.Context(), d); err != nil || len(after) != len(before) {
				t.Errorf("%q became %q, %v", before, after, err)
			}
		})
	}
}
