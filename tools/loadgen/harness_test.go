package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	// The key of go test's cache then covers the whole program, which these tests do not import.
	_ "github.com/tallygate/tallygate/cmd/tallygate/command"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/program"
)

// asProgram is the environment variable that makes the test binary behave as the program, so that
// it can start the empty handler.
const asProgram = "LOADGEN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}

	// Child processes inherit it.
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}

	code := dbtest.Run(m)
	program.Remove()
	os.Exit(code)
}

// tallygate returns the program that the tests start.
func tallygate(t *testing.T) string {
	t.Helper()
	path, err := program.Path()
	testkit.NoError(t, err)
	return path
}

// eachInstance runs a test on SQLite and on PostgreSQL, with a server that is not started yet.
func eachInstance(t *testing.T, test func(t *testing.T, b *instance.Instance)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, sqliteInstance(t))
	})

	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		databaseURL := dbtest.PostgresURL(t)
		test(t, newTestInstance(t, databaseURL))
	})
}

func sqliteInstance(t *testing.T) *instance.Instance {
	t.Helper()
	return newTestInstance(t, "")
}

func newTestInstance(t *testing.T, databaseURL string) *instance.Instance {
	t.Helper()

	b := &instance.Instance{Dir: t.TempDir(), Database: databaseURL}
	data := filepath.Join(b.Dir, "data")

	if databaseURL == "" {
		b.Database = db.EmbeddedURL(data)
	}

	var err error
	if b.Server, err = instance.NewServer(tallygate(t), data, databaseURL); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(b.Server.Kill)
	return b
}

func mustStart(t *testing.T, b *instance.Instance) {
	t.Helper()
	testkit.NoError(t, b.Server.Start(t.Context()))
}

// execSQL runs a statement directly on the server's database.
func execSQL(t *testing.T, b *instance.Instance, statement string, args ...any) {
	t.Helper()
	if err := b.WithDatabase(func(d *db.DB) error { return dbtest.Exec(d, statement, args...) }); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// newTestSession returns a session with all features.
func newTestSession(t *testing.T, b *instance.Instance, f traffic.Flags) *traffic.Session {
	t.Helper()
	s, err := traffic.NewOwnSession(t.Context(), b.Server.Target(), &f)
	testkit.NoError(t, err)
	return s
}

// quiet returns a terminal that discards all output.
func quiet() report.Terminal { return report.Terminal{Out: io.Discard, Log: io.Discard} }

// requirePrograms skips the test, or fails it in CI, unless the server programs that it starts are
// installed.
func requirePrograms(t *testing.T) {
	t.Helper()
	if _, err := pgserver.Bin(); err != nil {
		testkit.Missing(t, "PostgreSQL's server programs are not installed: "+err.Error())
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		testkit.Missing(t, "redis-server is not installed")
	}
}
