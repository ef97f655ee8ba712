package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/pgserver"
)

// asProgram makes the test binary behave as the program itself, so that it can start the empty
// handler.
const asProgram = "LOADGEN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}

	// for those that we start
	if err := os.Setenv(asProgram, "1"); err != nil {
		panic(err)
	}

	code := dbtest.Run(m)

	if program.dir != "" {
		_ = os.RemoveAll(program.dir)
	}

	os.Exit(code)
}

// program is the tallygate that the tests start, built by the first one that wants it.
var program struct {
	once sync.Once
	dir  string
	err  error
}

func tallygate(t *testing.T) string {
	t.Helper()

	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "loadgen-test-"); program.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program.dir, "../tallygate").CombinedOutput()
		if err != nil {
			program.err = errors.New(string(out))
		}
	})

	if program.err != nil {
		t.Fatalf("build tallygate: %v", program.err)
	}

	return filepath.Join(program.dir, "tallygate")
}

// eachBench runs a test with a server that is not started yet, on SQLite and on PostgreSQL.
func eachBench(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, sqliteBench(t))
	})

	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		databaseURL := dbtest.PostgresURL(t)
		test(t, newTestBench(t, databaseURL))
	})
}

func sqliteBench(t *testing.T) *bench {
	t.Helper()
	return newTestBench(t, "")
}

func newTestBench(t *testing.T, databaseURL string) *bench {
	t.Helper()

	b := &bench{dir: t.TempDir(), database: databaseURL}
	data := filepath.Join(b.dir, "data")

	if databaseURL == "" {
		b.database = db.EmbeddedURL(data)
	}

	var err error
	if b.server, err = newTallygate(tallygate(t), data, databaseURL); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(b.server.kill)
	return b
}

func (b *bench) mustStart(t *testing.T) {
	t.Helper()
	if err := b.server.start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// exec runs a statement behind the server's back.
func (b *bench) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if err := b.withDatabase(func(d *db.DB) error { return dbtest.Exec(d, statement, args...) }); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// newTestScene is a scene with everything on.
func newTestScene(t *testing.T, b *bench, f trafficFlags) *scene {
	t.Helper()
	s, err := newOwnScene(t.Context(), b, &f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// quiet is a terminal that nobody reads.
func quiet() terminal { return terminal{out: io.Discard, log: io.Discard} }

// requirePrograms makes the test depend on the server programs that it starts itself.
func requirePrograms(t *testing.T) {
	t.Helper()
	if _, err := pgserver.Bin(); err != nil {
		dbtest.Missing(t, "PostgreSQL's server programs are not installed: "+err.Error())
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		dbtest.Missing(t, "redis-server is not installed")
	}
}
