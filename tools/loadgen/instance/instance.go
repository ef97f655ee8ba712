// Package instance starts private installations for load: one tallygate, or a fleet of processes
// behind HAProxy, on SQLite, PostgreSQL or a Citus cluster, with cells and a Redis; and the empty
// handler. It breaks and repairs their parts. It never touches servers that it did not start, but
// for the nodes of the caller's Citus cluster.
package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/redisserver"
)

// Instance is a private tallygate on this machine: a folder, a database and servers.
type Instance struct {
	Dir      string
	Postgres *pgserver.Server        // nil on SQLite and on Citus
	Citus    *pgserver.CitusDatabase // nil unless on Citus
	Database string                  // address, as db.Open takes it
	Server   *Server                 // the control plane and, alone, the data plane, too
	Nodes    []*Server               // further servers on the database
	Proxy    *HAProxy                // nil without a load balancer
	Redis    *redisserver.Server     // nil unless UseRedis was called
	Cells    []cells.Info            // as of AddCells
}

// New creates an empty database of an engine, sqlite or postgres, and prepares a server that is not
// started yet.
func New(program, engine string) (_ *Instance, err error) {
	b := &Instance{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()

	if b.Dir, err = os.MkdirTemp("", "tallygate-load-"); err != nil {
		return nil, err
	}
	data := filepath.Join(b.Dir, "data")
	if engine != "postgres" {
		b.Database = db.EmbeddedURL(data)
		b.Server, err = NewServer(program, data, "")
		return b, err
	}

	bin, err := pgserver.Bin()
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL's server programs are not installed: %w", err)
	}
	if b.Postgres, err = pgserver.Start(bin, pgserver.Options{Durable: true}); err != nil {
		return nil, err
	}
	b.Database = b.Postgres.URL()
	b.Server, err = NewServer(program, data, b.Database)
	return b, err
}

// NewOnCitus creates a database of its own on the Citus cluster with the coordinator's address, and
// prepares a server that is not started yet.
func NewOnCitus(ctx context.Context, program, coordinator string) (_ *Instance, err error) {
	b := &Instance{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()

	const prefix = "tallygate-citus-"
	if b.Dir, err = os.MkdirTemp("", prefix); err != nil {
		return nil, err
	}
	name := "tallygate_load_" + strings.TrimPrefix(filepath.Base(b.Dir), prefix)
	if b.Citus, err = pgserver.CreateCitusDatabase(ctx, coordinator, name); err != nil {
		return nil, err
	}
	b.Database = b.Citus.URL()
	b.Server, err = NewServer(program, filepath.Join(b.Dir, "data"), b.Database)
	return b, err
}

// Node prepares a further server on the instance's folder and database, for instance of another
// program or with other roles.
func (b *Instance) Node(program, roles string) (*Server, error) {
	first := b.Server.Env
	s, err := NewServer(program, first["TALLYGATE_DATA_DIR"], first["TALLYGATE_DATABASE_URL"])
	if err != nil {
		return nil, err
	}
	s.Env["TALLYGATE_ROLES"] = roles
	b.Nodes = append(b.Nodes, s)
	return s, nil
}

// StartProxy starts a load balancer in front of data nodes, which run.
func (b *Instance) StartProxy(ctx context.Context, nodes []*Server) (err error) {
	b.Proxy, err = startHAProxy(ctx, b.Dir, nodes)
	return err
}

// UseRedis starts a private Redis for the server, and adds the worker role, which uses it.
func (b *Instance) UseRedis(ctx context.Context) (err error) {
	if b.Redis, err = redisserver.New(b.Dir, "--appendonly", "no"); err != nil {
		return err
	}
	b.Server.Env["TALLYGATE_REDIS_URL"], b.Server.Env["TALLYGATE_ROLES"] = b.Redis.URL(), "control,data,worker"
	return b.Redis.Start(ctx)
}

// AddCells adds n cells. Unless shared, the default cell gets no site.
func (b *Instance) AddCells(ctx context.Context, n int, shared bool) error {
	return b.WithDatabase(func(d *db.DB) (err error) {
		store := cells.New(d)
		if !shared {
			if err := store.SetOpen(ctx, db.DefaultCell, false); err != nil {
				return err
			}
		}
		for range n {
			if _, err := store.Add(ctx, model.At(time.Now())); err != nil {
				return err
			}
		}
		b.Cells, err = store.List(ctx)
		return err
	})
}

// AwaitCells waits until all processes know the cells that were added.
func AwaitCells(ctx context.Context) error { return load.Wait(ctx, celllist.Delay) }

// CellsOnWorkers returns the cells on the workers of Citus.
func (b *Instance) CellsOnWorkers() []cells.Info {
	return slices.DeleteFunc(slices.Clone(b.Cells), func(cell cells.Info) bool { return cell.Node == "" })
}

// CellAddresses returns the value of TALLYGATE_CELL_ADDRESSES that connects a server to the worker
// of each cell, with the worker's host:port replaced by through unless that is nil.
func (b *Instance) CellAddresses(through func(host string) string) string {
	var all []string
	for _, cell := range b.CellsOnWorkers() {
		host := cell.Node
		if through != nil {
			host = through(host)
		}
		all = append(all, fmt.Sprintf("%d=%s", cell.ID, b.Citus.NodeURL(host)))
	}
	return strings.Join(all, ",")
}

// DatabasePids returns the main processes of the database.
func (b *Instance) DatabasePids(ctx context.Context) ([]int, error) {
	switch {
	case b.Citus != nil:
		return b.Citus.Pids(ctx)
	case b.Postgres != nil:
		return []int{b.Postgres.Pid()}, nil
	}
	return nil, nil
}

// WithDatabase opens the instance's database for one function.
func (b *Instance) WithDatabase(do func(*db.DB) error) error {
	d, err := db.Open(b.Database)
	if err != nil {
		return err
	}
	return errors.Join(do(d), d.Close())
}

// Close stops the servers and the database, and removes the folder and, on Citus, the database.
func (b *Instance) Close() (err error) {
	for _, s := range append(slices.Clone(b.Nodes), b.Server) {
		if s != nil {
			process.SignalFamily(s.Pid(), syscall.SIGKILL)
			s.Kill()
		}
	}
	if b.Proxy != nil {
		b.Proxy.Kill()
	}
	if b.Redis != nil {
		b.Redis.Close()
	}

	if b.Postgres != nil {
		b.Postgres.Stop()
	}
	if b.Citus != nil {
		err = b.Citus.Drop(context.Background())
	}
	return errors.Join(err, os.RemoveAll(b.Dir))
}
