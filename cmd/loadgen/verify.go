package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

// verdict is what became of a run's hits. Lost, Duplicated and Wrong must be zero, Acknowledged
// must not: nothing sent proves nothing.
type verdict struct {
	Acknowledged int64    `json:"acknowledged"` // hits that were answered with success and have to be there
	Stored       int64    `json:"stored"`       // page views and events of the run
	Unanswered   int64    `json:"unanswered"`   // of those, the ones whose answer got lost: no fault
	Lost         int64    `json:"lost"`         // acknowledged, but not stored
	Duplicated   int64    `json:"duplicated"`   // stored or counted more than once
	Wrong        int64    `json:"wrong"`        // counters and visits that differ from the rows, rows that must not be there
	Visits       int64    `json:"visits"`       // whose page views were counted
	Details      []string `json:"details,omitempty"`
	Unchecked    []string `json:"unchecked,omitempty"` // what could not be checked, in sentences
}

func (v *verdict) ok() bool {
	return v.Acknowledged > 0 && v.Lost == 0 && v.Duplicated == 0 && v.Wrong == 0
}

// maxDetails bounds the list of faults: the first ones tell the most.
const maxDetails = 20

func (v *verdict) fault(counter *int64, n int64, format string, args ...any) {
	*counter += n
	if len(v.Details) < maxDetails {
		v.Details = append(v.Details, fmt.Sprintf(format, args...))
	}
}

// complete is ok with nothing left out: a server of our own offers all that is to be checked.
func (v *verdict) complete() bool { return v.ok() && len(v.Unchecked) == 0 }

func (v *verdict) add(other *verdict) {
	v.Acknowledged += other.Acknowledged
	v.Stored += other.Stored
	v.Unanswered += other.Unanswered
	v.Lost += other.Lost
	v.Duplicated += other.Duplicated
	v.Wrong += other.Wrong
	v.Visits += other.Visits
	v.Details = append(v.Details, other.Details[:min(len(other.Details), maxDetails-len(v.Details))]...)
	for _, sentence := range other.Unchecked {
		if len(v.Unchecked) == 0 || v.Unchecked[len(v.Unchecked)-1] != sentence {
			v.Unchecked = append(v.Unchecked, sentence)
		}
	}
}

func (v *verdict) print(w io.Writer) {
	fmt.Fprintf(w, "%d acknowledged, %d stored (%d of them without an answer): %d lost, %d duplicated, %d wrong; %d visits\n",
		v.Acknowledged, v.Stored, v.Unanswered, v.Lost, v.Duplicated, v.Wrong, v.Visits)

	for _, detail := range v.Details {
		fmt.Fprintln(w, "  fault:", detail)
	}

	for _, sentence := range v.Unchecked {
		fmt.Fprintln(w, "  not checked:", sentence)
	}
}

// verify compares a journal with what its target has stored. Nothing may be sent to the run's sites
// meanwhile.
func verify(ctx context.Context, path string) (*verdict, error) {
	head, err := readJournal(path, func(entry) error { return nil })
	if err != nil {
		return nil, err
	}

	a, err := newAccount(head.Target)
	if err != nil {
		return nil, err
	}
	if err := a.signIn(ctx); err != nil {
		return nil, err
	}

	return verifyAs(ctx, a, path)
}

// verifyAs is verify with an account that is signed in.
func verifyAs(ctx context.Context, a *account, path string) (*verdict, error) {
	var checks []*siteCheck
	head, err := readJournal(path, func(e entry) error {
		for int(e.site) >= len(checks) {
			checks = append(checks, newSiteCheck())
		}
		checks[e.site].acknowledge(e)
		return nil
	})
	if err != nil {
		return nil, err
	}

	for len(checks) < len(head.Sites) {
		checks = append(checks, newSiteCheck())
	}

	var group errgroup.Group
	group.SetLimit(2)

	for i, c := range checks {
		c.head, c.site = &head, &head.Sites[i]
		group.Go(func() error { return c.run(ctx, a) })
	}

	if err := group.Wait(); err != nil {
		return nil, err
	}

	var all verdict
	for _, c := range checks {
		all.add(&c.verdict)
	}

	return &all, nil
}

// siteCheck is the check of one site.
type siteCheck struct {
	verdict
	head *journalHead
	site *site

	promised  map[mark]bool // the acknowledged hits; true: must be stored
	reports   map[mark]bool // page views whose engagement was acknowledged
	rows      map[mark]int32
	visits    map[string]visitRows
	keyEvents map[string]int64 // by name
	inMonth   map[string]int64 // rows by month, YYYY-MM
}

// visitRows compares a visit's own count with its rows.
type visitRows struct {
	counted, found int
}

func newSiteCheck() *siteCheck {
	return &siteCheck{promised: make(map[mark]bool), reports: make(map[mark]bool), rows: make(map[mark]int32),
		visits: make(map[string]visitRows), keyEvents: make(map[string]int64), inMonth: make(map[string]int64)}
}

// acknowledge takes one entry of the journal.
func (c *siteCheck) acknowledge(e entry) {
	if e.kind == engagement {
		c.reports[e.mark] = true
		return
	}
	c.promised[e.mark] = e.kind.isStored()
}

func (c *siteCheck) run(ctx context.Context, a *account) error {
	started := time.UnixMicro(c.head.Started)
	for _, kind := range []string{"pageviews", "events"} {
		if err := a.export(ctx, c.site.ID, kind, started, func(r *row) error { c.row(r); return nil }); err != nil {
			return err
		}
	}

	c.compareRows()
	c.compareVisits()

	used, err := a.usage(ctx, c.site.ID)
	if err != nil {
		return err
	}

	c.compareUsage(used, started)
	return c.compareDeliveries(ctx, a)
}

// row takes one exported row.
func (c *siteCheck) row(r *row) {
	c.Stored++
	c.inMonth[r.Time.Format("2006-01")]++
	if r.Event == "purchase" || r.Event == ownEvents[0] {
		c.keyEvents[r.Event]++
	}

	m, ok := r.mark()
	if !ok || m.parts().run != c.head.Run {
		c.fault(&c.Wrong, 1, "site %s: row %s was not sent", c.site.Domain, r.RowID)
		return
	}

	if k := m.parts().kind; k == bot || k == bad {
		c.fault(&c.Wrong, 1, "site %s: row %s must not be stored", c.site.Domain, r.RowID)
	}
	if c.rows[m]++; c.rows[m] > 1 {
		c.fault(&c.Duplicated, 1, "site %s: row %s is stored again", c.site.Domain, r.RowID)
	}
	if r.Event == "" {
		c.pageview(r, m)
	}
}

// pageview checks a page view's engagement and counts it for its visit.
func (c *siteCheck) pageview(r *row, m mark) {
	switch {
	case r.EngagedMS > m.engagedMS():
		c.fault(&c.Duplicated, 1, "site %s: the report on page view %s counts more than once", c.site.Domain, r.PageviewID)
	case r.EngagedMS != 0 && r.EngagedMS < m.engagedMS():
		c.fault(&c.Wrong, 1, "site %s: page view %s has %d ms instead of %d", c.site.Domain, r.PageviewID, r.EngagedMS, m.engagedMS())
	case r.EngagedMS == 0 && c.reports[m] && c.promised[m]:
		c.fault(&c.Lost, 1, "site %s: the report on page view %s", c.site.Domain, r.PageviewID)
	}

	if r.VisitStartedAt.UnixMicro() < c.head.Started {
		// it has page views from before
		return
	}

	v := c.visits[r.VisitID]
	v.counted, v.found = r.VisitPageviews, v.found+1
	c.visits[r.VisitID] = v
}

func (c *siteCheck) compareRows() {
	for m, must := range c.promised {
		if must {
			c.Acknowledged++
			if c.rows[m] == 0 {
				c.fault(&c.Lost, 1, "site %s: hit %s", c.site.Domain, m.append(nil))
			}
		}
	}

	for m := range c.rows {
		if _, ok := c.promised[m]; !ok {
			c.Unanswered++
		}
	}
}

func (c *siteCheck) compareVisits() {
	c.Visits = int64(len(c.visits))
	for id, v := range c.visits {
		if v.counted != v.found {
			c.fault(&c.Wrong, 1, "site %s: visit %s has %d page views and says %d", c.site.Domain, id, v.found, v.counted)
		}
	}
}

// compareUsage compares the quota's counter with the rows of its month. What was used before the
// run belongs to the month in which the run began.
func (c *siteCheck) compareUsage(used usage, started time.Time) {
	rows := c.inMonth[used.Period]
	if used.Period == started.UTC().Format("2006-01") {
		rows += c.site.Used
	}
	if used.Pageviews != rows {
		c.fault(&c.Wrong, max(used.Pageviews-rows, rows-used.Pageviews), "site %s: the counter says %d, there are %d rows", c.site.Domain, used.Pageviews, rows)
	}
}

// compareDeliveries checks that each key event has one delivery.
func (c *siteCheck) compareDeliveries(ctx context.Context, a *account) error {
	if !c.head.Features.Conversions {
		c.Unchecked = append(c.Unchecked, "deliveries: the target let us set up no conversion webhook")
		return nil
	}

	made, err := a.deliveries(ctx, c.site.ID)
	if err != nil {
		return err
	}

	for event := range made {
		// also those that there should be none of
		c.keyEvents[event] += 0
	}

	for event, stored := range c.keyEvents {
		if n := made[event]; n != stored {
			c.fault(&c.Wrong, max(n-stored, stored-n), "site %s: %d key events %s have %d deliveries", c.site.Domain, stored, event, n)
		}
	}

	return nil
}
