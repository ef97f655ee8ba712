package cells

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
	"github.com/tallygate/tallygate/tools/pgserver"
)

// installation is a layout with its server, which runs during its measurements only.
type installation struct {
	dir      string
	plain    *instance.Instance // nil on Citus
	citus    *pgserver.CitusDatabase
	database string
	server   *instance.Server
	metrics  string           // host:port
	nodes    map[int64]string // host:port of the node of each cell; nil: the cells have no addresses

	session  *traffic.Session
	journal  *traffic.Journal
	path     string // of the journal
	baseline int64  // prepared transactions before the first hit
}

// install creates a database with cells, and a server that is not running. The result may be
// incomplete; the caller closes it.
func (c *Command) install(ctx context.Context, n int, onCitus, addresses bool) (_ *installation, err error) {
	i := &installation{}
	if i.dir, err = os.MkdirTemp("", "tallygate-cells-"); err != nil {
		return nil, err
	}
	if onCitus {
		err = i.onCitus(ctx, c)
	} else {
		err = i.onPostgres(c)
	}
	if err != nil {
		return i, err
	}

	port, err := pgserver.FreePort()
	if err != nil {
		return i, err
	}
	i.metrics = fmt.Sprintf("127.0.0.1:%d", port)
	i.server.Env["TALLYGATE_METRICS_ADDR"] = i.metrics

	// The first start migrates.
	if err := i.server.Start(ctx); err != nil {
		return i, err
	}
	if n > 1 {
		if err := i.addCells(ctx, n, addresses); err != nil {
			return i, err
		}
	}
	return i, nil
}

func (i *installation) onPostgres(c *Command) (err error) {
	if i.plain, err = instance.New(c.Program, "postgres"); err == nil {
		i.database, i.server = i.plain.Database, i.plain.Server
	}
	return err
}

func (i *installation) onCitus(ctx context.Context, c *Command) (err error) {
	name := "tallygate_cells_" + filepath.Base(i.dir)[len("tallygate-cells-"):]
	if i.citus, err = pgserver.CreateCitusDatabase(ctx, c.Citus, name); err != nil {
		return err
	}
	i.database = i.citus.URL()
	i.server, err = instance.NewServer(c.Program, filepath.Join(i.dir, "data"), i.database)
	return err
}

// addCells adds cells that get all sites.
func (i *installation) addCells(ctx context.Context, n int, addresses bool) error {
	d, err := db.Open(i.database)
	if err != nil {
		return err
	}
	store := cells.New(d)
	err = store.SetOpen(ctx, db.DefaultCell, false)
	for range n {
		if err == nil {
			_, err = store.Add(ctx, model.At(time.Now()))
		}
	}

	var list []cells.Info
	if err == nil && addresses {
		i.nodes = make(map[int64]string)
		list, err = store.List(ctx)
	}
	for _, cell := range list {
		if cell.Node != "" {
			i.nodes[cell.ID] = cell.Node
		}
	}
	return errors.Join(err, d.Close())
}

// begin creates the sites and the journal, and leaves a server for the data plane.
func (i *installation) begin(ctx context.Context, mix string) (err error) {
	i.session, err = traffic.NewOwnSession(ctx, i.server.Target(), &traffic.Flags{Mix: mix, Sites: 20, Visitors: 20_000, Seed: 1})
	if err != nil {
		return err
	}
	i.path = filepath.Join(i.dir, "journal")
	if i.journal, err = i.session.Begin(ctx, i.path); err != nil {
		return err
	}

	if err := i.server.Stop(); err != nil {
		return err
	}
	i.server.Env["TALLYGATE_ROLES"] = "data"
	i.connect(i.database, func(host string) string { return i.citus.NodeURL(host) })
	if i.citus != nil {
		i.baseline, err = i.citus.Prepared(ctx)
	}
	return err
}

// connect sets the addresses of the databases.
func (i *installation) connect(common string, node func(host string) string) {
	var all []string
	for cell, host := range i.nodes {
		all = append(all, fmt.Sprintf("%d=%s", cell, node(host)))
	}
	i.server.Env["TALLYGATE_DATABASE_URL"] = common
	i.server.Env["TALLYGATE_CELL_ADDRESSES"] = strings.Join(all, ",")
}

// pids returns the main processes of the databases.
func (i *installation) pids(ctx context.Context) ([]int, error) {
	if i.citus != nil {
		return i.citus.Pids(ctx)
	}
	return []int{i.plain.Postgres.Pid()}, nil
}

// prepared returns how many transactions were prepared since begin. PostgreSQL without Citus
// prepares no transactions.
func (i *installation) prepared(ctx context.Context) (int64, error) {
	if i.citus == nil {
		return 0, nil
	}
	n, err := i.citus.Prepared(ctx)
	return n - i.baseline, err
}

// batches reads the server's metrics: the batches since its start, and their hits.
func (i *installation) batches(ctx context.Context) (batches, hits float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+i.metrics+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, 0, err
	}

	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case `tallygate_batch_items_count{queue="hits"}`:
			batches, err = strconv.ParseFloat(value, 64)
		case `tallygate_batch_items_sum{queue="hits"}`:
			hits, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	if batches == 0 {
		return 0, 0, errors.New("the metrics have no batches")
	}
	return batches, hits, nil
}

// relays are between the service and the databases, and between the nodes of Citus.
type relays struct {
	service, nodes atomic.Int64 // round trips
	all            []*relay
	restore        func(context.Context) error
}

// relay puts relays before the databases. The server must not run.
func (i *installation) relay(ctx context.Context) (_ *relays, err error) {
	r := &relays{restore: func(context.Context) error { return nil }}
	add := func(address string, trips *atomic.Int64) *relay {
		one, failed := newRelay(address, trips)
		if err = errors.Join(err, failed); failed == nil {
			r.all = append(r.all, one)
		}
		return one
	}

	home, parseErr := hostOf(i.database)
	common := add(home, &r.service)
	if err := errors.Join(err, parseErr); err != nil {
		return nil, err
	}
	databaseURL, err := common.through(i.database)
	if err != nil {
		return nil, err
	}

	i.connect(databaseURL, func(host string) string {
		one := add(host, &r.service)
		if one == nil {
			return ""
		}
		return i.citus.NodeURL(one.addr())
	})
	if i.citus == nil || err != nil {
		return r, err
	}

	workers := i.citus.Workers()
	hosts := make([]string, len(workers))
	for n, worker := range workers {
		one := add(worker, &r.nodes)
		if err != nil {
			return nil, err
		}
		hosts[n] = one.addr()
	}
	r.restore = func(ctx context.Context) error { return i.citus.MoveWorkers(context.WithoutCancel(ctx), workers) }
	return r, i.citus.MoveWorkers(ctx, hosts)
}

func (r *relays) close(ctx context.Context) error {
	err := r.restore(ctx)
	for _, one := range r.all {
		one.close()
	}
	return err
}

// finish verifies all hits.
func (i *installation) finish(ctx context.Context, outcome *Outcome) error {
	i.server.Env["TALLYGATE_ROLES"] = "control"
	i.connect(i.database, func(host string) string { return i.citus.NodeURL(host) })
	if err := errors.Join(i.journal.Close(), i.server.Start(ctx)); err != nil {
		return err
	}

	verdict, err := verify.JournalAs(ctx, i.session.Account, i.path)
	if err != nil {
		return err
	}
	outcome.Verdict.Add(verdict)
	maps.Copy(outcome.Unexpected, i.session.Unexpected.Counts)
	return i.server.Stop()
}

func (i *installation) close() {
	if i.server != nil {
		i.server.Kill()
	}
	if i.plain != nil {
		i.plain.Close()
	}
	if i.citus != nil {
		// The run has ended; the database's name is no one else's.
		_ = i.citus.Drop(context.Background())
	}
	_ = os.RemoveAll(i.dir)
}
