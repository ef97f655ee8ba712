package history_test

import (
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/demo/history"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) { os.Exit(dbtest.RunByTurns(m)) }

// noon is the time at which the shop's history ends.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// TestGenerate checks each row of two weeks: its time, its visit, its order, and that the same call
// returns the same rows.
func TestGenerate(t *testing.T) {
	to := model.At(noon)
	from := (to.Day() - 14).Start()
	rows := history.Generate(1, from, to)
	testkit.DeepEqual(t, rows, history.Generate(1, from, to), "two calls returned different rows")
	if other := history.Generate(2, from, to); reflect.DeepEqual(rows.NewVisits[0].Visitor, other.NewVisits[0].Visitor) {
		t.Error("two sites have the same visitors")
	}

	type key struct {
		day     model.Day
		visitor model.VisitorID
		n       int16
	}
	views := make(map[key]int32)
	within := func(at model.Instant, visitor model.VisitorID, n int16) {
		if at <= from || at > to {
			t.Errorf("a row of %v is outside %v and %v", at.Time(), from.Time(), to.Time())
		}
		if _, ok := views[key{at.Day(), visitor, n}]; !ok {
			t.Errorf("a row of %v has no visit on its day", at.Time())
		}
	}

	again := 0
	for _, v := range rows.NewVisits {
		if v.N > 1 {
			again++
		}
		views[key{v.Day(), v.Visitor, v.N}] = v.Pageviews
	}
	if len(views) != len(rows.NewVisits) {
		t.Errorf("%d visits have %d keys", len(rows.NewVisits), len(views))
	}
	if n := len(rows.NewVisits); again < n/20 || again > n/5 {
		t.Errorf("%d of %d visits are a visitor's second ones of the day", again, n)
	}

	ids := make(map[int64]bool)
	for _, p := range rows.Pageviews {
		within(p.At, p.Visitor, p.N)
		views[key{p.At.Day(), p.Visitor, p.N}]--
		ids[p.ID] = true
	}
	for k, left := range views {
		if left != 0 {
			t.Errorf("a visit of %v counts %d more page views than it has", k.day, left)
		}
	}
	for _, e := range rows.Engagement {
		if !ids[e.PageviewID] {
			t.Errorf("engagement of %v has no page view", e.Day)
		}
	}

	count := make(map[string]int)
	var transactions int
	for _, e := range rows.Events {
		within(e.At, e.Visitor, e.N)
		count[e.Name]++
		if e.TransactionID != "" {
			transactions++
		}
		if sold := e.Name == model.EventPurchase; sold && e.Value <= 0 || e.Name == model.EventRefund && e.Value >= 0 {
			t.Errorf("%s of %v", e.Name, e.Value)
		}
	}
	if transactions != len(rows.Transactions) || transactions != count[model.EventPurchase]+count[model.EventRefund] {
		t.Errorf("%d transactions, %d records, %v", transactions, len(rows.Transactions), count)
	}
	for _, name := range []string{model.EventViewItem, model.EventAddToCart, model.EventBeginCheckout, model.EventPurchase,
		model.EventScroll, history.EventColour, history.EventNewsletter} {
		if count[name] == 0 {
			t.Errorf("there is no %s", name)
		}
	}
}

// TestGenerateInParts checks that a day in two parts has the visits of the whole day.
func TestGenerateInParts(t *testing.T) {
	day := model.At(noon).Day() - 1
	whole := history.Generate(1, day.Start()-1, (day+1).Start()-1)
	parts := len(history.Generate(1, day.Start()-1, day.Start().Add(15*time.Hour)).NewVisits) +
		len(history.Generate(1, day.Start().Add(15*time.Hour), (day+1).Start()-1).NewVisits)
	testkit.Equal(t, parts, len(whole.NewVisits), "visits in two parts, %d in one", len(whole.NewVisits))
}

// TestFill fills a shop, and again two days later. The reports equal the rows, and the quota and
// the usage by day count them.
func TestFill(t *testing.T) {
	testkit.SkipLong(t, "a year of hits")
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example")
		shop := history.Shop{AccountID: site.AccountID, SiteID: site.ID}
		var before int
		first := model.At(time.Now()).Day() - history.Days - 2
		for _, now := range []time.Time{time.Now().AddDate(0, 0, -2), time.Now()} {
			start := time.Now()
			testkit.NoError(t, history.Fill(t.Context(), d, shop, now))
			t.Logf("filled in %v", time.Since(start))

			days, err := sites.New(d).Usage.UsageByDay(t.Context(), []model.SiteID{site.ID}, first)
			testkit.NoError(t, err)
			if n := len(days[site.ID]); n < 80 || n <= before {
				t.Errorf("usage of %d days after that of %d", n, before)
			} else {
				before = n
			}
		}

		checked, err := reports.New(d).Check(t.Context(), site.ID, func(d reports.Difference) { t.Errorf("%+v", d) })
		if err != nil || checked.Days < history.Days-5 {
			t.Errorf("%d days were checked, %v", checked.Days, err)
		}
	})
}
