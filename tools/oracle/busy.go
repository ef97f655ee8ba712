package oracle

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Busy makes the rows of a busy site, for measurements: returning visitors of a day, visits of one
// to several page views, engagement, events, purchases and refunds, and a few popular and many rare
// paths, referrers and campaigns.
type Busy struct {
	random                  *rand.Rand
	clients                 *rand.Rand
	paths, hosts, campaigns *rand.Zipf
	rows                    segment.Rows // of the day in progress
}

const (
	busyPaths     = 20_000
	busyHosts     = 3_000
	busyCampaigns = 500
	busyUsers     = 2_000 // pseudonymous user ids

	busyViews = 2.74 // page views of an average visit, before the longest ones are cut
	mostViews = 20   // of one visit
)

// NewBusy returns a generator. Equal seeds give equal rows.
func NewBusy(seed uint64) *Busy {
	r := rand.New(rand.NewPCG(seed, 41))
	return &Busy{
		random: r, clients: rand.New(rand.NewPCG(seed, 42)),
		paths: rand.NewZipf(r, 1.2, 4, busyPaths-1), hosts: rand.NewZipf(r, 1.3, 2, busyHosts-1),
		campaigns: rand.NewZipf(r, 1.2, 2, busyCampaigns-1),
	}
}

// Day returns the rows of a day with about so many page views.
func (b *Busy) Day(day model.Day, pageviews int) segment.Rows {
	b.rows = segment.Rows{Day: day}

	var key segment.VisitKey
	var start time.Duration
	for range int(float64(pageviews) / busyViews) {
		// One visit in ten is of the visitor before, an hour later.
		start += time.Hour
		if key.N == 0 || start > 22*time.Hour || b.random.IntN(10) > 0 {
			binary.LittleEndian.PutUint64(key.Visitor[:], b.random.Uint64())
			key.N, start = 0, time.Duration(b.random.Int64N(int64(22*time.Hour)))
		}
		key.N++
		b.addVisit(key, day.Start().Add(start))
	}
	return b.rows
}

// addVisit adds a visit with its page views and events.
func (b *Busy) addVisit(key segment.VisitKey, start model.Instant) {
	r := b.random
	b.rows.Visits = append(b.rows.Visits, b.visit(key, start))

	width := [...]int16{0, 576, 768, 992, 1200, 1440, 1920}[r.IntN(7)]
	language := [...]string{"en", "de", "fr", "es", "it", "pl", "nl", "pt"}[min(r.IntN(12), 7)]
	at, path := start, ""
	for views := 1; ; views++ {
		path = BusyPath(b.paths.Uint64())
		view := segment.View{VisitKey: key, At: at, ID: r.Int64(), Path: path, Language: language, Width: width}
		// One page view in ten is left before anything is reported.
		if r.IntN(10) > 0 {
			view.EngagedMS, view.Scroll = int32(r.ExpFloat64()*25_000), int16(r.IntN(101))
		}
		b.rows.Views = append(b.rows.Views, view)
		at = at.Add(time.Second + time.Duration(r.Int64N(int64(3*time.Minute))))
		if views == mostViews || r.Float64() > 1-1/busyViews {
			break
		}
	}
	b.addEvents(key, at, path)
}

// addEvents adds the events at the end of a visit. One visit in three has an automatic event, one
// in ten a custom event, one in fifty a purchase and one in a thousand a refund.
func (b *Busy) addEvents(key segment.VisitKey, at model.Instant, path string) {
	r := b.random
	add := func(name string, e segment.Event) {
		e.VisitKey, e.At, e.ID, e.Name, e.Path = key, at, r.Int64(), name, path
		b.rows.Events = append(b.rows.Events, e)
	}
	sold := func(sign int64) segment.Event {
		return segment.Event{
			Value: model.Money(sign * (1 + r.Int64N(20_000)) * 10_000), Currency: [...]string{"EUR", "EUR", "USD"}[r.IntN(3)],
			Properties: fmt.Sprintf(`{"coupon":"spring-%d"}`, r.IntN(20)),
		}
	}

	if r.IntN(3) == 0 {
		add("scroll", segment.Event{})
	}
	if r.IntN(10) == 0 {
		add("signup", segment.Event{Properties: fmt.Sprintf(`{"plan":"plan-%d","seats":%d}`, r.IntN(4), r.IntN(100))})
	}
	if r.IntN(50) == 0 {
		add(model.EventPurchase, sold(1))
	}
	if r.IntN(1000) == 0 {
		add(model.EventRefund, sold(-1))
	}
}

// visit returns a visit without its page views.
func (b *Busy) visit(key segment.VisitKey, start model.Instant) segment.Visit {
	r := b.random
	v := segment.Visit{VisitKey: key, StartedAt: start, Channel: "direct", Client: busyClient(b.clients)}
	// One visit in twenty is of a user who is signed in.
	if r.IntN(20) == 0 {
		v.UserID = fmt.Sprintf("%016d", r.IntN(busyUsers))
	}

	switch r.IntN(10) {
	case 0, 1, 2, 3:
		v.Channel, v.Referrer = "organic search", fmt.Sprintf("search-%d.example/", b.hosts.Uint64()%40)
	case 4, 5:
		v.Channel, v.Referrer = "referral", fmt.Sprintf("site-%d.example/page", b.hosts.Uint64())
	case 6:
		v.Channel, v.Source, v.Medium = "email", "newsletter", "email"
		v.Name = fmt.Sprintf("campaign-%d", b.campaigns.Uint64())
	case 7:
		v.Channel, v.Source, v.Gclid = "paid search", "search", "click"
		v.Name = fmt.Sprintf("campaign-%d", b.campaigns.Uint64())
	}
	return v
}

// busyClient returns what a visit keeps of its browser. Its random numbers should be its own, so
// that the other values of visits stay the same.
func busyClient(r *rand.Rand) model.Client {
	return model.Client{
		Country: model.Countries[min(int(r.ExpFloat64()*20), len(model.Countries)-1)],
		Browser: model.Browsers[min(int(r.ExpFloat64()*3), len(model.Browsers)-1)],
		System:  model.Systems[min(int(r.ExpFloat64()*3), len(model.Systems)-1)],
		Device:  model.Devices[r.IntN(len(model.Devices))],
		Host:    [...]string{"shop.example", "www.shop.example", "shop.de"}[r.IntN(3)],
	}
}

// BusyPath returns the path of a number below 20,000; small numbers are popular.
func BusyPath(n uint64) string { return fmt.Sprintf("/section-%d/article-%d", n%40, n) }

// Dashboard returns the query of a dashboard over some days from first on, in a time zone.
func Dashboard(zone *time.Location, first model.Day, days int) *scan.Query {
	from := scan.DateOf(first.Start().Time())
	q := &scan.Query{
		Zone: zone, From: from, To: from.AddDays(days - 1),
		KeyEvents: map[string]bool{model.EventPurchase: true, "signup": true},
	}
	for d := q.From; d.Compare(q.To.AddDays(1)) <= 0; d = d.AddDays(1) {
		q.Points = append(q.Points, d.Start(zone))
	}

	for _, by := range []scan.Dimension{
		scan.Channel, scan.Source, scan.UTMCampaign, scan.Page, scan.EntryPage, scan.ExitPage, scan.Language, scan.Width,
	} {
		q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: by, VisitorsOnly: true})
	}
	q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: scan.Event})
	return q
}

// Filtered returns the query with a filter that keeps the visits with a value.
func Filtered(q *scan.Query, by scan.Dimension, value string) *scan.Query {
	filtered := *q
	filtered.Filters = []scan.Filter{Is(by, value)}
	return &filtered
}

// Is returns a filter that keeps the visits with a value.
func Is(by scan.Dimension, value string) scan.Filter {
	return scan.Filter{Breakdown: scan.Breakdown{By: by}, Operator: model.OperatorIs, Values: []string{value}}
}
