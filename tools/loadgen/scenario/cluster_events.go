package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/redisserver"
)

// clusterInstallation is the cluster with all that runs on it. The load balancer is in front of the
// data planes.
type clusterInstallation struct {
	in            *instance.Instance
	redis         *redisserver.Cluster
	receiver      *receiver
	data, workers []*instance.Server
}

const (
	cellCount   = 4 // in addition to the default one on the coordinator
	dataCount   = 2
	workerCount = 2
)

// install starts everything. After an error it may be incomplete; the caller closes it.
func (i *clusterInstallation) install(ctx context.Context, c *Cluster) (err error) {
	if i.in, err = instance.NewOnCitus(ctx, c.Program, c.Citus); err != nil {
		return err
	}
	if i.redis, err = redisserver.StartCluster(ctx, i.in.Dir, true); err != nil {
		return err
	}
	if i.receiver, err = startReceiver(i.in.Dir); err != nil {
		return err
	}

	// The control plane migrates.
	maps.Copy(i.in.Server.Env, i.settings("control"))
	if err := i.in.Server.Start(ctx); err != nil {
		return err
	}
	if err := errors.Join(i.in.AddCells(ctx, cellCount, true), instance.AwaitCells(ctx)); err != nil {
		return err
	}
	if err := i.startFleet(ctx, c); err != nil {
		return err
	}
	return i.in.StartProxy(ctx, i.data)
}

// settings returns the settings of a process with the given roles.
func (i *clusterInstallation) settings(roles string) map[string]string {
	settings := i.receiver.settings()
	settings["TALLYGATE_ROLES"], settings["TALLYGATE_REDIS_URL"] = roles, i.redis.URL()
	return settings
}

// startFleet starts the data planes and the workers.
func (i *clusterInstallation) startFleet(ctx context.Context, c *Cluster) error {
	start := func(roles string, settings map[string]string) (*instance.Server, error) {
		s, err := i.in.Node(c.Program, roles)
		if err != nil {
			return nil, err
		}
		maps.Copy(s.Env, i.settings(roles))
		maps.Copy(s.Env, settings)
		return s, s.Start(ctx)
	}

	settings := map[string]string{"TALLYGATE_DRAIN_DELAY": "3s"}
	if c.Addresses {
		settings["TALLYGATE_CELL_ADDRESSES"] = i.in.CellAddresses(nil)
	}
	for range dataCount {
		s, err := start("data", settings)
		if err != nil {
			return err
		}
		i.data = append(i.data, s)
	}
	for range workerCount {
		health, err := pgserver.FreeAddress()
		if err != nil {
			return err
		}
		s, err := start("worker", map[string]string{"TALLYGATE_HEALTH_ADDR": health})
		if err != nil {
			return err
		}
		i.workers = append(i.workers, s)
	}
	return nil
}

func (i *clusterInstallation) close() error {
	if i.in == nil {
		return nil
	}
	err := i.in.Close()
	if i.receiver != nil {
		i.receiver.server.Close()
	}
	if i.redis != nil {
		i.redis.Close()
	}
	return err
}

// nodes returns host:port of the two workers of Citus that have cells.
func (i *clusterInstallation) nodes() []string {
	var all []string
	for _, cell := range i.in.CellsOnWorkers() {
		if !slices.Contains(all, cell.Node) {
			all = append(all, cell.Node)
		}
	}
	return all
}

// cellID returns the number of a site's cell.
func (i *clusterInstallation) cellID(ctx context.Context, siteKey string) (id int64, err error) {
	err = i.in.WithDatabase(func(d *db.DB) error {
		site, err := sites.New(d).Lookup.SiteRulesByKey(ctx, siteKey)
		if err == nil {
			id = site.Cell
		}
		return err
	})
	return id, err
}

// awaitMoves waits until no move of an account is in progress.
func (i *clusterInstallation) awaitMoves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*instance.StartPatience)
	defer cancel()
	return i.in.WithDatabase(func(d *db.DB) error {
		for {
			moving, err := d.Read.NewSelect().Table("account_moves").Exists(ctx)
			if !moving || err != nil {
				return err
			}
			if err := load.Wait(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("an account is still being moved: %w", err)
			}
		}
	})
}

const eventCount = 10

// events are in the order in which they happen in each round.
func (r *clusterRun) events() []instance.Fault {
	nodes := r.nodes()
	crash := func(name, node string) instance.Fault {
		return instance.Fault{Name: name, Do: func(ctx context.Context, _ int) error { return r.in.CrashNode(ctx, node, r.Outage) }}
	}
	return slices.DeleteFunc([]instance.Fault{
		instance.Killed("data plane killed", nil, r.data...),
		instance.Restarted("data plane restarted", r.data...),
		instance.Killed("worker process killed", nil, r.workers...),
		{Name: "Redis master lost", Do: func(ctx context.Context, _ int) error { return r.redis.LoseMaster(ctx) }},
		{Name: "cell of node 1 moved to node 2 and back", Do: r.moveCell},
		{Name: "site moved to a cell of the other node", Do: r.moveSite},
		{Name: "captcha moved to a cell of another node", Do: r.moveCaptcha},
		crash("database node 1 crashed", nodes[0]),
		crash("database node 2 crashed", nodes[1]),
		crash("coordinator crashed", r.in.Citus.Coordinator()),
	}, func(e instance.Fault) bool { return !strings.Contains(e.Name, r.Only) })
}

// moveCell moves the first cell to the other node, and back.
func (r *clusterRun) moveCell(ctx context.Context, _ int) error {
	cell, nodes := r.in.CellsOnWorkers()[0], r.nodes()
	for _, node := range []string{nodes[1], nodes[0]} {
		if err := r.in.Citus.MoveSchema(ctx, cell.Schema, node); err != nil {
			return err
		}
	}
	return nil
}

// moveSite moves one of the moving sites, with the command of operators.
func (r *clusterRun) moveSite(ctx context.Context, round int) error {
	site := r.groups[moving].session.Traffic.Sites[round]
	from, err := r.cellOf(ctx, site.Key)
	if err != nil {
		return err
	}
	to := from
	for _, cell := range r.in.CellsOnWorkers() {
		if cell.Node != from.Node {
			to = cell
		}
	}

	return r.admin(ctx, "move-site", site.Key, "--to", strconv.FormatInt(to.ID, 10))
}

// moveCaptcha moves the account's captcha, which begins in the default cell, to a cell of each
// worker of Citus in turn. An earlier move ends a minute after its switch.
func (r *clusterRun) moveCaptcha(ctx context.Context, round int) error {
	nodes := r.nodes()
	node := nodes[round%len(nodes)]
	to := slices.IndexFunc(r.in.Cells, func(cell cells.Info) bool { return cell.Node == node })
	if to < 0 {
		return fmt.Errorf("node %s has no cell any more", node)
	}
	if err := r.awaitMoves(ctx); err != nil {
		return err
	}
	return r.admin(ctx, "move-account", r.account.Target.Email, "--to", strconv.FormatInt(r.in.Cells[to].ID, 10))
}

// admin runs a command of operators.
func (r *clusterRun) admin(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, r.Program, append([]string{"admin"}, args...)...)
	for name, value := range r.in.Server.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, output)
	}
	return nil
}
