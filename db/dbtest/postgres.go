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
	return m.Run()
}

// private is the test process's own PostgreSQL, started by the first test that wants it.
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

// RestartPostgres ends the private PostgreSQL as a crash would and starts it again on the same
// port. The databases stay. It skips the test when the server is somebody else's.
func RestartPostgres(tb testing.TB) {
	tb.Helper()
	if private.server == nil {
		tb.Skip("skipped: the PostgreSQL of TALLYGATE_TEST_POSTGRES_URL is not ours to restart")
	}

	private.server.Crash()

	if err := private.server.Restart(); err != nil {
		tb.Fatalf("start PostgreSQL again: %v", err)
	}
}

// StopPostgres ends the private PostgreSQL as a crash would. The returned function, which the test
// calls, starts it again on the same port. The databases stay. It skips the test when the server is
// another one's.
func StopPostgres(tb testing.TB) (start func()) {
	tb.Helper()

	if private.server == nil {
		tb.Skip("skipped: the PostgreSQL of TALLYGATE_TEST_POSTGRES_URL is not ours to stop")
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

// isBenchmark reports whether benchmarks run: they pay for real commits. Tests do not: in them only
// processes die.
func isBenchmark() bool {
	f := flag.Lookup("test.bench")
	return f != nil && f.Value.String() != ""
}
