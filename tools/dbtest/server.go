package dbtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/testkit"
)

// server is where this process creates the databases of its tests: a PostgreSQL server, or all
// nodes of a Citus cluster at once. It keeps its connections, because each new one costs a sixth
// of what a database costs.
type server struct {
	cluster bool // of Citus

	once   sync.Once
	err    error
	url    *url.URL // of the only node, or of the coordinator
	prefix string   // of the names of this process's databases

	mu    sync.Mutex  // of the connections and the count
	nodes []*pgx.Conn // the coordinator's first
	count int         // of the databases that were created
}

var (
	plain server
	citus = server{cluster: true}
)

// connected returns the server with its connections. Find returns its address.
func (s *server) connected(tb testing.TB, find func(testing.TB) string) *server {
	tb.Helper()
	address := find(tb)
	s.once.Do(func() { s.err = s.connect(context.Background(), address) })
	if s.err != nil {
		tb.Fatalf("connect to the PostgreSQL of the tests: %v", s.err)
	}
	return s
}

// connect connects to the server, and to the other nodes on Citus.
func (s *server) connect(ctx context.Context, address string) (err error) {
	if s.url, err = url.Parse(address); err != nil {
		return err
	}
	s.prefix = "tallygate_test_" + strings.ToLower(rand.Text()[:8])

	first, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	s.nodes = append(s.nodes, first)
	if !s.cluster {
		return nil
	}
	return s.connectWorkers(ctx)
}

// close closes the connections.
func (s *server) close() {
	for _, node := range s.nodes {
		_ = node.Close(context.Background())
	}
}

// create creates a database of the test: a copy of a template, or an empty one without a name.
func (s *server) create(template string) (name string, err error) {
	s.mu.Lock()
	s.count++
	name = fmt.Sprintf("%s_%d", s.prefix, s.count)
	s.mu.Unlock()

	statement := "CREATE DATABASE " + name
	if template != "" {
		statement += copyOf(template)
	}
	return name, s.exec(statement)
}

// copyOf completes CREATE DATABASE. To copy the files takes two thirds of the processor time of
// PostgreSQL's default, which writes each page to the log.
func copyOf(template string) string { return " TEMPLATE " + template + " STRATEGY FILE_COPY" }

// address returns the address of a database.
func (s *server) address(name string) string {
	u := *s.url
	u.Path = "/" + name
	return u.String()
}

// dropAfter drops a database after the test.
func (s *server) dropAfter(tb testing.TB, name string) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := s.drop(name); err != nil {
			tb.Error(err)
		}
	})
}

// drop drops a database. Sessions that a test left open end. A worker process of Citus may be about
// to start in it and outlive the sessions that PostgreSQL ends.
func (s *server) drop(name string) (err error) {
	for range 3 {
		if err = s.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err == nil {
			return nil
		}
	}
	return err
}

// exec runs a statement on all nodes at once.
func (s *server) exec(statement string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	errs := make([]error, len(s.nodes))
	var wg sync.WaitGroup
	for i, node := range s.nodes {
		wg.Go(func() { _, errs[i] = node.Exec(context.Background(), statement) })
	}
	wg.Wait()

	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// execOn runs a statement on one node.
func (s *server) execOn(node int, statement string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.nodes[node].Exec(context.Background(), statement)
	return err
}

// exists reports whether the server, or the coordinator, has a database.
func (s *server) exists(ctx context.Context, name string) (found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.nodes[0].QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", name).Scan(&found)
	return found, err
}

// template is a migrated database on a server. Tests get copies of it.
type template struct {
	once sync.Once
	err  error
	name string

	// migrate fills an empty database.
	migrate func(ctx context.Context, s *server, name string) error

	next chan created // on Citus: copied while the test before runs
}

// created is a database that was created for a test.
type created struct {
	name string
	err  error
}

var (
	migrated    = &template{migrate: migrate}
	secondCell  = &template{migrate: migrateWithCell}
	distributed = &template{migrate: migrateDistributed}
)

// copyURL returns the address of a fresh copy, which ends with the test.
func (t *template) copyURL(tb testing.TB, s *server, kind string) string {
	tb.Helper()
	t.once.Do(func() { t.err = t.prepare(context.Background(), s, kind) })
	if t.err != nil {
		tb.Fatalf("migrate a PostgreSQL database: %v", t.err)
	}

	copied := t.take(s)
	if copied.err != nil {
		tb.Fatal(copied.err)
	}
	s.dropAfter(tb, copied.name)
	return s.address(copied.name)
}

// take returns a fresh copy. On Citus, where a copy takes a second, the next one begins at once.
func (t *template) take(s *server) created {
	if !s.cluster {
		name, err := s.create(t.name)
		return created{name, err}
	}

	s.mu.Lock()
	next := t.next
	t.next = make(chan created, 1)
	go t.send(s, t.next)
	s.mu.Unlock()

	if next == nil {
		next = make(chan created, 1)
		t.send(s, next)
	}
	return <-next
}

func (t *template) send(s *server, next chan<- created) {
	name, err := s.create(t.name)
	next <- created{name, err}
}

// dropNext drops the copy that no test took.
func (t *template) dropNext(s *server) {
	if t.next == nil {
		return
	}
	copied := <-t.next
	if err := errors.Join(copied.err, s.drop(copied.name)); err != nil {
		fmt.Fprintln(os.Stderr, "drop a database:", err)
	}
}

// prepare names the template, and creates it unless another process did. It has the partitions of
// the current month, so each month needs another one.
func (t *template) prepare(ctx context.Context, s *server, kind string) error {
	hash := sha256.Sum256(fmt.Append(nil, migrations.Hash(), cells.LayoutHash(), model.At(time.Now()).Month()))
	t.name = "tallygate_template_" + kind + hex.EncodeToString(hash[:8])

	// Many processes begin at once. A session that ends loses the lock.
	const lock = "(hashtext('tallygate template'))"
	if err := s.execOn(0, "SELECT pg_advisory_lock"+lock); err != nil {
		return err
	}

	exists, err := s.exists(ctx, t.name)
	if err == nil && !exists {
		err = t.create(ctx, s)
	}
	return errors.Join(err, s.execOn(0, "SELECT pg_advisory_unlock"+lock))
}

// create creates the template. It is itself a copy, because nothing may have a session of a
// database that is copied, and Citus keeps sessions of each database that was ever used.
func (t *template) create(ctx context.Context, s *server) error {
	first, err := s.create("")
	if err == nil {
		err = t.migrate(ctx, s, first)
	}
	if err == nil {
		err = s.exec("ALTER DATABASE " + first + " WITH ALLOW_CONNECTIONS false")
	}
	if err == nil {
		err = s.exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + first + "'")
	}

	// The coordinator's comes last: processes look for it.
	for i := len(s.nodes) - 1; i >= 0 && err == nil; i-- {
		err = s.execOn(i, "CREATE DATABASE "+t.name+copyOf(first))
	}
	return errors.Join(err, s.drop(first))
}

// migrate applies the product's migrations, creates partitions, and adds columns of a newer
// program.
func migrate(ctx context.Context, s *server, name string) error {
	return change(s, name, func(d *db.DB) error {
		if err := migrations.Apply(ctx, d); err != nil {
			return err
		}
		return errors.Join(ensurePartitions(ctx, d), addLaterColumns(ctx, d))
	})
}

// migrateWithCell is migrate, and adds a second cell.
func migrateWithCell(ctx context.Context, s *server, name string) error {
	if err := migrate(ctx, s, name); err != nil {
		return err
	}
	return change(s, name, func(d *db.DB) error { return addTestCell(ctx, d) })
}

// addTestCell adds a cell with the partitions of tests.
func addTestCell(ctx context.Context, d *db.DB) error {
	if _, err := AddCell(ctx, d, model.At(time.Now())); err != nil {
		return fmt.Errorf("add a second cell: %w", err)
	}
	return ensurePartitions(ctx, d)
}

// change opens a database for work, and closes it.
func change(s *server, name string, work func(d *db.DB) error) error {
	d, err := db.Open(s.address(name))
	if err != nil {
		return err
	}
	return errors.Join(work(d), d.Close())
}

// ensurePartitions creates the partitions of this month and of the simulated clock's month.
func ensurePartitions(ctx context.Context, d *db.DB) error {
	for _, now := range []time.Time{clock, time.Now()} {
		if err := retention.New(d).EnsurePartitions(ctx, model.At(now)); err != nil {
			return err
		}
	}
	return nil
}

// clock is the date of tests with a simulated clock: its months also have partitions.
var clock = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

// emptyURL returns the address of a database that was never migrated, which ends with the test.
func (s *server) emptyURL(tb testing.TB) string {
	tb.Helper()
	name, err := s.create("")
	testkit.NoError(tb, err)
	s.dropAfter(tb, name)
	return s.address(name)
}
