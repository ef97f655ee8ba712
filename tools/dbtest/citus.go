package dbtest

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/testkit"
)

// citusVariable is the address of a database of the coordinator of a Citus cluster, on which the
// subtests "postgres" run then: their second cell is a distributed schema. All workers have a
// database of that name, also with the extension. The user may create databases on all nodes.
//
// The copies of a template know the same nodes of the cluster, but each other by their own name:
// Citus connects to the database of the same name on the other nodes. Databases are created and
// dropped in a database with the extension. Otherwise Citus would not notice that a database is
// dropped: its maintenance daemon would be restarted for ever, and these daemons would use up the
// workers (max_worker_processes).
const citusVariable = "TALLYGATE_TEST_CITUS_URL"

func onCitus() bool { return os.Getenv(citusVariable) != "" }

func citusAddress(testing.TB) string { return os.Getenv(citusVariable) }

// EmptyCitusURL returns the address of a database of the Citus cluster that was never migrated. It
// skips the test in other runs than on Citus.
func EmptyCitusURL(tb testing.TB) string {
	tb.Helper()
	if !onCitus() {
		tb.Skip(testkit.OnCitus + citusVariable + " is not set")
	}

	s := citus.connected(tb, citusAddress)
	name, err := s.create("")
	testkit.NoError(tb, err)
	s.dropAfter(tb, name)
	testkit.NoError(tb, s.join(tb.Context(), name))
	return s.address(name)
}

// connectWorkers connects to the workers of the coordinator, which is the first node.
func (s *server) connectWorkers(ctx context.Context) error {
	rows, err := s.nodes[0].Query(ctx, "SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY groupid")
	if err != nil {
		return err
	}
	workers, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}

	for _, worker := range workers {
		node := *s.url
		node.Host = worker
		conn, err := pgx.Connect(ctx, node.String())
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, conn)
	}
	return nil
}

// migrateDistributed makes a database of all nodes one of the cluster, migrates it, and adds a cell.
func migrateDistributed(ctx context.Context, s *server, name string) error {
	if err := s.join(ctx, name); err != nil {
		return err
	}
	return change(s, name, func(d *db.DB) error {
		if err := migrations.Apply(ctx, d); err != nil {
			return err
		}
		return addTestCell(ctx, d)
	})
}

// join makes a database of all nodes one of the cluster.
func (s *server) join(ctx context.Context, name string) error {
	for _, node := range s.nodes {
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

	coordinator, err := pgx.Connect(ctx, s.address(name))
	if err != nil {
		return err
	}
	for i, node := range s.nodes {
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
