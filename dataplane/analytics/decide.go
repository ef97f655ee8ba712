package analytics

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/tallygate/tallygate/dataplane/analytics/visit"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// decide applies the rules to a batch, hit by hit in the order of arrival. It changes neither state
// nor hits, and depends on nothing else but random numbers in new ids, so it may run again.
func decide(state *ingest.HitState, hits []*hit, last stamps) *decision {
	d := &decision{
		outcomes: make([]outcome, len(hits)),
		changes: ingest.HitChanges{
			Used: make(map[model.UsageKey]int64), Reports: make(map[model.UsageKey]int64),
		},
		stamps:     last,
		state:      state,
		visitors:   make(map[model.VisitorKey][]*visitChange, len(state.Visits)),
		engagement: make(map[model.EngagementKey]int),
	}

	for i, h := range hits {
		d.outcomes[i] = d.take(h)
	}

	d.markQuotas()
	d.sort()
	return d
}

// decision is the result of decide and its work in progress.
type decision struct {
	outcomes []outcome // of each hit
	changes  ingest.HitChanges
	stamps   stamps // after the batch's last one

	state      *ingest.HitState                    // as it was read
	visitors   map[model.VisitorKey][]*visitChange // the visits that the batch looked at, newest first
	recorded   map[model.TransactionKey]string     // nil for none; the event of those that the batch records
	engagement map[model.EngagementKey]int         // index into changes.Engagement
}

// visitChange is a visit and what the batch does to it.
type visitChange struct {
	visit            model.Visit
	started, further bool // the batch starts it; the batch changes a stored one
}

// take decides one hit.
func (d *decision) take(h *hit) outcome {
	key := h.usageKey()
	usage, ok := d.usage(key)
	switch {
	case !ok && d.state.Moved[key.SiteID]:
		return siteMoved
	case !ok:
		return siteDeleted
	}

	if h.engagement != nil {
		d.engage(key, *h.engagement)
		return stored
	}

	if refused := d.repeats(h); refused != stored {
		return refused
	}
	if usage.Exhausted() {
		return overQuota
	}

	d.changes.Used[key] = usage.Used + 1

	if h.pageview != nil {
		d.view(h)
	} else {
		d.record(h)
	}

	return stored
}

// usage returns the usage with the batch's hits so far. It is false for a deleted site.
func (d *decision) usage(key model.UsageKey) (ingest.Usage, bool) {
	usage, ok := d.state.Usage[key]
	if used, changed := d.changes.Used[key]; changed {
		usage.Used = used
	}
	return usage, ok
}

// markQuotas notes the thresholds of quotas that are reached and not stored as such: by the batch,
// or by a lower plan.
func (d *decision) markQuotas() {
	for key, read := range d.state.Usage {
		usage, _ := d.usage(key)

		// The threshold that was read may belong to a smaller quota, before a change of the plan.
		percent := model.QuotaReached(usage.Used, usage.Quota)
		if percent <= read.Reached && percent <= model.QuotaReached(read.Used, read.Quota) {
			continue
		}

		if d.changes.Reached == nil {
			d.changes.Reached = make(map[model.UsageKey]int16)
		}
		d.changes.Reached[key] = percent
	}
}

// repeats returns why a hit is a duplicate of a stored one, or stored if it is none.
func (d *decision) repeats(h *hit) outcome {
	if h.isManual() {
		if latest := d.latest(h); latest != nil && visit.Repeats(&latest.visit, h.pageview.Path, h.at) {
			return duplicatePageview
		}
	}

	if key, ok := h.transactionKey(); ok {
		switch recorded := cmp.Or(d.recorded[key], d.state.Transactions[key]); {
		case recorded == "":
		case h.event.Name == model.EventRefund && recorded != model.EventRefund:
			return badTransaction
		default:
			return duplicateTransaction
		}
	}

	return stored
}

// Engagement reports are stored under the page view id that they name, without a lookup of the page
// view. An honest page view has reports on at most pageviewReportDays days, on which they count; a
// site can have as many rows as that for its page views and events of the month, and spareReports
// for page views of the month before. So a client that makes up page view ids fills no disk.
const (
	pageviewReportDays = 3
	spareReports       = 1_000
)

// engage merges the reports on one page view id: time adds up, the deepest scroll counts. It drops
// one that needs a row when the site has as many as it can have.
func (d *decision) engage(usage model.UsageKey, e model.Engagement) {
	if e.MS == 0 && e.Scroll == 0 && e.RepeatedAt == 0 {
		return
	}
	if i, ok := d.engagement[e.EngagementKey]; ok {
		sum := &d.changes.Engagement[i]

		// Both are at most 24 h, so the sum does not overflow.
		sum.MS = min(sum.MS+e.MS, int32(model.MaxEngagement.Milliseconds()))
		sum.Scroll = max(sum.Scroll, e.Scroll)
		sum.RepeatedAt = max(sum.RepeatedAt, e.RepeatedAt)

		return
	}

	if !d.state.Reported[e.EngagementKey] {
		current, _ := d.usage(usage)
		if current.Reports+d.changes.Reports[usage] >= pageviewReportDays*current.Used+spareReports {
			return
		}
		d.changes.Reports[usage]++
	}

	d.engagement[e.EngagementKey] = len(d.changes.Engagement)
	d.changes.Engagement = append(d.changes.Engagement, e)
}

// view adds a page view to the visit that awaits it, or to the visitor's current visit, or to a new
// one.
func (d *decision) view(h *hit) {
	at := d.stamps.next(h.at)
	key, _ := h.viewKey()

	// Of page views with one id, the newest has the engagement. A row that may exist is counted as
	// a new one: such ids are rare, and the count is a bound.
	if d.viewed(key) != nil {
		d.engage(h.usageKey(), model.Engagement{
			EngagementKey: model.EngagementKey{SiteID: h.site.id, Day: at.Day(), PageviewID: key.PageviewID},
			RepeatedAt:    at,
		})
	}

	current := d.awaiting(key)
	if current != nil {
		visit.Arrive(&current.visit, key.PageviewID)
		current.further = !current.started
	}

	// The page view may come too late for the visit that awaits it, or with another campaign.
	if current == nil || !visit.Continues(&current.visit, at, &h.entry.campaign) {
		current = d.join(h, at)
	}

	current.further = !current.started
	visit.View(&current.visit, at)
	visit.Add(&current.visit, key.PageviewID)
	d.identify(current, h)

	row := *h.pageview
	row.At, row.Visitor, row.N = at, current.visit.Visitor, current.visit.N
	d.changes.Pageviews = append(d.changes.Pageviews, row)

	if !row.Manual {
		newest := d.latest(h)
		newest.further = !newest.started
		visit.Remember(&newest.visit, row.Path, h.at)
	}
}

// record adds an event to its visit.
func (d *decision) record(h *hit) {
	at := d.stamps.next(h.at)
	current := d.visitOfEvent(h, at)
	d.identify(current, h)

	e := model.Event{
		SiteID:        h.site.id,
		At:            at,
		ID:            rand.Int64(),
		Visitor:       current.visit.Visitor,
		N:             current.visit.N,
		Name:          h.event.Name,
		Path:          h.path,
		Value:         h.event.Value,
		Currency:      h.event.Currency,
		TransactionID: h.event.TransactionID,
		Properties:    h.event.Properties,
	}

	d.changes.Events = append(d.changes.Events, e)

	if key, ok := h.transactionKey(); ok {
		if d.recorded == nil {
			d.recorded = make(map[model.TransactionKey]string)
		}
		d.recorded[key] = e.Name
		d.changes.Transactions = append(d.changes.Transactions,
			model.Transaction{SiteID: e.SiteID, TransactionID: e.TransactionID, Event: e.Name, At: at})
	}

	if h.converts() {
		d.changes.Deliveries = append(d.changes.Deliveries, conversion(h.site.key, &e, &current.visit))
	}
}

// visitOfEvent returns the visit of the page view that the event names, in whatever order the two
// came. An event that names none belongs to the visitor's current visit of the day, or starts one.
func (d *decision) visitOfEvent(h *hit, at model.Instant) *visitChange {
	key, ok := h.viewKey()
	if !ok {
		if current := cmp.Or(d.current(h, at), d.latest(h)); current != nil {
			return current
		}

		return d.begin(h, at)
	}

	if current := d.viewed(key); current != nil {
		return current
	}
	if current := d.awaiting(key); current != nil {
		return current
	}

	current := d.joinUnseen(h, at)
	visit.Await(&current.visit, key.PageviewID)
	current.further = !current.started

	return current
}

// joinUnseen is join for an event whose page view has not arrived. While the visitor's latest visit
// waits in vain for a page view, further ids without a page view open no other visit.
func (d *decision) joinUnseen(h *hit, at model.Instant) *visitChange {
	current := d.current(h, at)
	if current != nil && visit.Continues(&current.visit, at, &h.entry.campaign) {
		return current
	}

	latest := d.latest(h)
	if latest != nil && len(latest.visit.Awaited) > 0 && visit.IsSetAside(&latest.visit, at) {
		return latest
	}

	opened := d.begin(h, at)
	visit.Open(&opened.visit, at)
	return opened
}

// viewed returns the newest of the visitor's visits that has a page view with the id among its
// latest; nil for none.
func (d *decision) viewed(key model.ViewKey) *visitChange {
	for _, c := range d.newest(key.Visitor) {
		if visit.Has(&c.visit, key.PageviewID) {
			return c
		}
	}
	return nil
}

// awaiting returns the visit that awaits a page view; nil for none.
func (d *decision) awaiting(key model.ViewKey) *visitChange {
	for _, c := range d.newest(key.Visitor) {
		if visit.Awaits(&c.visit, key.PageviewID) {
			return c
		}
	}
	return nil
}

// join applies the page view rule: it returns the current visit if that continues, or a new one. If
// all visits are set aside, the latest one is the current one, as after midnight in an open tab:
// its page view belongs to the visitor id of the day before.
func (d *decision) join(h *hit, at model.Instant) *visitChange {
	current := cmp.Or(d.current(h, at), d.latest(h))
	if current == nil || !visit.Continues(&current.visit, at, &h.entry.campaign) {
		return d.begin(h, at)
	}
	return current
}

// current returns the newest visit of the hit's visitor that is not set aside; nil for none.
func (d *decision) current(h *hit, at model.Instant) *visitChange {
	for _, c := range d.newest(h.visitorKey()) {
		if !visit.IsSetAside(&c.visit, at) {
			return c
		}
	}
	return nil
}

// latest returns the newest visit of the hit's visitor; nil for none.
func (d *decision) latest(h *hit) *visitChange {
	if visits := d.newest(h.visitorKey()); len(visits) > 0 {
		return visits[0]
	}
	return nil
}

// newest returns the visitor's newest visits, the last one first.
func (d *decision) newest(key model.VisitorKey) []*visitChange {
	visits, known := d.visitors[key]
	if known {
		return visits
	}

	for _, v := range d.state.Visits[key] {
		visits = append(visits, &visitChange{visit: v})
	}

	d.visitors[key] = visits
	return visits
}

// begin starts a visit with the hit's attribution, and no page view yet.
func (d *decision) begin(h *hit, at model.Instant) *visitChange {
	n, recent := int16(1), []model.RecentView(nil)
	visits := d.newest(h.visitorKey())
	if len(visits) > 0 {
		previous := &visits[0].visit
		n, recent = previous.N+1, previous.Recent
	}

	c := &visitChange{started: true, visit: model.Visit{
		SiteID:    h.site.id,
		N:         n,
		Recent:    recent,
		Visitor:   h.visitor,
		StartedAt: at,
		Referrer:  h.entry.referrer,
		Channel:   h.entry.channel,
		Campaign:  h.entry.campaign,
	}}

	d.visitors[h.visitorKey()] = slices.Insert(visits, 0, c)
	return c
}

// identify sets the visit's pseudonymous user id to the hit's, if it has one, where the latest one
// counts, and what the visit keeps of its browser, where the first one counts.
func (d *decision) identify(c *visitChange, h *hit) {
	if h.userID != nil && !bytes.Equal(c.visit.UserID, h.userID) {
		c.visit.UserID = h.userID
		c.further = !c.started
	}
	if c.visit.Client == (model.Client{}) && h.client != (model.Client{}) {
		c.visit.Client = h.client
		c.further = !c.started
	}
}

// sort lists the changed visits, and puts them and the engagement in the order of their keys. It is
// the last step.
func (d *decision) sort() {
	for _, visits := range d.visitors {
		for _, c := range visits {
			switch {
			case c.started:
				d.changes.NewVisits = append(d.changes.NewVisits, c.visit)
			case c.further:
				d.changes.Continued = append(d.changes.Continued, c.visit)
			}
		}
	}

	slices.SortFunc(d.changes.NewVisits, compareVisits)
	slices.SortFunc(d.changes.Continued, compareVisits)
	slices.SortFunc(d.changes.Engagement, func(a, b model.Engagement) int {
		return a.EngagementKey.Compare(b.EngagementKey)
	})

	// Batches of two months of a site hold different locks, and can have the same transactions. In
	// one order they cannot wait for each other.
	slices.SortFunc(d.changes.Transactions, func(a, b model.Transaction) int {
		return cmp.Or(cmp.Compare(a.SiteID, b.SiteID), cmp.Compare(a.TransactionID, b.TransactionID))
	})
}

func compareVisits(a, b model.Visit) int { return a.Compare(&b) }
