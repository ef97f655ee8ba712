package dbtest

import (
	"context"
	"errors"
	"flag"
	"os"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Run runs a package's tests and then stops what they started. Packages that use PostgreSQL call it
// from TestMain.
func Run(m *testing.M) int {
	flag.Parse()
	defer private.stop()
	defer plain.close()
	defer citus.close()
	defer distributed.dropNext(&citus)
	return m.Run()
}

// private is the PostgreSQL of a test process that has no TALLYGATE_TEST_POSTGRES_URL. The first
// test that needs it starts it.
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

// OwnPostgres is a PostgreSQL server of one test, which may crash it. Other tests share a server.
type OwnPostgres struct {
	tb     testing.TB
	server *pgserver.Server
}

// StartPostgres starts a server that ends with the test. It is without Citus, also in a run on
// Citus.
func StartPostgres(tb testing.TB) *OwnPostgres {
	tb.Helper()
	server, err := pgserver.Start(postgresBin(tb), pgserver.Options{})
	if err != nil {
		tb.Fatalf("start a PostgreSQL of the test's own: %v", err)
	}
	tb.Cleanup(server.Stop)
	return &OwnPostgres{tb: tb, server: server}
}

// URL returns the address of the server's only database, which it migrates.
func (p *OwnPostgres) URL() string {
	p.tb.Helper()
	d := Open(p.tb, p.server.URL())
	if err := errors.Join(migrations.Apply(context.Background(), d), ensurePartitions(context.Background(), d)); err != nil {
		p.tb.Fatalf("migrate a PostgreSQL database: %v", err)
	}
	return p.server.URL()
}

// DataDir returns the folder of the server's files.
func (p *OwnPostgres) DataDir() string { return p.server.DataDir() }

// Restart crashes the server and starts it again on the same port. Its database stays.
func (p *OwnPostgres) Restart() {
	p.tb.Helper()
	p.server.Crash()
	if err := p.server.Restart(); err != nil {
		p.tb.Fatalf("start PostgreSQL again: %v", err)
	}
}

// Crash crashes the server. The returned function starts it again on the same port, its database
// stays; otherwise the end of the test does.
func (p *OwnPostgres) Crash() (start func()) {
	p.server.Crash()
	start = sync.OnceFunc(func() {
		if err := p.server.Restart(); err != nil {
			p.tb.Errorf("start PostgreSQL again: %v", err)
		}
	})

	p.tb.Cleanup(start)
	return start
}

func postgresServer(tb testing.TB) string {
	tb.Helper()

	if u := os.Getenv("TALLYGATE_TEST_POSTGRES_URL"); u != "" {
		return u
	}

	bin := postgresBin(tb)
	private.once.Do(func() { private.server, private.err = pgserver.Start(bin, pgserver.Options{Durable: isBenchmark()}) })

	if private.err != nil {
		tb.Fatalf("start a private PostgreSQL: %v", private.err)
	}

	return private.server.URL()
}

// postgresBin returns the folder of PostgreSQL's programs. Without them the test is skipped, or
// fails when CI=true.
func postgresBin(tb testing.TB) string {
	tb.Helper()
	bin, err := pgserver.Bin()
	if err != nil {
		testkit.Missing(tb, "PostgreSQL's server programs (initdb, postgres) are not installed: "+err.Error())
	}
	return bin
}

// isBenchmark reports whether benchmarks run. They measure durable commits. Tests do not need them:
// in tests only processes are killed.
func isBenchmark() bool {
	f := flag.Lookup("test.bench")
	return f != nil && f.Value.String() != ""
}
