package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// addCell adds a cell to the installation.
func (i *installation) addCell() {
	i.Helper()
	if status, _, log := tallygate(i.T, i.settings, "admin", "cells", "add"); status != 0 {
		i.Fatal(log)
	}
}

// restrict changes to a role with the rights of docs/operator/operations.md, which does not migrate. It
// returns the owner's database.
func (i *installation) restrict() (owner *db.DB) {
	i.Helper()
	owner = dbtest.Open(i.T, i.settings["TALLYGATE_DATABASE_URL"])
	i.settings["TALLYGATE_DATABASE_URL"] = dbtest.RestrictedURL(i.T, i.settings["TALLYGATE_DATABASE_URL"])
	set("NO_MIGRATE", "true")(i)
	return owner
}

// role returns the role of the installation's address.
func (i *installation) role() string { return roleOf(i.T, i.settings["TALLYGATE_DATABASE_URL"]) }

// nextMonth is the end of the names of next month's partitions.
func nextMonth() string {
	now := time.Now().UTC()
	return time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC).Format("_200601")
}

// restrictedWithCell adds a cell, and changes to a role with the rights of docs/operator/operations.md in
// it. It returns the owner's database.
func (i *installation) restrictedWithCell() (owner *db.DB) {
	i.Helper()
	i.addCell()
	owner = i.restrict()

	for _, grant := range []string{"USAGE ON SCHEMA", "SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA"} {
		testkit.NoError(i, dbtest.Exec(owner, "GRANT "+grant+" cell_2 TO "+i.role()))
	}
	return owner
}

// TestDoctorPostgres plants faults in a PostgreSQL server and its database.
func TestDoctorPostgres(t *testing.T) {
	testkit.SkipLong(t, "a durable server")
	t.Parallel()

	server := startPostgres(t, true)
	restricted := func(i *installation) {
		i.settings["TALLYGATE_DATABASE_URL"] = dbtest.RestrictedURL(i.T, i.settings["TALLYGATE_DATABASE_URL"])
	}

	find(t, []fault{
		{"it does not run", set("DATABASE_URL", "postgres://tallygate:"+password+"@127.0.0.1:1/x"), []string{"error database-unreachable"}},
		{"no such database", func(i *installation) {
			set("DATABASE_URL", strings.Replace(i.settings["TALLYGATE_DATABASE_URL"], "/"+i.databaseName(), "/nowhere", 1))(i)
		}, []string{"error database-unreachable"}},
		{"commits that are not durable", func(i *installation) {
			i.query("ALTER DATABASE " + i.databaseName() + " SET synchronous_commit = off")
		}, []string{"error postgres-synchronous-commit"}},
		{"read only", func(i *installation) {
			i.query("ALTER DATABASE " + i.databaseName() + " SET default_transaction_read_only = on")
		}, []string{"error database-write", "error postgres-read-only"}},
		{"an encoding that knows no letters", func(i *installation) {
			name := fmt.Sprint("ascii", databases.Add(1))
			i.query("CREATE DATABASE " + name + " ENCODING 'SQL_ASCII' TEMPLATE template0")
			set("DATABASE_URL", strings.Replace(i.settings["TALLYGATE_DATABASE_URL"], "/"+i.databaseName(), "/"+name, 1))(i)
		}, []string{"error postgres-encoding"}},
		{"a clock that is wrong", func(i *installation) {
			i.exec("CREATE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.clock_timestamp() + interval '5 minutes' $$")
			i.query("ALTER DATABASE " + i.databaseName() + " SET search_path = public, pg_catalog")
		}, []string{"error clock-difference"}},
		{"a role that may change no table", restricted, []string{"warning postgres-ddl"}},
		{"a role that may not migrate", func(i *installation) {
			i.exec("DELETE FROM schema_migrations WHERE name = (SELECT max(name) FROM schema_migrations)")
			restricted(i)
		}, []string{"error schema-pending", "warning postgres-ddl"}},
		{"a role that may not remove partitions", func(i *installation) {
			restricted(i)
			set("NO_MIGRATE", "true", "RETENTION_MONTHS", "12")(i)
		}, []string{"error postgres-retention"}},
		{"no partition for next month", func(i *installation) {
			testkit.NoError(i, dbtest.Exec(i.restrict(), "DROP TABLE events"+nextMonth()))
		}, []string{"warning postgres-partitions"}},
		{"a role without a right", func(i *installation) {
			testkit.NoError(i, dbtest.Exec(i.restrict(), "REVOKE DELETE ON sessions FROM "+i.role()))
		}, []string{"error postgres-rights"}},
		{"a cell with all rights", func(i *installation) { i.addCell() }, nil},
		{"a role without the schema of a cell", func(i *installation) {
			i.addCell()
			restricted(i)
			set("NO_MIGRATE", "true")(i)
		}, []string{"error cell-schema", "error postgres-rights"}},
		{"a cell without its schema", func(i *installation) {
			i.addCell()
			i.exec("DROP SCHEMA cell_2 CASCADE")
		}, []string{"error cell-schema"}},
		{"a role without a right in a cell", func(i *installation) {
			testkit.NoError(i, dbtest.Exec(i.restrictedWithCell(), "REVOKE INSERT ON cell_2.captcha_spent FROM "+i.role()))
		}, []string{"error postgres-rights"}},
		{"no partition of a cell for next month", func(i *installation) {
			testkit.NoError(i, dbtest.Exec(i.restrictedWithCell(), "DROP TABLE cell_2.visits"+nextMonth()))
		}, []string{"warning postgres-partitions"}},
		{"a role that may not change the tables of a cell", func(i *installation) {
			owner := i.restrictedWithCell()
			delete(i.settings, "TALLYGATE_NO_MIGRATE")
			for _, statement := range []string{
				"GRANT CREATE ON SCHEMA public TO " + i.role(),
				"DO $$ DECLARE t regclass; BEGIN FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace " +
					"AND relkind IN ('r', 'p') LOOP EXECUTE 'ALTER TABLE ' || t || ' OWNER TO " + i.role() + "'; END LOOP; END $$",
			} {
				testkit.NoError(i, dbtest.Exec(owner, statement))
			}
		}, []string{"warning postgres-ddl"}},
		{"no worker for a cell", func(i *installation) {
			i.addCell()
			i.exec(`INSERT INTO cell_2.deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
				VALUES (1, 1, 'conversion', 'sale', 'pending', 0, 1, 1, '{}')`)
		}, []string{"error deliveries-late"}},
		{"too few connections", func(i *installation) { i.args = []string{"--nodes", "20"} }, []string{"error postgres-connections"}},
		{"few connections of a role", func(i *installation) {
			testkit.NoError(i, dbtest.Exec(i.restrict(), "ALTER ROLE "+i.role()+" CONNECTION LIMIT 10"))
		}, []string{"error postgres-connections"}},
		{"a key in the folder alone", func(i *installation) {
			delete(i.settings, "TALLYGATE_SECRET")
			onlyForOwner(i.T, i.settings["TALLYGATE_DATA_DIR"])
		}, []string{"warning key-in-folder"}},
		{"a pooler without a direct address", func(i *installation) {
			set("DATABASE_URL", startPooler(i.T, i.settings["TALLYGATE_DATABASE_URL"]))(i)
		}, []string{"error postgres-pooler"}},
		{"a direct address that leads to the pooler", func(i *installation) {
			pooler := startPooler(i.T, i.settings["TALLYGATE_DATABASE_URL"])
			set("DATABASE_URL", pooler, "DATABASE_DIRECT_URL", pooler)(i)
		}, []string{"error postgres-pooler"}},
		{"a direct address that leads nowhere", set("DATABASE_DIRECT_URL", "postgres://tallygate@127.0.0.1:1/x"), []string{"error postgres-direct"}},
		{"a direct address of another database", func(i *installation) { set("DATABASE_DIRECT_URL", i.server.URL())(i) },
			[]string{"error postgres-direct-other"}},
		{"addresses of cells that are right", func(i *installation) {
			i.addCell()
			set("CELL_ADDRESSES", "2="+i.settings["TALLYGATE_DATABASE_URL"])(i)
		}, nil},
		{"an address of a cell that does not exist", func(i *installation) {
			set("CELL_ADDRESSES", "2="+i.settings["TALLYGATE_DATABASE_URL"])(i)
		}, []string{"error cell-unknown"}},
		{"an address of a cell that leads nowhere", func(i *installation) {
			i.addCell()
			set("CELL_ADDRESSES", "2=postgres://tallygate:"+password+"@127.0.0.1:1/x")(i)
		}, []string{"error cell-unreachable"}},
		{"an address of a cell of another database", func(i *installation) {
			i.addCell()
			set("CELL_ADDRESSES", "2="+i.server.URL())(i)
		}, []string{"error cell-other-database"}},
		{"an address of a cell without its tables", func(i *installation) {
			i.addCell()
			i.exec("DROP TABLE cell_2.site_usage")
			set("CELL_ADDRESSES", "2="+i.settings["TALLYGATE_DATABASE_URL"])(i)
		}, []string{"error cell-tables"}},
		{"a server that risks its data", func(i *installation) {
			i.server = startPostgres(i.T, false)
			for _, setting := range []string{"full_page_writes", "autovacuum"} {
				i.query("ALTER SYSTEM SET " + setting + " = off")
			}
			i.server.Crash()
			testkit.NoError(i, i.server.Restart())
			i.settings = onPostgres(i.T, i.server).settings
		}, []string{"error postgres-fsync", "error postgres-full-page-writes", "warning postgres-autovacuum"}},
	}, func(t *testing.T) *installation { return onPostgres(t, server) })
}
