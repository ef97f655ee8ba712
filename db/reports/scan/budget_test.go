package scan_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// distinct is a day of visits with different paths, properties, user ids and currencies.
func distinct(t *testing.T, visits int) *segment.Segment {
	t.Helper()
	day := model.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)).Day()
	rows := segment.Rows{Day: day}
	for i := range visits {
		key := segment.VisitKey{Visitor: model.VisitorID{byte(i), byte(i >> 8)}, N: 1}
		at := day.Start().Add(time.Duration(i) * time.Second)
		rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct", UserID: fmt.Sprintf("%016d", i)})
		rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, Path: fmt.Sprintf("/%d", i), Width: -1})
		rows.Events = append(rows.Events, segment.Event{VisitKey: key, At: at, Name: model.EventPurchase, Path: "/", Value: 1,
			Currency: string([]byte{'A', 'A' + byte(i/26%26), 'A' + byte(i%26)}), Properties: fmt.Sprintf(`{"a":%d}`, i)})
	}
	g, err := segment.Build(rows)
	testkit.NoError(t, err)
	return g
}

// TestBudget checks that each thing whose number clients choose is counted, and that a report
// beyond its budget fails.
func TestBudget(t *testing.T) {
	const visits = 900
	g := distinct(t, visits)
	from := scan.DateOf(g.First.Start().Time())

	for name, change := range map[string]func(*scan.Query){
		"pages":                   func(q *scan.Query) { q.Breakdowns = []scan.Breakdown{{By: scan.Page}} },
		"pages by visitors alone": func(q *scan.Query) { q.Breakdowns = []scan.Breakdown{{By: scan.Page, VisitorsOnly: true}} },
		"values of a property":    func(q *scan.Query) { q.Breakdowns = []scan.Breakdown{{By: scan.Property, Property: "a"}} },
		"names of properties":     func(q *scan.Query) { q.Properties = &scan.PropertyNames{} },
		"user ids of a funnel": func(q *scan.Query) {
			q.Funnels = []scan.Funnel{{Steps: []scan.Step{{Page: "**"}, {Event: model.EventPurchase}}}}
		},
		"numbers": func(q *scan.Query) { q.Numbers = []scan.Numbers{{Event: model.EventPurchase, Property: "a"}} },
		"rows of numbers": func(q *scan.Query) {
			q.Numbers = []scan.Numbers{{Event: model.EventPurchase, Property: "none", Groups: scan.NumberRows, By: scan.EntryPage}}
		},
		"currencies": func(q *scan.Query) { q.Breakdowns = []scan.Breakdown{{By: scan.Channel}, {By: scan.Width}} },
	} {
		count := func(ctx context.Context, bytes int64) (int64, error) {
			q := &scan.Query{Zone: time.UTC, From: from, To: from, KeyEvents: map[string]bool{model.EventPurchase: true}}
			change(q)
			budget := scan.NewBudget(bytes)
			err := scan.NewWithin(ctx, q, budget).Add(g)
			return budget.Used(), err
		}

		used, err := count(t.Context(), 1<<30)
		if err != nil || used < 10*visits {
			t.Errorf("%s: error %v, %d bytes; want at least 10 for each of %d", name, err, used, visits)
		}
		if _, err := count(t.Context(), used-1); !errors.Is(err, scan.ErrBudget) {
			t.Errorf("%s: error %v with a byte less, want ErrBudget", name, err)
		}
		if _, err := count(t.Context(), used); err != nil {
			t.Errorf("%s: error %v with as much as it uses", name, err)
		}

		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := count(ended, 1<<30); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v after its end, want canceled", name, err)
		}
	}
}

// TestOtherRow checks that what a segment counts together has one row, which filters find.
func TestOtherRow(t *testing.T) {
	g := distinct(t, 1_500) // more values than segment.DayLimits.ValuesOf
	from := scan.DateOf(g.First.Start().Time())
	q := &scan.Query{Zone: time.UTC, From: from, To: from, Breakdowns: []scan.Breakdown{{By: scan.Property, Property: "a"}, {By: scan.Page}}}
	s := scan.New(q)
	testkit.NoError(t, s.Add(g))

	r := s.Result()
	rows := r.Breakdowns[0]
	if !rows.Other || rows.Len() != segment.DayLimits.ValuesOf+1 || rows.Of(scan.OtherValue).Events != 500 || r.Totals.Events != 1_500 {
		t.Errorf("%d rows (other: %v), %d events in the row of others, %d in all; want %d rows, 500 of 1,500",
			rows.Len(), rows.Other, rows.Of(scan.OtherValue).Events, r.Totals.Events, segment.DayLimits.ValuesOf+1)
	}
	if pages := r.Breakdowns[1]; pages.Other || pages.Len() != 1_501 {
		t.Errorf("%d pages (other: %v), want 1,501", pages.Len(), pages.Other)
	}

	filtered := *q
	filtered.Filters = []scan.Filter{oracle.Is(scan.Property, scan.OtherValue)}
	filtered.Filters[0].Property = "a"
	s = scan.New(&filtered)
	testkit.NoError(t, s.Add(g))
	if got := s.Result().Totals.Events; got != 500 {
		t.Errorf("a filter by the row of others keeps %d events, want 500", got)
	}
}

// leaving is a context that ends after a number of looks at it.
type leaving struct {
	context.Context
	looks int
}

func (c *leaving) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestMatchingEndsWithItsContext checks that a count ends soon after its caller has left, while
// texts are compared with a filter.
func TestMatchingEndsWithItsContext(t *testing.T) {
	g := distinct(t, 2_000)
	from := scan.DateOf(g.First.Start().Time())
	q := oracle.Filtered(&scan.Query{Zone: time.UTC, From: from, To: from}, scan.Page, "/")

	ctx := &leaving{t.Context(), 3}
	if err := scan.NewWithin(ctx, q, nil).Add(g); !errors.Is(err, context.Canceled) || ctx.looks < -10 {
		t.Errorf("error %v after %d more looks; want canceled soon", err, -ctx.looks)
	}
}
