package db_test

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestStartAdvice prepares databases that a server refuses, and checks that the operator reads what
// to do.
func TestStartAdvice(t *testing.T) {
	t.Parallel()
	admin := dbtest.Open(t, dbtest.PostgresURL(t))
	run := func(format string, names ...any) {
		t.Helper()
		if _, err := admin.Write.ExecContext(t.Context(), fmt.Sprintf(format, names...)); err != nil {
			t.Fatal(err)
		}
	}

	own, err := url.Parse(dbtest.PostgresURL(t))
	testkit.NoError(t, err)
	name := "advice_" + strings.ToLower(rand.Text()[:10])
	at := func(suffix, user string) string {
		to := *own
		to.Path = "/" + name + suffix
		if user != "" {
			to.User = url.UserPassword(user, "none")
		}
		return to.String()
	}
	for _, suffix := range []string{"_ascii", "_old", "_closed"} {
		encoding := map[string]string{"_ascii": "SQL_ASCII"}[suffix]
		if encoding == "" {
			encoding = "UTF8"
		}
		run(`CREATE DATABASE "%s%s" ENCODING '%s' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`, name, suffix, encoding)
		t.Cleanup(func() {
			_, _ = admin.Write.Exec(fmt.Sprintf(`DROP DATABASE IF EXISTS "%s%s" WITH (FORCE)`, name, suffix))
		})
	}
	run(`ALTER DATABASE "%s_old" SET standard_conforming_strings = off`, name)
	run(`CREATE ROLE "%s" LOGIN PASSWORD 'none'`, name)
	t.Cleanup(func() { _, _ = admin.Write.Exec(fmt.Sprintf(`DROP ROLE IF EXISTS "%s"`, name)) })

	for _, test := range []struct{ name, address, want string }{
		{"an encoding that is not UTF-8", at("_ascii", ""), "ENCODING 'UTF8'"},
		{"strings with escapes", at("_old", ""), "standard_conforming_strings = on"},
		{"a role that creates no tables", at("_closed", name), "GRANT CREATE"},
		{"no database", at("_missing", ""), "CREATE DATABASE"},
	} {
		d, err := db.Open(test.address)
		testkit.NoError(t, err)
		err = migrations.Apply(t.Context(), d)
		if err == nil || !strings.Contains(db.StartAdvice(err), test.want) {
			t.Errorf("%s: %v; advice %q", test.name, err, db.StartAdvice(err))
		}
		d.Close()
	}
}
