// Package verify compares the journal of a run with the rows that the instance stored.
package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// Verdict is the result of verifying a run. Lost, Duplicated and Wrong must be zero. Acknowledged
// must not be zero, because a run without hits proves nothing.
type Verdict struct {
	Acknowledged int64    `json:"acknowledged"` // hits that were answered with success and must be stored
	Stored       int64    `json:"stored"`       // page views and events of the run
	Unanswered   int64    `json:"unanswered"`   // of these, hits without a response: no fault
	Lost         int64    `json:"lost"`         // acknowledged, but not stored
	Duplicated   int64    `json:"duplicated"`   // stored or counted more than once
	Wrong        int64    `json:"wrong"`        // counters and visits that differ from the rows, and unexpected rows
	Visits       int64    `json:"visits"`       // visits with compared page views
	Details      []string `json:"details,omitempty"`
	Unchecked    []string `json:"unchecked,omitempty"` // checks that were impossible, in sentences
}

// OK reports whether hits were acknowledged and no fault was found.
func (v *Verdict) OK() bool {
	return v.Acknowledged > 0 && v.Lost == 0 && v.Duplicated == 0 && v.Wrong == 0
}

// ErrFaults is the error of a run with a verdict other than OK.
var ErrFaults = errors.New("hits were lost, duplicated or miscounted, or none was acknowledged")

// maxDetails is the largest number of reported faults.
const maxDetails = 20

func (v *Verdict) fault(counter *int64, n int64, format string, args ...any) {
	*counter += n
	if len(v.Details) < maxDetails {
		v.Details = append(v.Details, fmt.Sprintf(format, args...))
	}
}

// Complete reports whether the verdict is OK and nothing was left unchecked, as a private server
// permits.
func (v *Verdict) Complete() bool { return v.OK() && len(v.Unchecked) == 0 }

// Add adds another verdict's counts and details.
func (v *Verdict) Add(other *Verdict) {
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

// Counts returns the numbers of acknowledged hits and of faults, for a sentence.
func (v *Verdict) Counts() string {
	return fmt.Sprintf("%d were acknowledged, %d lost, %d duplicated, %d wrong", v.Acknowledged, v.Lost, v.Duplicated, v.Wrong)
}

// Print writes the verdict for people.
func (v *Verdict) Print(w io.Writer) {
	fmt.Fprintf(w, "%d acknowledged, %d stored (%d of them without an answer): %d lost, %d duplicated, %d wrong; %d visits\n",
		v.Acknowledged, v.Stored, v.Unanswered, v.Lost, v.Duplicated, v.Wrong, v.Visits)

	for _, detail := range v.Details {
		fmt.Fprintln(w, "  fault:", detail)
	}

	for _, sentence := range v.Unchecked {
		fmt.Fprintln(w, "  not checked:", sentence)
	}
}

// Journal compares a journal with the rows that its target has stored. Nothing else may write to
// the run's sites during the comparison.
func Journal(ctx context.Context, path string) (*Verdict, error) {
	head, err := traffic.ReadJournal(path, func(traffic.Entry) error { return nil })
	if err != nil {
		return nil, err
	}

	a, err := target.NewAccount(head.Target)
	if err != nil {
		return nil, err
	}
	if err := a.SignIn(ctx); err != nil {
		return nil, err
	}

	return JournalAs(ctx, a, path)
}

// JournalAs is Journal with an account that is signed in.
func JournalAs(ctx context.Context, a *target.Account, path string) (*Verdict, error) {
	var checks []*siteCheck
	head, err := traffic.ReadJournal(path, func(e traffic.Entry) error {
		for int(e.Site) >= len(checks) {
			checks = append(checks, newSiteCheck())
		}
		checks[e.Site].acknowledge(e)
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

	var all Verdict
	for _, c := range checks {
		all.Add(&c.Verdict)
	}

	return &all, nil
}

// siteCheck checks one site.
type siteCheck struct {
	Verdict
	head *traffic.JournalHead
	site *target.Site

	promised  map[traffic.Mark]bool // acknowledged hits; true: must be stored
	reports   map[traffic.Mark]bool // page views with acknowledged engagement
	rows      map[traffic.Mark]int32
	visits    map[string]visitRows
	keyEvents map[string]int64 // by name
	inMonth   map[string]int64 // rows by month, YYYY-MM
}

// visitRows holds a visit's own page view counter and the number of its rows.
type visitRows struct {
	counted, found int
}

func newSiteCheck() *siteCheck {
	return &siteCheck{promised: make(map[traffic.Mark]bool), reports: make(map[traffic.Mark]bool),
		rows:   make(map[traffic.Mark]int32),
		visits: make(map[string]visitRows), keyEvents: make(map[string]int64), inMonth: make(map[string]int64)}
}

// acknowledge adds one entry of the journal.
func (c *siteCheck) acknowledge(e traffic.Entry) {
	if e.Kind == traffic.Engagement {
		c.reports[e.Mark] = true
		return
	}
	c.promised[e.Mark] = e.Kind.IsStored()
}

func (c *siteCheck) run(ctx context.Context, a *target.Account) error {
	started := time.UnixMicro(c.head.Started)
	for _, kind := range []string{"pageviews", "events"} {
		if err := a.Export(ctx, c.site.ID, kind, started,
			func(r *target.Row) error { c.row(r); return nil }); err != nil {
			return err
		}
	}

	c.compareRows()
	c.compareVisits()

	used, err := a.Usage(ctx, c.site.ID)
	if err != nil {
		return err
	}

	c.compareUsage(used, started)
	return c.compareDeliveries(ctx, a)
}

// row adds one exported row.
func (c *siteCheck) row(r *target.Row) {
	c.Stored++
	c.inMonth[r.Time.Format("2006-01")]++
	if r.Event == "purchase" || r.Event == target.OwnEvents[0] {
		c.keyEvents[r.Event]++
	}

	m, ok := markOf(r)
	if !ok || m.Parts().Run != c.head.Run {
		c.fault(&c.Wrong, 1, "site %s: row %s was not sent by this run", c.site.Domain, r.RowID)
		return
	}

	if k := m.Parts().Kind; k == traffic.Bot || k == traffic.Bad {
		c.fault(&c.Wrong, 1, "site %s: row %s must not be stored", c.site.Domain, r.RowID)
	}
	if c.rows[m]++; c.rows[m] > 1 {
		c.fault(&c.Duplicated, 1, "site %s: row %s is stored again", c.site.Domain, r.RowID)
	}
	if r.Event == "" {
		c.pageview(r, m)
	}
}

// markOf returns the mark that a stored hit carries.
func markOf(r *target.Row) (traffic.Mark, bool) {
	if r.PageviewID != "" {
		return traffic.ParseMark(r.PageviewID)
	}
	if _, id, ok := strings.Cut(r.TransactionID, "-"); ok {
		return traffic.ParseMark(id)
	}

	var p struct{ Mark, File, Host string }
	if json.Unmarshal(r.Properties, &p) != nil {
		return 0, false
	}

	host, _, _ := strings.Cut(p.Host, ".")
	file := strings.TrimSuffix(strings.TrimPrefix(p.File, "/files/"), ".pdf")

	// Each event has exactly one of the three.
	return traffic.ParseMark(p.Mark + file + host)
}

// pageview checks a page view's engagement and counts it for its visit.
func (c *siteCheck) pageview(r *target.Row, m traffic.Mark) {
	switch {
	case r.EngagedMS > m.EngagedMS():
		c.fault(&c.Duplicated, 1, "site %s: the report on page view %s counts more than once", c.site.Domain,
			r.PageviewID)
	case r.EngagedMS != 0 && r.EngagedMS < m.EngagedMS():
		c.fault(&c.Wrong, 1, "site %s: page view %s has %d ms instead of %d", c.site.Domain, r.PageviewID, r.EngagedMS,
			m.EngagedMS())
	case r.EngagedMS == 0 && c.reports[m] && c.promised[m]:
		c.fault(&c.Lost, 1, "site %s: the report on page view %s", c.site.Domain, r.PageviewID)
	}

	if r.VisitStartedAt.UnixMicro() < c.head.Started {
		// The visit has page views from before the run.
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
				c.fault(&c.Lost, 1, "site %s: hit %s", c.site.Domain, m.Append(nil))
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
			c.fault(&c.Wrong, 1, "site %s: visit %s has %d page views, but its counter is %d", c.site.Domain, id,
				v.found, v.counted)
		}
	}
}

// compareUsage compares the quota's counter with the rows of its month. Usage before the run counts
// for the month in which the run started.
func (c *siteCheck) compareUsage(used target.Usage, started time.Time) {
	rows := c.inMonth[used.Period]
	if used.Period == started.UTC().Format("2006-01") {
		rows += c.site.Used
	}
	if used.Pageviews != rows {
		c.fault(&c.Wrong, max(used.Pageviews-rows, rows-used.Pageviews),
			"site %s: the counter is %d, but there are %d rows", c.site.Domain, used.Pageviews, rows)
	}
}

// compareDeliveries checks that each key event has exactly one delivery.
func (c *siteCheck) compareDeliveries(ctx context.Context, a *target.Account) error {
	if !c.head.Features.Conversions {
		c.Unchecked = append(c.Unchecked, "deliveries: the target refused a conversion webhook")
		return nil
	}

	made, err := a.Deliveries(ctx, c.site.ID, "")
	if err != nil {
		return err
	}

	for event := range made {
		// Include events that should have no delivery.
		c.keyEvents[event] += 0
	}

	for event, stored := range c.keyEvents {
		if n := made[event]; n != stored {
			c.fault(&c.Wrong, max(n-stored, stored-n), "site %s: %d key events %s have %d deliveries", c.site.Domain,
				stored, event, n)
		}
	}

	return nil
}
