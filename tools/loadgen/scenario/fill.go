package scenario

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// filler generates stored page views like the traffic mix, spread evenly over the days before
// today: visits of a few page views, ids of 64 bits, sites by the same skewed distribution.
type filler struct {
	sites  []int64
	from   model.Instant
	step   time.Duration // between two visits
	random *rand.Rand
	pick   *rand.Zipf
	visits int
}

const (
	pageviewsPerVisit = 3
	filledDays        = 15 // few enough to lie mostly in one month, so that its partition has most rows
	fillChunk         = 100_000
)

// newFiller returns a filler of rows page views that end before today.
func newFiller(ctx context.Context, d *db.DB, sites []target.Site, rows int, seed uint64) (*filler, error) {
	f := &filler{random: rand.New(rand.NewPCG(seed, 1<<32))}
	for _, s := range sites {
		id, err := siteOf(ctx, d, s.ID)
		if err != nil {
			return nil, err
		}
		f.sites = append(f.sites, id)
	}

	f.pick = traffic.PickSite(f.random, len(sites))
	today := model.At(time.Now()).Day()
	f.from = (today - filledDays).Start()
	f.step = today.Start().Sub(f.from) / time.Duration(max(rows/pageviewsPerVisit, 1)+1)

	return f, nil
}

// next returns about n page views with their visits and engagement.
func (f *filler) next(n int) bulk.Rows {
	var rows bulk.Rows
	for len(rows.Pageviews) < n {
		at := f.from.Add(time.Duration(f.visits) * f.step)
		f.visits++
		v := model.Visit{SiteID: model.SiteID(f.sites[f.pick.Uint64()]), N: 1, StartedAt: at,
			LastPageviewAt: at.Add((pageviewsPerVisit - 1) * time.Second),
			Pageviews:      pageviewsPerVisit, Channel: "direct"}

		binary.LittleEndian.PutUint64(v.Visitor[:], f.random.Uint64())

		rows.Visits = append(rows.Visits, v)
		for i := range pageviewsPerVisit {
			p := model.Pageview{SiteID: v.SiteID, At: at.Add(time.Duration(i) * time.Second),
				ID:      f.random.Int64() - f.random.Int64(),
				Visitor: v.Visitor, N: v.N, Path: traffic.PagePaths[f.random.IntN(len(traffic.PagePaths))], Language: "de",
				WidthRange: 1440}

			rows.Pageviews = append(rows.Pageviews, p)
			rows.Engagement = append(rows.Engagement, model.Engagement{
				EngagementKey: model.EngagementKey{SiteID: p.SiteID, Day: p.At.Day(), PageviewID: p.ID}, MS: 5000, Scroll: 60,
			})
		}
	}

	rows.Sort()
	return rows
}

// siteOf returns the database's id of a site.
func siteOf(ctx context.Context, d *db.DB, nodeID string) (int64, error) {
	ids, err := keys.New(d).NodeIDs(ctx)
	if err != nil {
		return 0, err
	}
	id, ok := ids.Parse(nodeid.Site, nodeID)
	if !ok {
		return 0, fmt.Errorf("%q is not a site's id", nodeID)
	}
	return id, nil
}

// fill loads rows page views into an otherwise unused database, and prints progress.
func fill(ctx context.Context, d *db.DB, sites []target.Site, rows int, seed uint64, progress io.Writer) error {
	f, err := newFiller(ctx, d, sites, rows, seed)
	if err != nil {
		return err
	}
	if err := retention.New(d).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		return err
	}

	began := time.Now()
	return bulk.Fill(ctx, d, func() error {
		for done := 0; done < rows; {
			chunk := f.next(min(fillChunk, rows-done))
			if err := bulk.Load(ctx, d, chunk); err != nil {
				return err
			}
			if done += len(chunk.Pageviews); done/(10*fillChunk) != (done-len(chunk.Pageviews))/(10*fillChunk) {
				fmt.Fprintf(progress, "filled %d of %d page views in %.0f s\n", done, rows, time.Since(began).Seconds())
			}
		}

		return nil
	})
}
