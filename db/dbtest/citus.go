package dbtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// citusVariable is the address of the coordinator of a Citus cluster, which the value "citus" of
// cellVariable needs. Its user may create databases on all nodes.
const citusVariable = "TALLYGATE_TEST_CITUS_URL"

// citusTemplate is this process's migrated database, with a cell that is a distributed schema.
var citusTemplate struct {
	once  sync.Once
	nodes []string // addresses without a database, the coordinator first
	name  string
	err   error
}

var citusDatabases atomic.Int64

// citusURL returns the address of a fresh database of the cluster.
func citusURL(tb testing.TB) string {
	tb.Helper()
	coordinator := os.Getenv(citusVariable)
	if coordinator == "" {
		Missing(tb, citusVariable+" names no Citus cluster")
	}

	c := &citusTemplate
	c.once.Do(func() { c.err = createCitusTemplate(coordinator) })
	if c.err != nil {
		tb.Fatalf("migrate a Citus database: %v", c.err)
	}

	name := fmt.Sprintf("%s_%d", c.name, citusDatabases.Add(1))
	if err := onNodes(context.Background(), "CREATE DATABASE "+name+" TEMPLATE "+c.name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := onNodes(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return c.nodes[0] + name
}

// createCitusTemplate creates a database on all nodes, and migrates it.
func createCitusTemplate(coordinator string) error {
	ctx, c := context.Background(), &citusTemplate
	u, err := url.Parse(coordinator)
	if err != nil {
		return err
	}

	conn, err := pgx.Connect(ctx, coordinator)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY groupid")
	if err != nil {
		return err
	}
	workers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	hosts := append([]string{u.Host}, workers...)
	for _, host := range hosts {
		node := url.URL{Scheme: "postgres", User: u.User, Host: host, Path: "/"}
		c.nodes = append(c.nodes, node.String())
	}
	c.name = fmt.Sprintf("tallygate_test_%d", os.Getpid())

	if err := onNodes(ctx, "CREATE DATABASE "+c.name); err != nil {
		return err
	}
	for _, node := range c.nodes {
		if err := onNode(ctx, node+c.name, "CREATE EXTENSION citus"); err != nil {
			return err
		}
	}
	host, port, _ := strings.Cut(u.Host, ":")
	join := []string{fmt.Sprintf("SELECT citus_set_coordinator_host('%s', %s)", host, port)}
	for _, worker := range workers {
		host, port, _ := strings.Cut(worker, ":")
		join = append(join, fmt.Sprintf("SELECT citus_add_node('%s', %s)", host, port))
	}
	for _, statement := range join {
		if err := onNode(ctx, c.nodes[0]+c.name, statement); err != nil {
			return err
		}
	}

	d, err := db.Open(c.nodes[0] + c.name)
	if err != nil {
		return err
	}
	err = d.Migrate(ctx, time.Now)
	if err == nil {
		_, err = AddCell(ctx, d, model.At(time.Now()))
	}
	if err == nil {
		err = ensurePartitions(ctx, d)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}

	// Citus keeps sessions of its own, and a database with sessions cannot be copied.
	if err := onNodes(ctx, "ALTER DATABASE "+c.name+" WITH ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	return onNodes(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+c.name+"'")
}

// stopCitus drops the template.
func stopCitus() {
	if c := &citusTemplate; c.name != "" {
		if err := onNodes(context.Background(), "DROP DATABASE IF EXISTS "+c.name+" WITH (FORCE)"); err != nil {
			fmt.Fprintln(os.Stderr, "drop the Citus template:", err)
		}
	}
}

// onNodes runs a statement on each node, outside of the databases of tests.
func onNodes(ctx context.Context, statement string) error {
	for _, node := range citusTemplate.nodes {
		if err := onNode(ctx, node+"postgres", statement); err != nil {
			return err
		}
	}
	return nil
}

func onNode(ctx context.Context, address, statement string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)

	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}
