package dbtest

import (
	"context"
	"crypto/rand"
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
	"github.com/tallygate/tallygate/tools/testkit"
)

// citusVariable is the address of a database of the coordinator of a Citus cluster, on which the
// subtests "postgres" run then: their second cell is a distributed schema. All workers have a
// database of that name, also with the extension. The user may create databases on all nodes.
const citusVariable = "TALLYGATE_TEST_CITUS_URL"

func onCitus() bool { return os.Getenv(citusVariable) != "" }

// citusCluster is a cluster, with the databases of this process.
//
// Each test gets copies of the nodes' template databases. The next ones are copied while the test
// runs. The copies know the same nodes of the cluster, but each other by their own name: Citus
// connects to the database of the same name on the other nodes.
//
// Databases are created and dropped in a database with the extension. Otherwise Citus would not
// notice that a database is dropped: its maintenance daemon would be restarted for ever, and these
// daemons would use up the workers (max_worker_processes).
type citusCluster struct {
	once     sync.Once
	err      error
	nodes    []*pgx.Conn // the coordinator's first
	url      *url.URL    // of the coordinator
	template string
	prefix   string // of the names of this process's databases

	mu    sync.Mutex // of the connections and the fields below
	count int        // of the databases that were created
	next  chan citusDatabase
}

var citus citusCluster

// citusDatabase is a database that was created for a test.
type citusDatabase struct {
	name string
	err  error
}

// citusURL returns the address of a fresh database of the cluster.
func citusURL(tb testing.TB) string {
	tb.Helper()
	c := connected(tb)
	created := c.take()
	if created.err != nil {
		tb.Fatal(created.err)
	}
	c.dropAfter(tb, created.name)
	return c.address(created.name)
}

// EmptyCitusURL returns the address of a database of the Citus cluster that was never migrated. It
// skips the test in other runs than on Citus.
func EmptyCitusURL(tb testing.TB) string {
	tb.Helper()
	if !onCitus() {
		tb.Skip(testkit.OnCitus + citusVariable + " is not set")
	}

	c := connected(tb)
	name := "tallygate_test_" + strings.ToLower(rand.Text()[:8])
	testkit.NoError(tb, c.exec("CREATE DATABASE "+name))
	c.dropAfter(tb, name)
	testkit.NoError(tb, c.join(tb.Context(), name))
	return c.address(name)
}

// connected returns the cluster with connections to its nodes and the template.
func connected(tb testing.TB) *citusCluster {
	tb.Helper()
	c := &citus
	c.once.Do(func() { c.err = c.prepare(tb.Context(), os.Getenv(citusVariable)) })
	if c.err != nil {
		tb.Fatalf("prepare the Citus cluster: %v", c.err)
	}
	return c
}

// dropAfter drops a database after the test.
func (c *citusCluster) dropAfter(tb testing.TB, name string) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := c.drop(name); err != nil {
			tb.Error(err)
		}
	})
}

// take returns a fresh database, and begins to create the next one.
func (c *citusCluster) take() citusDatabase {
	c.mu.Lock()
	next := c.next
	c.next = make(chan citusDatabase, 1)
	go c.create(c.next)
	c.mu.Unlock()

	if next == nil {
		next = make(chan citusDatabase, 1)
		c.create(next)
	}
	return <-next
}

// create creates a database, and sends it to the channel.
func (c *citusCluster) create(created chan<- citusDatabase) {
	c.mu.Lock()
	c.count++
	name := fmt.Sprintf("%s_%d", c.prefix, c.count)
	c.mu.Unlock()

	created <- citusDatabase{name, c.exec("CREATE DATABASE " + name + " TEMPLATE " + c.template)}
}

// prepare connects to all nodes, and creates the template unless another process did.
func (c *citusCluster) prepare(ctx context.Context, coordinator string) (err error) {
	if c.url, err = url.Parse(coordinator); err != nil {
		return err
	}
	if err := c.connect(ctx, coordinator); err != nil {
		return err
	}

	c.prefix = "tallygate_test_" + strings.ToLower(rand.Text()[:8])
	migrations, err := migrator{}.Hash()
	if err != nil {
		return err
	}
	c.template = "tallygate_template_" + migrations + "_" + cells.LayoutHash()

	// Many processes begin at once. A session that ends loses the lock.
	const lock = "(hashtext('tallygate template'))"
	if _, err := c.nodes[0].Exec(ctx, "SELECT pg_advisory_lock"+lock); err != nil {
		return err
	}
	var exists bool
	err = c.nodes[0].QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", c.template).Scan(&exists)
	if err == nil && !exists {
		err = c.createTemplate(ctx)
	}
	_, unlockErr := c.nodes[0].Exec(ctx, "SELECT pg_advisory_unlock"+lock)
	return errors.Join(err, unlockErr)
}

// connect connects to all nodes.
func (c *citusCluster) connect(ctx context.Context, coordinator string) error {
	conn, err := pgx.Connect(ctx, coordinator)
	if err != nil {
		return err
	}
	c.nodes = append(c.nodes, conn)

	rows, err := conn.Query(ctx, "SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY groupid")
	if err != nil {
		return err
	}
	workers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	for _, worker := range workers {
		node := *c.url
		node.Host = worker
		conn, err := pgx.Connect(ctx, node.String())
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, conn)
	}
	return nil
}

// createTemplate creates the template: a migrated database with a cell that is a distributed
// schema. It is itself a copy, because nothing may have a session of a database that is copied, and
// Citus keeps sessions of each database that was ever used.
func (c *citusCluster) createTemplate(ctx context.Context) error {
	first := c.prefix + "_template"
	if err := c.exec("CREATE DATABASE " + first); err != nil {
		return err
	}

	err := c.migrate(ctx, first)
	if err == nil {
		err = c.exec("ALTER DATABASE " + first + " WITH ALLOW_CONNECTIONS false")
	}
	if err == nil {
		err = c.exec("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '" + first + "'")
	}

	// The coordinator's comes last: processes look for it.
	for i := len(c.nodes) - 1; i >= 0 && err == nil; i-- {
		_, err = c.nodes[i].Exec(ctx, "CREATE DATABASE "+c.template+" TEMPLATE "+first)
	}
	return errors.Join(err, c.drop(first))
}

// migrate makes a database of all nodes one of the cluster, migrates it, and adds a cell.
func (c *citusCluster) migrate(ctx context.Context, name string) error {
	if err := c.join(ctx, name); err != nil {
		return err
	}
	d, err := db.Open(c.address(name))
	if err != nil {
		return err
	}

	err = migrations.Apply(ctx, d)
	if err == nil {
		_, err = AddCell(ctx, d, model.At(time.Now()))
	}
	if err == nil {
		err = ensurePartitions(ctx, d)
	}
	return errors.Join(err, d.Close())
}

// join makes a database of all nodes one of the cluster.
func (c *citusCluster) join(ctx context.Context, name string) error {
	for _, node := range c.nodes {
		config := node.Config().Copy()
		config.Database = name
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE EXTENSION citus")
		if err := errors.Join(err, conn.Close(ctx)); err != nil {
			return err
		}
	}

	coordinator, err := pgx.Connect(ctx, c.address(name))
	if err != nil {
		return err
	}
	for i, node := range c.nodes {
		call := "SELECT citus_add_node($1, $2)"
		if i == 0 {
			call = "SELECT citus_set_coordinator_host($1, $2)"
		}
		config := node.Config()
		if _, err = coordinator.Exec(ctx, call, config.Host, int(config.Port)); err != nil {
			break
		}
	}
	return errors.Join(err, coordinator.Close(ctx))
}

// address returns the address of a database of the coordinator.
func (c *citusCluster) address(name string) string {
	u := *c.url
	u.Path = "/" + name
	return u.String()
}

// stop drops the database that no test took.
func (c *citusCluster) stop() {
	if c.next != nil {
		created := <-c.next
		if err := errors.Join(created.err, c.drop(created.name)); err != nil {
			fmt.Fprintln(os.Stderr, "drop a Citus database:", err)
		}
	}
	for _, node := range c.nodes {
		_ = node.Close(context.Background())
	}
}

// drop drops a database. A worker process of Citus may be about to start in it and outlive the
// sessions that PostgreSQL ends.
func (c *citusCluster) drop(name string) (err error) {
	for range 3 {
		if err = c.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err == nil {
			return nil
		}
	}
	return err
}

// exec runs a statement on all nodes at once.
func (c *citusCluster) exec(statement string) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	errs := make([]error, len(c.nodes))
	var wg sync.WaitGroup
	for i, node := range c.nodes {
		wg.Go(func() { _, errs[i] = node.Exec(context.Background(), statement) })
	}
	wg.Wait()

	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", strings.TrimSpace(statement), err)
	}
	return nil
}
