package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/cmd/loadgen/bulk"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
)

// limitsCommand measures what nothing on this machine can exceed.
type limitsCommand struct {
	Engine      string        `default:"sqlite" enum:"sqlite,postgres" help:"Database: sqlite, or a private postgres."`
	Connections int           `default:"128" placeholder:"N" help:"Browsers that send to the empty handler at once."`
	Duration    time.Duration `default:"5s" placeholder:"TIME" help:"How long the empty handler is measured."`
	Rows        int           `default:"300000" placeholder:"N" help:"Page views that are copied into an empty database at once."`
}

// Validate checks the numbers.
func (c *limitsCommand) Validate() error {
	switch {
	case c.Connections < 1 || c.Connections > maxConnections:
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, maxConnections)
	case c.Duration <= 0:
		return fmt.Errorf("--duration: %v is not more than 0", c.Duration)
	case c.Rows < 1 || c.Rows > maxBulkRows:
		return fmt.Errorf("--rows: %d is not from 1 to %d", c.Rows, maxBulkRows)
	}

	return nil
}

// maxBulkRows bounds what is held in memory at once.
const maxBulkRows = 5_000_000

// Run runs the command.
func (c *limitsCommand) Run(ctx context.Context, term terminal) error {
	noop, err := startNoop(ctx)
	if err != nil {
		return err
	}
	defer noop.kill()

	r, err := driveNoop(ctx, noop, c.Connections, c.Duration)
	if err != nil {
		return err
	}

	fmt.Fprintln(term.out, "The empty handler, a process of its own under the same client:")
	newReport(r, c.Connections).print(term.out)

	b, err := newBench("", c.Engine)
	if err != nil {
		return err
	}
	defer b.close()

	rate, err := b.bulkRate(ctx, c.Rows)
	if err != nil {
		return err
	}

	fmt.Fprintf(term.out, "%s copies %.0f page views a second into empty tables with all indexes, in one transaction.\n", c.Engine, rate)
	return nil
}

// noopTraffic is the page views of the mix, which the empty handler answers alike.
func noopTraffic(addr string) *traffic {
	t := &traffic{host: addr, mix: mixes["pageviews"], visitors: 20_000}
	for i := range 20 {
		t.sites = append(t.sites, site{Key: fmt.Sprintf("%032x", i), Domain: fmt.Sprintf("load-abcdefgh-%d.example", i)})
	}
	return t
}

// driveNoop measures the empty handler.
func driveNoop(ctx context.Context, noop *server, connections int, duration time.Duration) (*result, error) {
	t := noopTraffic(noop.data)
	l := load{addr: noop.data, connections: connections, warmup: min(duration/5, time.Second), duration: duration, least: leastAnswers, watched: []int{noop.pid()}}
	r := l.run(ctx, func(connection int) source { return &visitors{mixer: newMixer(t, connection)} })
	return r, checkNoop(r)
}

// checkNoop fails if the empty handler was not measured, or did not answer everything as it should.
func checkNoop(r *result) error {
	if err := r.enough(); err != nil || r.answers["204"] != r.sent() {
		return errors.Join(err, fmt.Errorf("the empty handler answers %v", r.answers))
	}
	return nil
}

// bulkRate is how many page views a second, with their visits, the bench's engine copies into a
// database of their own.
func (b *bench) bulkRate(ctx context.Context, rows int) (float64, error) {
	url := db.EmbeddedURL(filepath.Join(b.dir, "bulk"))

	if b.postgres != nil {
		var err error
		if url, err = b.postgres.CreateDatabase(ctx, "bulk"); err != nil {
			return 0, err
		}
	}

	scratch := bench{database: url}
	var rate float64
	err := scratch.withDatabase(func(d *db.DB) error {
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

		all := f.next(rows)
		began := time.Now()
		err = bulk.Load(ctx, d, all)
		rate = float64(len(all.Pageviews)) / time.Since(began).Seconds()

		return err
	})

	return rate, err
}

// bulkSites makes the sites of a fresh database.
func bulkSites(ctx context.Context, d *db.DB) ([]site, error) {
	if err := d.Migrate(ctx, time.Now); err != nil {
		return nil, err
	}
	if err := retention.New(d).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		return nil, err
	}

	user, err := accounts.New(d).SignUp(ctx, model.SignupsOpen, model.Account{Name: "Bulk"}, model.User{Email: "bulk@loadgen.example", PasswordHash: "-"})
	if err != nil {
		return nil, err
	}

	ids, err := keys.New(d).NodeIDs(ctx)
	if err != nil {
		return nil, err
	}

	var siteList []site
	for i := range 20 {
		s, err := sites.New(d).CreateSite(ctx, model.Site{AccountID: user.AccountID, SiteKey: model.NewSiteKey(), Domain: fmt.Sprintf("bulk-%d.example", i),
			Name: "Bulk", Plan: model.PlanEnterprise, MonthlyPageviews: 1 << 40})
		if err != nil {
			return nil, err
		}

		siteList = append(siteList, site{ID: ids.Of(model.NodeSite, s.ID), Key: s.SiteKey, Domain: s.Domain})
	}

	return siteList, nil
}
