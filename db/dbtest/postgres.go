package dbtest

import (
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db/pgserver"
)

// Run runs a package's tests and then stops what they started. Packages that use PostgreSQL call it
// from TestMain.
func Run(m *testing.M) int {
	flag.Parse()
	defer private.stop()
	defer citus.stop()
	return m.Run()
}

// private is the test process's own PostgreSQL. The first test that needs it starts it.
var private privateServer

type privateServer struct {
	once   sync.Once
	server *pgserver.Server
	err    error
}

func (p *privateServer) stop() {
	if p.server != nil {
		p.server.Stop()
	}
}

// RestartPostgres crashes the private PostgreSQL and starts it again on the same port. Its
// databases stay. It skips the test when the server is not a private one.
func RestartPostgres(tb testing.TB) {
	tb.Helper()
	if private.server == nil {
		tb.Skip("skipped: the PostgreSQL of TALLYGATE_TEST_POSTGRES_URL must not be restarted")
	}

	private.server.Crash()

	if err := private.server.Restart(); err != nil {
		tb.Fatalf("start PostgreSQL again: %v", err)
	}
}

// StopPostgres crashes the private PostgreSQL. The test must call the returned function, which
// starts the server again on the same port. Its databases stay. It skips the test when the server
// is not a private one.
func StopPostgres(tb testing.TB) (start func()) {
	tb.Helper()

	if private.server == nil {
		tb.Skip("skipped: the PostgreSQL of TALLYGATE_TEST_POSTGRES_URL must not be stopped")
	}

	private.server.Crash()
	start = sync.OnceFunc(func() {
		if err := private.server.Restart(); err != nil {
			tb.Errorf("start PostgreSQL again: %v", err)
		}
	})

	tb.Cleanup(start)
	return start
}

func postgresServer(tb testing.TB) string {
	tb.Helper()

	if u := os.Getenv("TALLYGATE_TEST_POSTGRES_URL"); u != "" {
		return u
	}

	bin, err := pgserver.Bin()
	if err != nil {
		Missing(tb, "PostgreSQL's server programs (initdb, postgres) are not installed: "+err.Error())
	}

	private.once.Do(func() { private.server, private.err = pgserver.Start(bin, pgserver.Options{Durable: isBenchmark()}) })

	if private.err != nil {
		tb.Fatalf("start a private PostgreSQL: %v", private.err)
	}

	return private.server.URL()
}

// isBenchmark reports whether benchmarks run. They measure durable commits. Tests do not need them:
// in tests only processes are killed.
func isBenchmark() bool {
	f := flag.Lookup("test.bench")
	return f != nil && f.Value.String() != ""
}
