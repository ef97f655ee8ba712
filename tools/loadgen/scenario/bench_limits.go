package scenario

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// maxBulkRows is the largest number of rows held in memory at once.
const maxBulkRows = 5_000_000

// bulkRows is the unit of the rate of bulk copy.
const bulkRows = "rows/s"

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
	l := measured(connections, duration, noop.Pid())
	l.Addr, l.Rate = noop.Data, rate
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
		if err := migrations.Apply(ctx, d); err != nil {
			return err
		}
		if err := retention.New(d).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
			return err
		}
		sites, err := storeSites(ctx, d, "bulk", 20)
		if err != nil {
			return err
		}

		f, err := newFiller(ctx, d, sites, rows, 1)
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

// storeSites creates an account with n sites in the database, and returns them with their ids.
func storeSites(ctx context.Context, d *db.DB, name string, n int) ([]target.Site, error) {
	now := model.At(time.Now())
	user, err := accounts.New(d).SignUp(ctx, model.SignupsOpen,
		model.Account{Name: name, CaptchaPlan: model.CaptchaPlanFree, CreatedAt: now},
		model.User{Email: name + "@loadgen.example", PasswordHash: "-", CreatedAt: now})
	if err != nil {
		return nil, err
	}
	ids, err := keys.New(d).NodeIDs(ctx)
	if err != nil {
		return nil, err
	}

	created := make([]target.Site, n)
	for i := range created {
		domain := fmt.Sprintf("%s-%d.example", name, i)
		s, err := sites.New(d).Sites.CreateSite(ctx, model.Site{AccountID: user.AccountID, SiteKey: model.NewSiteKey(), Domain: domain,
			Name: domain, Plan: model.PlanEnterprise, MonthlyPageviews: 1_000_000_000, CreatedAt: now})
		if err != nil {
			return nil, err
		}
		created[i] = target.Site{ID: ids.Of(nodeid.Site, int64(s.ID)), Key: s.SiteKey, Domain: domain}
	}
	return created, nil
}
