package history

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// generator collects the rows of visits.
type generator struct {
	siteID   model.SiteID
	from, to model.Instant // exclusive and inclusive
	changes  *ingest.HitChanges
}

// day adds the visits of a UTC day that begin in the generator's time.
func (g *generator) day(day model.Day) {
	g.visits(day)
	g.refunds(day)
}

// visits adds the visits of a UTC day without the refunds.
func (g *generator) visits(day model.Day) {
	n, sources := visits(random(g.siteID, day, -2), day)
	for i := range n {
		r := random(g.siteID, day, i)
		at := day.Start().Add(time.Duration(pick(r, hours))*time.Hour + time.Duration(r.Int64N(int64(time.Hour))))
		from, who := pick(r, sources), newPerson(r)
		g.visit(r, at, &visitor{person: who, number: i}, 1, from)

		// One of eight comes back later, by a bookmark.
		later := returning + i
		r = random(g.siteID, day, later)
		back := at.Add(2*time.Hour + time.Duration(r.Int64N(int64(6*time.Hour))))
		if r.IntN(8) == 0 && back.Day() == day {
			g.visit(r, back, &visitor{person: who, number: later}, 2, source{entries: atHome})
		}
	}
}

// returning is the number of a day's first visit by a visitor who comes back.
const returning = 10_000

// person is what does not change between the visits of a visitor.
type person struct {
	id       model.VisitorID
	language string
	width    int16
	client   model.Client
	of       item // the product of interest
}

func newPerson(r *rand.Rand) person {
	p := person{language: pick(r, languages), width: model.WidthRange(pick(r, widths)), of: pick(r, products)}
	binary.BigEndian.PutUint64(p.id[:], r.Uint64())
	p.client = newClient(&p)
	return p
}

// visit adds the visitor's n-th visit of a day, if it begins in the generator's time: a walk
// through the shop's pages that ends when the visitor leaves, at the end of the UTC day, or at the
// end of the generator's time.
func (g *generator) visit(r *rand.Rand, at model.Instant, v *visitor, n int16, from source) {
	if at <= g.from || at > g.to {
		return
	}

	v.generator, v.r = g, r
	v.visit = model.Visit{SiteID: g.siteID, Visitor: v.id, StartedAt: at, N: n, Client: v.client}
	v.visit.Referrer, v.visit.Campaign, v.visit.Channel = from.attribution()

	for where := pick(r, from.entries); where != left; {
		if where == product && v.visit.Pageviews > 0 && r.IntN(3) > 0 {
			v.of = pick(r, products)
		}

		stay := v.look(at, where)
		at = at.Add(stay + time.Duration(300+r.IntN(1500))*time.Millisecond)
		if at > g.to || at.Day() != v.visit.Day() {
			break
		}
		where = pick(r, next[where])
	}

	g.changes.NewVisits = append(g.changes.NewVisits, v.visit)
}

// visitor is a visitor during a visit.
type visitor struct {
	*generator
	person
	r      *rand.Rand
	visit  model.Visit
	number int // of the visit on its day
	orders int
}

// look adds a page view with its events and time in view, and returns how long it lasts.
func (v *visitor) look(at model.Instant, where page) time.Duration {
	p := model.Pageview{SiteID: v.siteID, At: at, ID: v.r.Int64(), Visitor: v.visit.Visitor, N: v.visit.N,
		Path: where.path(v.r, &v.of), Language: v.language, WidthRange: v.width}
	v.changes.Pageviews = append(v.changes.Pageviews, p)
	v.visit.Pageviews++
	v.visit.LastPageviewAt = at

	// Most looks are short and a few are long; texts are read longer.
	seconds := math.Exp(2.6 + 0.9*v.r.NormFloat64())
	if where == guide {
		seconds *= 2.4
	}
	stay := time.Duration(min(max(seconds, 1), 900) * float64(time.Second))
	scroll := int16(min(100, 25+v.r.IntN(60)+int(seconds/4)))

	// Some pages are closed without a report.
	if reported := at.Add(stay); v.r.IntN(10) > 0 && reported <= v.to && reported.Day() == at.Day() {
		v.changes.Engagement = append(v.changes.Engagement, model.Engagement{
			EngagementKey: model.EngagementKey{SiteID: v.siteID, Day: at.Day(), PageviewID: p.ID},
			MS:            int32(stay.Milliseconds()), Scroll: scroll})
	}

	v.act(&p, where, stay, scroll)
	return stay
}

// act adds the events of a page view.
func (v *visitor) act(p *model.Pageview, where page, stay time.Duration, scroll int16) {
	chance := func(percent int) bool { return v.r.IntN(100) < percent }
	within := func(part float64) model.Instant { return p.At.Add(time.Duration(part * float64(stay))) }
	event := func(at model.Instant, name string, properties map[string]any) *model.Event {
		return v.event(at, p.Path, name, properties)
	}

	if scroll >= 90 {
		event(within(0.7), model.EventScroll, map[string]any{"percent": 90})
	}

	switch where {
	case product:
		about := map[string]any{"item_id": v.of.id, "item_name": v.of.name, "price": v.of.price}
		event(within(0), model.EventViewItem, about)
		if v.of.id == "kettle" && chance(30) {
			event(within(0.4), EventColour, map[string]any{"colour": pick(v.r, colours)})
		}
	case cart:
		event(within(0), model.EventAddToCart, map[string]any{"item_id": v.of.id, "item_name": v.of.name, "price": v.of.price,
			"quantity": 1})
	case checkout:
		v.sale(event(within(0), model.EventBeginCheckout, v.items()), v.of.price)
	case thanks:
		if e := event(within(0), model.EventPurchase, v.items()); e != nil {
			v.sale(e, v.of.price)
			v.orders++
			e.TransactionID = fmt.Sprintf("T-%d-%d-%d", e.At.Day(), v.number+1, v.orders)
			v.record(e)
		}
		if chance(25) {
			event(within(0.6), EventNewsletter, map[string]any{"placement": "checkout"})
		}
	case guide:
		if chance(8) {
			event(within(0.8), EventNewsletter, map[string]any{"placement": pick(v.r, places)})
		}
		if chance(6) {
			event(within(0.9), model.EventFileDownload, map[string]any{"file": "brewing-chart.pdf", "ext": "pdf"})
		}
	case home, about:
		if chance(4) {
			event(within(0.9), model.EventOutboundClick, map[string]any{"host": pick(v.r, outbound)})
		}
	}
}

// event adds an event of the visit. It returns nil for one after the generator's time or the UTC
// day, which is not added, and else a pointer that the next event invalidates.
func (v *visitor) event(at model.Instant, path, name string, properties map[string]any) *model.Event {
	id := v.r.Int64()
	if at > v.to || at.Day() != v.visit.Day() {
		return nil
	}

	// Maps of texts and numbers always have a JSON form.
	text, _ := json.Marshal(properties)
	v.changes.Events = append(v.changes.Events, model.Event{SiteID: v.siteID, At: at, ID: id, Visitor: v.visit.Visitor,
		N: v.visit.N, Name: name, Path: path, Properties: string(text)})
	return &v.changes.Events[len(v.changes.Events)-1]
}

// items returns the properties of an order.
func (v *visitor) items() map[string]any {
	return map[string]any{"items": []any{
		map[string]any{"item_id": v.of.id, "item_name": v.of.name, "price": v.of.price, "quantity": 1},
	}}
}

// sale sets the value of an event of an order.
func (v *visitor) sale(e *model.Event, value model.Money) {
	if e != nil {
		e.Value, e.Currency = value, "EUR"
	}
}

// record adds the record that makes a purchase or refund count once.
func (g *generator) record(e *model.Event) {
	g.changes.Transactions = append(g.changes.Transactions,
		model.Transaction{SiteID: e.SiteID, TransactionID: e.TransactionID, Event: e.Name, At: e.At})
}

// refunds adds the refunds of a day, which the shop's server sends in the afternoon for purchases
// of three days before.
func (g *generator) refunds(day model.Day) {
	const after = 3
	sold := &generator{siteID: g.siteID, from: (day - after).Start() - 1, to: (day - after + 1).Start() - 1,
		changes: &ingest.HitChanges{}}
	sold.visits(day - after)

	r := random(g.siteID, day, -3)
	for _, purchase := range sold.changes.Events {
		if purchase.Name != model.EventPurchase || r.IntN(100) >= 6 {
			continue
		}

		at := day.Start().Add(14*time.Hour + time.Duration(r.Int64N(int64(3*time.Hour))))
		if at <= g.from || at > g.to {
			continue
		}

		// A visit without page views, as for every event that only a server knows.
		v := &visitor{generator: g, r: r, visit: model.Visit{SiteID: g.siteID, StartedAt: at, N: 1, Channel: "direct"}}
		binary.BigEndian.PutUint64(v.visit.Visitor[:], r.Uint64())
		g.changes.NewVisits = append(g.changes.NewVisits, v.visit)

		if e := v.event(at, "/", model.EventRefund, map[string]any{"reason": "returned"}); e != nil {
			v.sale(e, -purchase.Value)
			e.TransactionID = "R-" + purchase.TransactionID
			v.record(e)
		}
	}
}

// storeVerifications adds to the account's verifications of each month.
func storeVerifications(ctx context.Context, cell *db.Cell, verified map[model.CaptchaUsageKey]int64) error {
	var keys ingest.ClaimKeys
	for key := range verified {
		keys.Usage = append(keys.Usage, key)
	}
	slices.SortFunc(keys.Usage, model.CaptchaUsageKey.Compare)

	claims := ingest.NewClaimStore(cell)
	defer claims.Close()
	return claims.Update(ctx, keys, func(state *ingest.ClaimState) *ingest.ClaimChanges {
		used := make(map[model.CaptchaUsageKey]model.CaptchaUsage)
		for key, usage := range state.Usage {
			usage.Used += verified[key]
			used[key] = usage
		}
		return &ingest.ClaimChanges{Usage: used}
	})
}
