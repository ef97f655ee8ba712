package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// CitusDatabase is a database on all nodes of a Citus cluster that runs already. It is not safe for
// concurrent use.
type CitusDatabase struct {
	cluster url.URL  // the coordinator, with the user
	hosts   []string // host:port of each node, the coordinator first
	name    string
}

// CreateCitusDatabase creates an empty database on all nodes of the cluster with this coordinator.
// The user must be a superuser. The caller drops it.
func CreateCitusDatabase(ctx context.Context, coordinator, name string) (*CitusDatabase, error) {
	cluster, err := url.Parse(coordinator)
	if err != nil {
		return nil, errors.New("the address of the coordinator cannot be read")
	}

	c := &CitusDatabase{cluster: *cluster, name: name, hosts: []string{cluster.Host}}
	workers, err := rows[string](ctx, coordinator, "SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY groupid")
	if err != nil {
		return nil, fmt.Errorf("list the workers of Citus: %w", err)
	}
	c.hosts = append(c.hosts, workers...)

	if err := c.create(ctx); err != nil {
		return nil, errors.Join(err, c.Drop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *CitusDatabase) create(ctx context.Context) error {
	for _, host := range c.hosts {
		if err := run(ctx, c.url(host, "postgres"), "CREATE DATABASE "+pgx.Identifier{c.name}.Sanitize()); err != nil {
			return err
		}
		if err := run(ctx, c.NodeURL(host), "CREATE EXTENSION citus"); err != nil {
			return err
		}
	}

	for i, host := range c.hosts {
		statement := "SELECT citus_add_node(split_part($1, ':', 1), split_part($1, ':', 2)::int)"
		if i == 0 {
			statement = "SELECT citus_set_coordinator_host(split_part($1, ':', 1), split_part($1, ':', 2)::int)"
		}
		if err := run(ctx, c.URL(), statement, host); err != nil {
			return err
		}
	}
	return nil
}

// URL returns the address at the coordinator.
func (c *CitusDatabase) URL() string { return c.NodeURL(c.hosts[0]) }

// NodeURL returns the address at a node, or at what leads to one.
func (c *CitusDatabase) NodeURL(host string) string { return c.url(host, c.name) }

func (c *CitusDatabase) url(host, database string) string {
	u := c.cluster
	u.Host, u.Path = host, "/"+database
	return u.String()
}

// Workers returns host and port of each worker.
func (c *CitusDatabase) Workers() []string { return slices.Clone(c.hosts[1:]) }

// Coordinator returns host and port of the coordinator.
func (c *CitusDatabase) Coordinator() string { return c.hosts[0] }

// Pids returns the process ids of the nodes' main processes, which are on this machine.
func (c *CitusDatabase) Pids(ctx context.Context) (pids []int, err error) {
	for _, host := range c.hosts {
		pid, err := c.Pid(ctx, host)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Pid returns the process id of one node's main process, which is on this machine.
func (c *CitusDatabase) Pid(ctx context.Context, host string) (int, error) {
	pid, err := rows[int](ctx, c.NodeURL(host), `SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::int`)
	if err != nil {
		return 0, fmt.Errorf("process id of the node %s: %w", host, err)
	}
	return pid[0], nil
}

// Prepared returns how many transactions nodes have prepared for the two-phase commits of others,
// since the database was created. Transactions count after their session has ended.
func (c *CitusDatabase) Prepared(ctx context.Context) (sum int64, err error) {
	for _, host := range c.hosts {
		one, err := rows[int64](ctx, c.NodeURL(host), "SELECT n_tup_ins FROM pg_stat_all_tables WHERE relname = 'pg_dist_transaction'")
		if err != nil {
			return 0, fmt.Errorf("prepared transactions of the node %s: %w", host, err)
		}
		for _, n := range one {
			sum += n
		}
	}
	return sum, nil
}

// Ping connects to a node and closes the connection.
func (c *CitusDatabase) Ping(ctx context.Context, host string) error {
	conn, err := pgx.Connect(ctx, c.NodeURL(host))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// MoveSchema moves a distributed schema to another worker, online.
func (c *CitusDatabase) MoveSchema(ctx context.Context, schema, host string) error {
	if err := c.cleanUp(ctx); err != nil {
		return err
	}
	return run(ctx, c.URL(), "SELECT citus_schema_move($1::regnamespace, split_part($2, ':', 1), split_part($2, ':', 2)::int)", schema, host)
}

// cleanUp waits until Citus has dropped the tables that earlier moves left on the nodes they moved
// from. Citus cannot drop a table that a statement still reads, and refuses to move a table to a
// node that holds such a copy of it.
func (c *CitusDatabase) cleanUp(ctx context.Context) error {
	for {
		if err := run(ctx, c.URL(), "CALL citus_cleanup_orphaned_resources()"); err != nil {
			return err
		}
		left, err := rows[int](ctx, c.URL(), "SELECT count(*) FROM pg_dist_cleanup")
		if err != nil {
			return fmt.Errorf("tables left by moves of Citus: %w", err)
		}
		if left[0] == 0 {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("%d tables left by moves of Citus: %w", left[0], ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// MoveWorkers makes all nodes reach the workers at other addresses, given in the order of Workers.
func (c *CitusDatabase) MoveWorkers(ctx context.Context, hosts []string) error {
	for i, host := range hosts {
		err := run(ctx, c.URL(), `
SELECT citus_update_node(nodeid, split_part($1, ':', 1), split_part($1, ':', 2)::int) FROM pg_dist_node WHERE groupid = $2`, host, i+1)
		if err != nil {
			return fmt.Errorf("move the node %s: %w", host, err)
		}
	}
	return nil
}

// Drop removes the database from all nodes.
func (c *CitusDatabase) Drop(ctx context.Context) error {
	var failed []error
	for _, host := range c.hosts {
		failed = append(failed, run(ctx, c.url(host, "postgres"),
			"DROP DATABASE IF EXISTS "+pgx.Identifier{c.name}.Sanitize()+" WITH (FORCE)"))
	}
	return errors.Join(failed...)
}

func run(ctx context.Context, address, statement string, args ...any) error {
	_, err := rows[any](ctx, address, statement, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// rows runs a statement over a connection of its own, and returns the first column.
func rows[T any](ctx context.Context, address, statement string, args ...any) (values []T, err error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()

	found, err := conn.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[T])
}
