package scenario

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/loadgen/bulk"
	"github.com/tallygate/tallygate/tools/oracle"
)

// year generates the rows of one site for the days up to today: returning visitors of a day, visits
// of one to several page views, quieter weekends, engagement, events, purchases and refunds, and a
// few popular and many rare paths, referrers and campaigns.
type year struct {
	siteID                  int64
	perDay                  float64 // page views of an average day
	first, last, day        model.Day
	random                  *rand.Rand
	clients                 *rand.Rand
	paths, hosts, campaigns *rand.Zipf
}

const (
	yearPaths     = 20_000
	yearHosts     = 3_000
	yearCampaigns = 500
	yearUsers     = 2_000 // pseudonymous user ids

	viewsPerVisit = 2.74 // on average, before the longest visits are cut
	maxVisitViews = 20
)

// newYear returns the generator of rows page views on a number of days that end today.
func newYear(siteID int64, rows, days int, now model.Instant) *year {
	random := rand.New(rand.NewPCG(uint64(rows), 17))
	last := now.Day()
	return &year{
		siteID: siteID, perDay: float64(rows) / float64(days),
		first: last - model.Day(days) + 1, last: last, random: random,
		clients: rand.New(rand.NewPCG(uint64(rows), 18)),
		paths:   rand.NewZipf(random, 1.2, 4, yearPaths-1), hosts: rand.NewZipf(random, 1.3, 2, yearHosts-1),
		campaigns: rand.NewZipf(random, 1.2, 2, yearCampaigns-1),
	}
}

// pathOf returns the path of a number; small numbers are popular.
func pathOf(n uint64) string { return fmt.Sprintf("/section-%d/article-%d", n%40, n) }

// fill loads the rows day by day, with partitions for their months, and returns the number of page
// views.
func (y *year) fill(ctx context.Context, d *db.DB, progress io.Writer) (pageviews int, err error) {
	for day := y.first; day <= y.last+1; day += 28 {
		if err := retention.New(d).EnsurePartitions(ctx, day.Start()); err != nil {
			return 0, err
		}
	}

	began := time.Now()
	err = bulk.Fill(ctx, d, func() error {
		for y.day = y.first; y.day <= y.last; y.day++ {
			rows := y.next()
			if err := bulk.Load(ctx, d, rows); err != nil {
				return err
			}

			pageviews += len(rows.Pageviews)
			if n := y.day - y.first + 1; n%30 == 0 {
				fmt.Fprintf(progress, "filled %d of %d days in %.0f s\n", n, y.last-y.first+1, time.Since(began).Seconds())
			}
		}
		return nil
	})
	return pageviews, err
}

// next returns the rows of the day, in the order of their keys.
func (y *year) next() bulk.Rows {
	var rows bulk.Rows

	// The week averages 1.
	views := y.perDay * 1.12
	if weekday := y.day.Start().Time().Weekday(); weekday == time.Saturday || weekday == time.Sunday {
		views = y.perDay * 0.7
	}

	var visitor model.VisitorID
	var number int16
	var start time.Duration
	for range int(views/viewsPerVisit) + 1 {
		// One visit in ten is of the visitor before, an hour later.
		start += time.Hour
		if number == 0 || start > 22*time.Hour || y.random.IntN(10) > 0 {
			binary.LittleEndian.PutUint64(visitor[:], y.random.Uint64())
			number, start = 0, time.Duration(y.random.Int64N(int64(22*time.Hour)))
		}
		number++
		y.addVisit(&rows, visitor, number, y.day.Start().Add(start))
	}

	rows.Sort()
	return rows
}

// addVisit adds a visit with its page views and events.
func (y *year) addVisit(rows *bulk.Rows, visitor model.VisitorID, number int16, start model.Instant) {
	v := y.visit(visitor, number, start)
	width := [...]int16{0, 576, 768, 992, 1200, 1440, 1920}[y.random.IntN(7)]
	languages := [...]string{"en", "de", "fr", "es", "it", "pl", "nl", "pt"}
	language := languages[min(y.random.IntN(12), 7)]

	at, path := start, ""
	for range v.Pageviews {
		path = pathOf(y.paths.Uint64())
		view := model.Pageview{SiteID: model.SiteID(y.siteID), At: at, ID: y.random.Int64(), Visitor: visitor, N: number, Path: path,
			Language: language, WidthRange: width}
		rows.Pageviews = append(rows.Pageviews, view)

		// One page view in ten is left before anything is reported.
		if y.random.IntN(10) > 0 {
			rows.Engagement = append(rows.Engagement, model.Engagement{
				EngagementKey: model.EngagementKey{SiteID: model.SiteID(y.siteID), Day: y.day, PageviewID: view.ID},
				MS:            int32(y.random.ExpFloat64() * 25_000), Scroll: int16(y.random.IntN(101)),
			})
		}
		v.LastPageviewAt = at
		at = at.Add(time.Second + time.Duration(y.random.Int64N(int64(3*time.Minute))))
	}

	rows.Visits = append(rows.Visits, v)
	y.addEvents(rows, &v, at, path)
}

// addEvents adds the events at the end of a visit. One visit in three has an automatic event, one
// in ten a custom event, one in fifty a purchase and one in a thousand a refund.
func (y *year) addEvents(rows *bulk.Rows, v *model.Visit, at model.Instant, path string) {
	add := func(name string, change func(*model.Event)) {
		e := model.Event{SiteID: model.SiteID(y.siteID), At: at, ID: y.random.Int64(), Visitor: v.Visitor, N: v.N, Name: name, Path: path}
		change(&e)
		rows.Events = append(rows.Events, e)
	}
	sold := func(sign int64) func(*model.Event) {
		return func(e *model.Event) {
			e.Currency = [...]string{"EUR", "EUR", "USD"}[y.random.IntN(3)]
			e.Value = model.Money(sign * (1 + y.random.Int64N(20_000)) * 10_000)
			e.TransactionID = fmt.Sprintf("order-%x", uint64(e.ID))
			e.Properties = fmt.Sprintf(`{"coupon":"spring-%d"}`, y.random.IntN(20))
		}
	}

	if y.random.IntN(3) == 0 {
		add("scroll", func(*model.Event) {})
	}
	if y.random.IntN(10) == 0 {
		add("signup", func(e *model.Event) {
			e.Properties = fmt.Sprintf(`{"plan":"plan-%d","seats":%d}`, y.random.IntN(4), y.random.IntN(100))
		})
	}
	if y.random.IntN(50) == 0 {
		add(model.EventPurchase, sold(1))
	}
	if y.random.IntN(1000) == 0 {
		add(model.EventRefund, sold(-1))
	}
}

// visit returns a visit without its page views.
func (y *year) visit(visitor model.VisitorID, number int16, at model.Instant) model.Visit {
	v := model.Visit{SiteID: model.SiteID(y.siteID), Visitor: visitor, StartedAt: at, N: number, LastPageviewAt: at, Pageviews: 1,
		Channel: "direct", Client: oracle.BusyClient(y.clients)}
	for v.Pageviews < maxVisitViews && y.random.Float64() < 1-1/viewsPerVisit {
		v.Pageviews++
	}

	// One visit in twenty is of a user who is signed in.
	if y.random.IntN(20) == 0 {
		v.UserID = fmt.Appendf(nil, "%016d", y.random.IntN(yearUsers))
	}

	switch y.random.IntN(10) {
	case 0, 1, 2, 3:
		v.Channel, v.Referrer = "organic search", fmt.Sprintf("search-%d.example/", y.hosts.Uint64()%40)
	case 4, 5:
		v.Channel, v.Referrer = "referral", fmt.Sprintf("site-%d.example/page", y.hosts.Uint64())
	case 6:
		v.Channel, v.Source, v.Medium = "email", "newsletter", "email"
		v.Name = fmt.Sprintf("campaign-%d", y.campaigns.Uint64())
	case 7:
		v.Channel, v.Gclid = "paid search", "click"
		v.Source, v.Name = "search", fmt.Sprintf("campaign-%d", y.campaigns.Uint64())
	}
	return v
}
