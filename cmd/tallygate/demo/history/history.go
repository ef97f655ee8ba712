// Package history generates the past of the demo shop, so that its reports have something to show:
// visits with their page views, time in view, events, purchases and refunds, and calls that were
// refused. The same site, day and time give the same rows.
package history

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
)

// Days is how many days before today the shop has been measured.
const Days = 90

// Names of the shop's own events.
const (
	EventNewsletter = "newsletter_signup"
	EventColour     = "colour_picked"
)

// Shop names what belongs to the demo.
type Shop struct {
	AccountID model.AccountID
	SiteID    model.SiteID
	SitekeyID model.SitekeyID
}

// Fill stores what happened in the shop since its last stored hit, or in Days days, up to now, in
// one transaction. Then it builds the reports of the days that have ended.
func Fill(ctx context.Context, d *db.DB, shop Shop, now time.Time) error {
	to := model.At(now)
	from := (to.Day() - Days).Start()
	last, err := sites.New(d).Usage.LastHits(ctx, []model.SiteID{shop.SiteID})
	if err != nil {
		return err
	}
	from = max(from, last[shop.SiteID])

	cell := d.DefaultCell()
	if err := storeHits(ctx, cell, Generate(shop.SiteID, from, to), shop.SiteID, from, to); err != nil {
		return fmt.Errorf("store the history of the shop: %w", err)
	}
	if err := storeCounts(ctx, cell, shop, from, to); err != nil {
		return fmt.Errorf("store the counts of the shop: %w", err)
	}

	// The worker has planned and counted these days when they had no rows.
	if err := sites.New(d).Usage.RecountUsageDays(ctx, from.Day(), to.Day()-1); err != nil {
		return err
	}
	builder := reports.New(d)
	if err := builder.PlanSite(ctx, shop.SiteID, from.Day(), to); err != nil {
		return err
	}
	_, err = builder.BuildDue(ctx)
	return err
}

// storeHits stores rows in one transaction and counts them for the site's quota.
func storeHits(
	ctx context.Context, cell *db.Cell, changes *ingest.HitChanges, siteID model.SiteID, from, to model.Instant,
) error {
	keys := ingest.HitKeys{Since: from.Day().Start(), Until: (to.Day() + 1).Start()}
	for month := from.Month(); month <= to.Month(); month = month.Next() {
		keys.Usage = append(keys.Usage, model.UsageKey{SiteID: siteID, Month: month})
	}

	hits := ingest.NewHitStore(cell)
	defer hits.Close()

	return hits.Update(ctx, keys, func(state *ingest.HitState) *ingest.HitChanges {
		changes.Used, changes.Reports = make(map[model.UsageKey]int64), make(map[model.UsageKey]int64)
		for key, usage := range state.Usage {
			changes.Used[key] = usage.Used
		}

		for i := range changes.Pageviews {
			changes.Used[model.UsageKey{SiteID: siteID, Month: changes.Pageviews[i].At.Month()}]++
		}
		for i := range changes.Events {
			changes.Used[model.UsageKey{SiteID: siteID, Month: changes.Events[i].At.Month()}]++
		}
		for i := range changes.Engagement {
			changes.Reports[model.UsageKey{SiteID: siteID, Month: changes.Engagement[i].Day.Start().Month()}]++
		}
		return changes
	})
}

// storeCounts stores the refused calls and the captcha's activity of the days after from.
func storeCounts(ctx context.Context, cell *db.Cell, shop Shop, from, to model.Instant) error {
	rejections := make(map[ingest.RejectionKey]int64)
	unknown := make(map[ingest.UnknownEventKey]int64)
	captcha := make(map[ingest.CaptchaCountKey]int64)
	verified := make(map[model.CaptchaUsageKey]int64)

	for day := from.Day() + 1; day <= to.Day(); day++ {
		r := random(shop.SiteID, day, -1)
		refuse := func(endpoint, code string, n int) {
			rejections[ingest.RejectionKey{SiteID: shop.SiteID, Day: day, Endpoint: endpoint, Code: code}] += int64(n)
		}

		refuse("collect", "bot", 4+r.IntN(20))
		if day%5 == 0 {
			refuse("collect", "domain_not_allowed", 1+r.IntN(4))
		}
		if n := r.IntN(4); n > 0 {
			refuse("collect", "unknown_event", n)
			unknown[ingest.UnknownEventKey{SiteID: shop.SiteID, Day: day, Name: "video_play"}] += int64(n)
		}

		count := func(name string, n int) {
			captcha[ingest.CaptchaCountKey{SitekeyID: shop.SitekeyID, Day: day, Name: name}] += int64(n)
		}
		solved := 6 + r.IntN(14)
		count(model.CaptchaChallenge, solved+r.IntN(6))
		count(model.CaptchaSolved, solved)
		count(model.CaptchaVerified, solved-1)
		for range solved {
			count(model.CaptchaWork(time.Duration(500+r.IntN(2200))*time.Millisecond), 1)
		}
		if day%4 == 0 {
			count(model.CaptchaRefusal("siteverify", model.RefusedUsedToken), 1)
		}
		if day%11 == 0 {
			count(model.CaptchaRefusal("config", "domain_not_allowed"), 1+r.IntN(2))
		}
		verified[model.CaptchaUsageKey{AccountID: shop.AccountID, Month: day.Start().Month()}] += int64(solved - 1)
	}

	store := ingest.New(cell.Common)
	if err := store.AddRejections(ctx, rejections); err != nil {
		return err
	}
	if err := store.AddUnknownEvents(ctx, unknown); err != nil {
		return err
	}
	if err := store.AddCaptchaCounts(ctx, captcha); err != nil {
		return err
	}
	return storeVerifications(ctx, cell, verified)
}

// random returns the generator of a day, or of one of its visits.
func random(siteID model.SiteID, day model.Day, visit int) *rand.Rand {
	h := fnv.New64a()
	var b [8]byte
	for _, n := range []int64{int64(siteID), int64(day), int64(visit)} {
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		_, _ = h.Write(b[:])
	}
	return rand.New(rand.NewPCG(h.Sum64(), 0x7461_6c6c_7967_6174))
}

// hours is how many of a day's visits begin in each hour.
var hours = []weighted[int]{
	{10, 0}, {6, 1}, {4, 2}, {3, 3}, {4, 4}, {8, 5}, {18, 6}, {32, 7}, {42, 8}, {50, 9}, {54, 10}, {52, 11},
	{56, 12}, {50, 13}, {48, 14}, {50, 15}, {54, 16}, {60, 17}, {70, 18}, {82, 19}, {86, 20}, {70, 21}, {44, 22}, {22, 23},
}

// weekdays is how busy each day of the week is, from Sunday.
var weekdays = [7]float64{1.18, 0.98, 0.92, 0.9, 0.94, 0.88, 1.05}

// Campaigns of the shop, in days since the start of a period of four weeks: reports of 28 days, which
// the console shows first, have each of them on any date.
const (
	period        = 28
	newsletterDay = 12
	offerFirst    = 20
	offerLast     = 24
)

// NewsletterDay and OfferDay return the latest day up to a day on which the shop sent its
// newsletter or began its offer.
func NewsletterDay(day model.Day) model.Day { return latest(day, newsletterDay) }

// OfferDay is described at NewsletterDay.
func OfferDay(day model.Day) model.Day { return latest(day, offerFirst) }

func latest(day model.Day, phase model.Day) model.Day { return day - (day-phase)%period }

// visits returns the number of visits of a day, and the sources.
func visits(r *rand.Rand, day model.Day) (int, []weighted[source]) {
	from := everyday
	n := 92 * weekdays[day.Start().Time().Weekday()] * (0.9 + 0.2*r.Float64())

	// The shop grows, slowly and with seasons.
	n *= 1 + 0.15*math.Sin(float64(day)/29)

	switch phase := day % period; {
	case phase == newsletterDay || phase == newsletterDay+1:
		n *= 1.5
		from = append(from[:len(from):len(from)], weighted[source]{38, newsletter})
	case phase >= offerFirst && phase <= offerLast:
		n *= 1.35
		from = append(from[:len(from):len(from)], weighted[source]{30, offer})
	}

	return int(n), from
}

// Generate returns the rows of a site after from, up to and including to.
func Generate(siteID model.SiteID, from, to model.Instant) *ingest.HitChanges {
	g := &generator{siteID: siteID, from: from, to: to, changes: &ingest.HitChanges{}}
	for day := from.Day(); day <= to.Day(); day++ {
		g.day(day)
	}
	return g.changes
}
