package analytics

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/tallygate/tallygate/dataplane/analytics/visit"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// decide applies the rules to a batch, hit by hit in the order of arrival, and fills in the outcomes. Beside that and
// stamp it has no effects, and may run again on the same hits.
func decide(state *db.HitState, hits []*hit, outcomes []outcome, stamp func(model.Instant) model.Instant) *db.HitChanges {
	d := decision{
		state:      state,
		stamp:      stamp,
		visits:     make(map[model.VisitorKey]*visitChange, len(state.Visits)),
		engagement: make(map[engagementKey]int),
		changes:    db.HitChanges{Used: make(map[model.UsageKey]int64)},
	}
	for i, h := range hits {
		outcomes[i] = d.take(h)
	}
	return d.finish()
}

// decision is the work in progress of decide.
type decision struct {
	state      *db.HitState // kept up to date with what the batch adds
	stamp      func(model.Instant) model.Instant
	visits     map[model.VisitorKey]*visitChange // the newest visit of each visitor of the batch
	ended      []*visitChange                    // those that a newer one followed within the batch
	engagement map[engagementKey]int             // index into changes.Engagement
	changes    db.HitChanges
}

// visitChange is a visit and what the batch does to it.
type visitChange struct {
	visit            model.Visit
	started, further bool // the batch starts it; the batch adds to one that is stored already
}

type engagementKey struct {
	siteID, pageviewID int64
}

func (d *decision) take(h *hit) outcome {
	key := h.usageKey()
	usage, ok := d.state.Usage[key]
	if !ok {
		return siteGone
	}
	if h.engagement != nil {
		d.engage(*h.engagement)
		return stored
	}
	if refused := d.repeats(h); refused != stored {
		return refused
	}
	if usage.Exhausted() {
		return overQuota
	}

	usage.Used++
	d.state.Usage[key] = usage
	d.changes.Used[key] = usage.Used
	if h.pageview != nil {
		d.view(h)
	} else {
		d.record(h)
	}
	return stored
}

// repeats reports a hit that repeats one that is stored already.
func (d *decision) repeats(h *hit) outcome {
	if h.isManual() {
		if current := d.current(h); current != nil && visit.Repeats(&current.visit, h.pageview.Path, h.at) {
			return duplicatePageview
		}
	}
	if key, ok := h.transactionKey(); ok {
		switch d.state.Transactions[key] {
		case "":
		case h.event.Name:
			return duplicateTransaction
		default:
			return badTransaction
		}
	}
	return stored
}

// engage folds the reports of one page view into one: time adds up, the deepest scroll counts.
func (d *decision) engage(e model.Engagement) {
	key := engagementKey{e.SiteID, e.PageviewID}
	i, ok := d.engagement[key]
	if !ok {
		d.engagement[key] = len(d.changes.Engagement)
		d.changes.Engagement = append(d.changes.Engagement, e)
		return
	}
	sum := &d.changes.Engagement[i]
	sum.MS = min(sum.MS+e.MS, int32(model.MaxEngagement.Milliseconds())) // both are at most 24 h: no overflow
	sum.Scroll = max(sum.Scroll, e.Scroll)
}

// view adds a page view to the visitor's visit, or starts one with it.
func (d *decision) view(h *hit) {
	at := d.stamp(h.at)
	current := d.current(h)
	if current == nil || !visit.Continues(&current.visit, at, &h.entry.campaign) {
		current = d.begin(h, at, current)
	} else {
		current.further = !current.started
	}
	visit.View(&current.visit, at)
	d.identify(current, h)
	row := *h.pageview
	row.At, row.VisitID = at, current.visit.ID
	d.changes.Pageviews = append(d.changes.Pageviews, row)
	if !row.Manual {
		visit.Remember(&current.visit, row.Path, h.at)
	}
}

// record adds an event to the visitor's latest visit of the day, or starts one with it.
func (d *decision) record(h *hit) {
	at := d.stamp(h.at)
	current := d.current(h)
	if current == nil {
		current = d.begin(h, at, nil)
	}
	d.identify(current, h)
	e := model.Event{
		SiteID:        h.site.id,
		At:            at,
		ID:            rand.Int64(),
		VisitID:       current.visit.ID,
		Name:          h.event.Name,
		Path:          h.path,
		Value:         h.event.Value,
		Currency:      h.event.Currency,
		TransactionID: h.event.TransactionID,
		Properties:    h.event.Properties,
	}
	d.changes.Events = append(d.changes.Events, e)
	if key, ok := h.transactionKey(); ok {
		d.state.Transactions[key] = e.Name
		d.changes.Transactions = append(d.changes.Transactions,
			model.Transaction{SiteID: e.SiteID, TransactionID: e.TransactionID, Event: e.Name, At: at})
	}
	if h.converts() {
		d.changes.Deliveries = append(d.changes.Deliveries, conversion(h.site.key, &e, &current.visit))
	}
}

// current is the newest visit of the hit's visitor, or nil.
func (d *decision) current(h *hit) *visitChange {
	key := h.visitorKey()
	if c := d.visits[key]; c != nil {
		return c
	}
	v, ok := d.state.Visits[key]
	if !ok {
		return nil
	}
	c := &visitChange{visit: v}
	d.visits[key] = c
	return c
}

// begin starts a visit with the hit's attribution, and no page view yet.
func (d *decision) begin(h *hit, at model.Instant, previous *visitChange) *visitChange {
	id, n, recent := model.NewTimeID(at), int16(1), []byte(nil)
	if previous != nil {
		id = max(id, previous.visit.ID+1) // the newest visit has the largest id, whatever the clock does
		n, recent = previous.visit.N+1, previous.visit.Recent
		d.ended = append(d.ended, previous)
	}

	c := &visitChange{started: true, visit: model.Visit{
		SiteID:    h.site.id,
		ID:        id,
		N:         n,
		Recent:    recent,
		Visitor:   h.visitor,
		StartedAt: at,
		Referrer:  h.entry.referrer,
		Channel:   string(h.entry.channel),
		Campaign:  h.entry.campaign,
	}}
	d.visits[h.visitorKey()] = c
	return c
}

// identify notes the pseudonymous user id that the hit carries on the visit. The latest one counts.
func (d *decision) identify(c *visitChange, h *hit) {
	if h.userID != nil && !bytes.Equal(c.visit.UserID, h.userID) {
		c.visit.UserID = h.userID
		c.further = !c.started
	}
}

// finish lists the changed visits, in the order of their keys.
func (d *decision) finish() *db.HitChanges {
	for _, c := range d.visits {
		d.ended = append(d.ended, c)
	}
	for _, c := range d.ended {
		switch {
		case c.started:
			d.changes.NewVisits = append(d.changes.NewVisits, c.visit)
		case c.further:
			d.changes.Continued = append(d.changes.Continued, c.visit)
		}
	}
	slices.SortFunc(d.changes.NewVisits, compareVisits)
	slices.SortFunc(d.changes.Continued, compareVisits)
	return &d.changes
}

func compareVisits(a, b model.Visit) int {
	return cmp.Or(cmp.Compare(a.SiteID, b.SiteID), cmp.Compare(a.ID, b.ID))
}
