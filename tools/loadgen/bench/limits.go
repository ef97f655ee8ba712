package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// LimitsCommand measures the upper limits of this machine: the empty handler and the database's
// bulk copy.
type LimitsCommand struct {
	Engine      string        `default:"sqlite" enum:"sqlite,postgres" help:"Database: sqlite, or a private postgres."`
	Connections int           `default:"128" placeholder:"N" help:"Concurrent browsers of the empty handler."`
	Duration    time.Duration `default:"5s" placeholder:"TIME" help:"Duration of the empty handler's measurement."`
	Rows        int           `default:"300000" placeholder:"N" help:"Page views copied into an empty database in one transaction."`
}

// Validate checks the limits of the flags.
func (c *LimitsCommand) Validate() error {
	switch {
	case c.Connections < 1 || c.Connections > traffic.MaxConnections:
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, traffic.MaxConnections)
	case c.Duration <= 0:
		return fmt.Errorf("--duration: %v is not more than 0", c.Duration)
	case c.Rows < 1 || c.Rows > maxBulkRows:
		return fmt.Errorf("--rows: %d is not from 1 to %d", c.Rows, maxBulkRows)
	}

	return nil
}

// maxBulkRows is the largest number of rows held in memory at once.
const maxBulkRows = 5_000_000

// Run measures and prints both limits.
func (c *LimitsCommand) Run(ctx context.Context, term report.Terminal) error {
	noop, err := instance.StartNoop(ctx)
	if err != nil {
		return err
	}
	defer noop.Kill()

	r, err := driveNoop(ctx, noop, c.Connections, c.Duration, 0)
	if err != nil {
		return err
	}

	fmt.Fprintln(term.Out, "The empty handler, a process of its own under the same client:")
	report.New(r, c.Connections).Print(term.Out)

	b, err := instance.New("", c.Engine)
	if err != nil {
		return err
	}
	defer b.Close()

	rate, err := bulkRate(ctx, b, c.Rows)
	if err != nil {
		return err
	}

	fmt.Fprintf(term.Out,
		"%s copies %.0f page views a second into empty tables with all indexes, in one transaction.\n", c.Engine, rate)
	return nil
}

// noopTraffic returns the page views of the mix, addressed to the empty handler.
func noopTraffic(addr string) *traffic.Traffic {
	t := &traffic.Traffic{Host: addr, Mix: traffic.Mixes["pageviews"], Visitors: 20_000}
	for i := range 20 {
		t.Sites = append(t.Sites, target.Site{Key: fmt.Sprintf("%032x",
			i), Domain: fmt.Sprintf("load-abcdefgh-%d.example", i)})
	}
	return t
}

// driveNoop measures the empty handler, at a rate of calls a second unless that is 0.
func driveNoop(ctx context.Context, noop *instance.Server, connections int, duration time.Duration,
	rate float64) (*load.Result, error) {
	t := noopTraffic(noop.Data)
	l := load.Load{Addr: noop.Data, Connections: connections, Rate: rate, Warmup: min(duration/5, time.Second),
		Duration: duration, MinAnswers: load.MinAnswers, Watched: []int{noop.Pid()}}
	r := l.Run(ctx, func(connection int) load.Source {
		return &traffic.Visitors{Mixer: traffic.NewMixer(t,
			connection)}
	})
	return r, r.AllAccepted()
}

// bulkRate returns the number of page views a second, with their visits, that the engine copies
// into an empty database.
func bulkRate(ctx context.Context, b *instance.Instance, rows int) (float64, error) {
	url := db.EmbeddedURL(filepath.Join(b.Dir, "bulk"))

	if b.Postgres != nil {
		var err error
		if url, err = b.Postgres.CreateDatabase(ctx, "bulk"); err != nil {
			return 0, err
		}
	}

	scratch := instance.Instance{Database: url}
	var rate float64
	err := scratch.WithDatabase(func(d *db.DB) error {
		sites, err := bulkSites(ctx, d)
		if err != nil {
			return err
		}

		ids, err := keys.New(d).NodeIDs(ctx)
		if err != nil {
			return err
		}

		f, err := newFiller(ids, sites, rows, 1, time.Now())
		if err != nil {
			return err
		}

		// The rows are made before the measurement.
		all := f.next(rows)
		began := time.Now()
		err = bulk.Load(ctx, d, all)
		rate = float64(len(all.Pageviews)) / time.Since(began).Seconds()

		return err
	})

	return rate, err
}

// bulkSites creates the sites of an empty database.
func bulkSites(ctx context.Context, d *db.DB) ([]target.Site, error) {
	if err := d.Migrate(ctx, time.Now); err != nil {
		return nil, err
	}
	if err := retention.New(d).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		return nil, err
	}

	user, err := accounts.New(d).SignUp(ctx, model.SignupsOpen, model.Account{Name: "Bulk"},
		model.User{Email: "bulk@loadgen.example", PasswordHash: "-"})
	if err != nil {
		return nil, err
	}

	ids, err := keys.New(d).NodeIDs(ctx)
	if err != nil {
		return nil, err
	}

	var created []target.Site
	for i := range 20 {
		s, err := sites.New(d).CreateSite(ctx, model.Site{AccountID: user.AccountID, SiteKey: model.NewSiteKey(),
			Domain: fmt.Sprintf("bulk-%d.example", i),
			Name:   "Bulk", Plan: model.PlanEnterprise, MonthlyPageviews: 1 << 40})
		if err != nil {
			return nil, err
		}

		created = append(created, target.Site{ID: ids.Of(model.NodeSite, s.ID), Key: s.SiteKey, Domain: s.Domain})
	}

	return created, nil
}
