package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/redisserver"
)

// installation is everything that runs. The load balancer is in front of the data planes.
type installation struct {
	program  string
	dir      string
	citus    *pgserver.CitusDatabase
	redis    *redisserver.Cluster
	receiver *receiver
	proxy    *instance.HAProxy

	control *instance.Server
	data    []*instance.Server
	workers []*instance.Server
	cells   []cells.Info // the default one on the coordinator, and as many on each worker of Citus
}

const (
	cellCount   = 4 // in addition to the default one
	dataCount   = 2
	workerCount = 2
)

// install starts everything. The result may be incomplete; the caller closes it.
func (c *Command) install(ctx context.Context) (*installation, error) {
	i := &installation{program: c.Program}
	for _, step := range []func() error{
		func() (err error) { i.dir, err = os.MkdirTemp("", "tallygate-cluster-"); return err },
		func() (err error) {
			name := "tallygate_cluster_" + strings.TrimPrefix(filepath.Base(i.dir), "tallygate-cluster-")
			i.citus, err = pgserver.CreateCitusDatabase(ctx, c.Citus, name)
			return err
		},
		func() (err error) { i.redis, err = redisserver.StartCluster(ctx, i.dir); return err },
		func() (err error) { i.receiver, err = startReceiver(i.dir); return err },
		func() error { return i.startControl(ctx) },
		func() error { return i.addCells(ctx) },
		func() error { return i.startFleet(ctx, c.Addresses) },
		func() (err error) { i.proxy, err = instance.StartHAProxy(ctx, i.dir, i.data); return err },
	} {
		if err := step(); err != nil {
			return i, err
		}
	}
	return i, nil
}

// server prepares a process with the given roles.
func (i *installation) server(roles string) (*instance.Server, error) {
	s, err := instance.NewServer(i.program, filepath.Join(i.dir, "data"), i.citus.URL())
	if err != nil {
		return nil, err
	}
	maps.Copy(s.Env, map[string]string{
		"TALLYGATE_ROLES":              roles,
		"TALLYGATE_REDIS_URL":          i.redis.URL(),
		"TALLYGATE_WEBHOOK_ALLOW_NETS": "127.0.0.1",
		"TALLYGATE_WEBHOOK_CA_FILE":    i.receiver.authority,
	})
	return s, nil
}

// startControl starts the control plane, which migrates.
func (i *installation) startControl(ctx context.Context) (err error) {
	if i.control, err = i.server("control"); err != nil {
		return err
	}
	return i.control.Start(ctx)
}

// addCells adds cells, and waits until all processes know them.
func (i *installation) addCells(ctx context.Context) error {
	d, err := db.Open(i.citus.URL())
	if err != nil {
		return err
	}
	store := cells.New(d)
	for range cellCount {
		if err == nil {
			_, err = store.Add(ctx, model.At(time.Now()))
		}
	}
	if err == nil {
		i.cells, err = store.List(ctx)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(celllist.Delay):
		return nil
	}
}

// startFleet starts the data planes and the workers.
func (i *installation) startFleet(ctx context.Context, addresses bool) error {
	var at []string
	for _, cell := range i.onWorkers() {
		at = append(at, fmt.Sprintf("%d=%s", cell.ID, i.citus.NodeURL(cell.Node)))
	}

	for range dataCount {
		s, err := i.server("data")
		if err != nil {
			return err
		}
		s.Env["TALLYGATE_DRAIN_DELAY"] = "3s"
		if addresses {
			s.Env["TALLYGATE_CELL_ADDRESSES"] = strings.Join(at, ",")
		}
		i.data = append(i.data, s)
	}
	for range workerCount {
		s, err := i.server("worker")
		if err != nil {
			return err
		}
		port, err := pgserver.FreePort()
		if err != nil {
			return err
		}
		s.Env["TALLYGATE_HEALTH_ADDR"] = fmt.Sprintf("127.0.0.1:%d", port)
		i.workers = append(i.workers, s)
	}

	for _, s := range slices.Concat(i.data, i.workers) {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// onWorkers returns the cells on the workers of Citus.
func (i *installation) onWorkers() []cells.Info {
	return slices.DeleteFunc(slices.Clone(i.cells), func(cell cells.Info) bool { return cell.ID == db.DefaultCell })
}

// nodes returns host:port of the two workers of Citus that have cells.
func (i *installation) nodes() []string {
	var all []string
	for _, cell := range i.onWorkers() {
		if !slices.Contains(all, cell.Node) {
			all = append(all, cell.Node)
		}
	}
	return all
}

// cellID returns the number of a site's cell.
func (i *installation) cellID(ctx context.Context, siteKey string) (int64, error) {
	d, err := db.Open(i.citus.URL())
	if err != nil {
		return 0, err
	}
	site, err := sites.New(d).SiteRulesByKey(ctx, siteKey)
	if err := errors.Join(err, d.Close()); err != nil {
		return 0, err
	}
	return site.Cell, nil
}

// awaitMoves waits until no move of an account is in progress.
func (i *installation) awaitMoves(ctx context.Context) error {
	d, err := db.Open(i.citus.URL())
	if err != nil {
		return err
	}
	defer d.Close()

	ctx, cancel := context.WithTimeout(ctx, 2*instance.StartPatience)
	defer cancel()
	for {
		moving, err := d.Read.NewSelect().Table("account_moves").Exists(ctx)
		if !moving || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("an account is still being moved: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (i *installation) close() error {
	for _, s := range slices.Concat(i.data, i.workers, []*instance.Server{i.control}) {
		if s != nil {
			s.Kill()
		}
	}
	if i.proxy != nil {
		i.proxy.Stop()
	}
	if i.receiver != nil {
		i.receiver.server.Close()
	}
	if i.redis != nil {
		i.redis.Close()
	}

	var err error
	if i.citus != nil {
		err = i.citus.Drop(context.Background())
	}
	return errors.Join(err, os.RemoveAll(i.dir))
}
