package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// TestWriterAgainstModel drives random hits in random batches through two real writers in turn,
// which know nothing of each other, and compares every outcome and all that is stored with a model
// that knows the contract's rules and nothing of batches, locks or databases.
func TestWriterAgainstModel(t *testing.T) {
	t.Parallel()
	// 13 and 24 set the clock back between two automatic page views.
	for _, seed := range []uint64{0, 1, 2, 13, 24} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Run("sqlite", func(t *testing.T) {
				compareWithModel(t, dbtest.Open(t, dbtest.SQLiteURL(t)), rand.New(rand.NewPCG(seed, 1)), 60, 12)
			})

			// The engines share the rules, and PostgreSQL takes four times as long.
			if seed == 0 || seed == 13 {
				t.Run("postgres", func(t *testing.T) {
					compareWithModel(t, dbtest.Open(t, dbtest.PostgresURL(t)), rand.New(rand.NewPCG(seed, 1)), 60, 12)
				})
			}
		})
	}

	// PostgreSQL takes large batches in another way.
	t.Run("large batches", func(t *testing.T) {
		compareWithModel(t, dbtest.Open(t, dbtest.PostgresURL(t)), rand.New(rand.NewPCG(5, 1)), 24, 120)
	})
}

// compareWithModel compares that many batches, each of at most largest hits, with the model.
func compareWithModel(t *testing.T, d *db.DB, random *rand.Rand, batches, largest int) {
	writers := [2]*writer{newWriter(storeOf(t, d), StoreTimeout, nil, nil), newWriter(storeOf(t, d), StoreTimeout, nil, nil)}
	for _, w := range writers {
		defer w.Stop(context.Background())
	}

	sites := []*site{modelSite(t, d, "large.example", 1<<40), modelSite(t, d, "small.example", 60)}
	expected := newModelState(sites, []int64{1 << 40, 60})

	// midnight and the month's end come soon
	now := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)

	// number counts the hits. It is the page view's id and, so that rows can be distinguished, its
	// width.
	number := 0

	for round := range batches {
		var hits []*hit
		for range 1 + random.IntN(largest) {
			switch random.IntN(12) {
			case 0:
				now = now.Add(time.Duration(random.IntN(45)) * time.Minute)
			case 1:
				now = now.Add(-5 * time.Second)
			default:
				now = now.Add(time.Duration(random.IntN(1500)) * time.Millisecond)
			}

			number++
			hits = append(hits, randomHit(random, sites, model.At(now), number))
		}

		outcomes, err := writers[round%2].Commit(t.Context(), hits)
		testkit.NoError(t, err)

		for i, h := range hits {
			if want := expected.take(h); outcomes[i] != want {
				t.Fatalf("hit at %v (%+v): outcome %d, want %d", h.at.Time(), h, outcomes[i], want)
			}
		}
	}

	expected.compare(t, d)
}

// storeOf returns a store of the cell of the sites.
func storeOf(t testing.TB, d *db.DB) HitStore {
	t.Helper()
	return ingest.NewHitStore(dbtest.SitesCell(t, d))
}

// modelSite creates a site with a quota.
func modelSite(t testing.TB, d *db.DB, domain string, quota int64) *site {
	t.Helper()
	row := world.New(t, d).Site(domain, world.Quota(quota))
	return &site{id: row.ID, key: row.SiteKey, keyEvents: map[string]bool{model.EventPurchase: true}}
}

// randomHit makes a hit with few different values, so that rules meet. A visitor's pseudonym is its
// number and the day.
func randomHit(random *rand.Rand, sites []*site, at model.Instant, number int) *hit {
	pick := func(values ...string) string { return values[random.IntN(len(values))] }
	h := &hit{site: sites[random.IntN(len(sites))], at: at, visitor: model.VisitorID{byte(random.IntN(3)), byte(at.Day())}}
	h.entry.campaign.Source, h.entry.campaign.Name = pick("", "", "x", "y"), pick("", "", "", "spring")
	h.entry.channel = "direct"
	path := pick("/a", "/b")

	switch random.IntN(10) {
	case 0, 1, 2:
		h.engagement = &model.Engagement{
			EngagementKey: model.EngagementKey{SiteID: h.site.id, Day: at.Day(), PageviewID: int64(max(1, number-1-random.IntN(3)))},
			MS:            int32(random.IntN(5_000)), Scroll: int16(random.IntN(101)),
		}
	case 3, 4:
		h.path = path
		h.event = &event.Accepted{Name: pick("signup", model.EventPurchase, model.EventPurchase, model.EventRefund)}
		if h.event.Name != "signup" {
			h.event.TransactionID, h.event.Currency = pick("1", "2", "3", "4", "5"), "EUR"
			h.event.Value = model.Money(number) * 1_000_000
		}
	default:
		h.pageview = &model.Pageview{SiteID: h.site.id, ID: int64(number), Path: path, Manual: random.IntN(3) == 0, WidthRange: int16(number)}
	}

	return h
}

// modelState is the model: what should be stored, by the contract alone.
type modelState struct {
	quota        map[model.SiteID]int64
	used         map[model.UsageKey]int64
	visits       []*modelVisit
	views        []*modelView
	events       []string
	transactions map[model.TransactionKey]string
	deliveries   []string
}

type modelVisit struct {
	visitor model.VisitorKey
	source  string
	name    string
	last    model.Instant // 0 before the first page view
	views   int
}

type modelView struct {
	hit    *hit
	visit  *modelVisit
	ms     int64
	scroll int16
}

func newModelState(sites []*site, quotas []int64) *modelState {
	s := &modelState{quota: make(map[model.SiteID]int64), used: make(map[model.UsageKey]int64), transactions: make(map[model.TransactionKey]string)}
	for i, site := range sites {
		s.quota[site.id] = quotas[i]
	}
	return s
}

func (s *modelState) take(h *hit) outcome {
	if h.engagement != nil {
		for _, v := range s.views {
			if v.hit.site == h.site && v.hit.pageview.ID == h.engagement.PageviewID {
				v.ms, v.scroll = v.ms+int64(h.engagement.MS), max(v.scroll, h.engagement.Scroll)
			}
		}

		return stored
	}

	if h.pageview != nil && h.pageview.Manual && s.repeats(h) {
		return duplicatePageview
	}

	if h.event != nil && h.event.TransactionID != "" {
		switch recorded := s.transactions[model.TransactionKey{SiteID: h.site.id, TransactionID: h.event.TransactionID}]; {
		case recorded == model.EventPurchase && h.event.Name == model.EventRefund:
			return badTransaction
		case recorded != "":
			return duplicateTransaction
		}
	}

	key := model.UsageKey{SiteID: h.site.id, Month: h.at.Month()}
	if s.used[key] >= s.quota[h.site.id] {
		return overQuota
	}

	s.used[key]++

	if h.event != nil {
		s.record(h)
	} else {
		s.view(h)
	}

	return stored
}

// repeats reports a manual page view within a second of an automatic one on its path. Only a clock
// that steps back can bring an automatic one close again that a later one, by more than a second,
// has followed; that one no longer counts.
func (s *modelState) repeats(h *hit) bool {
	automatic := func(v *modelView) bool { return !v.hit.pageview.Manual && v.hit.visitorKey() == h.visitorKey() }
	for i, v := range s.views {
		followed := slices.ContainsFunc(s.views[i:], func(later *modelView) bool {
			return automatic(later) && later.hit.at.Sub(v.hit.at) > time.Second
		})
		if automatic(v) && !followed && v.hit.pageview.Path == h.pageview.Path && h.at.Sub(v.hit.at).Abs() <= time.Second {
			return true
		}
	}

	return false
}

func (s *modelState) current(h *hit) *modelVisit {
	for _, v := range slices.Backward(s.visits) {
		if v.visitor == h.visitorKey() {
			return v
		}
	}
	return nil
}

func (s *modelState) begin(h *hit) *modelVisit {
	v := &modelVisit{visitor: h.visitorKey(), source: h.entry.campaign.Source, name: h.entry.campaign.Name}
	s.visits = append(s.visits, v)
	return v
}

func (s *modelState) view(h *hit) {
	v, c := s.current(h), h.entry.campaign
	differs := func(carried, current string) bool { return carried != "" && carried != current }
	if v == nil || v.last == 0 || h.at.Sub(v.last) >= 30*time.Minute || differs(c.Source, v.source) || differs(c.Name, v.name) {
		v = s.begin(h)
	}

	v.views++
	v.last = max(v.last, h.at)
	s.views = append(s.views, &modelView{hit: h, visit: v})
}

func (s *modelState) record(h *hit) {
	v := s.current(h)
	if v == nil {
		v = s.begin(h)
	}

	s.events = append(s.events, fmt.Sprint(h.site.id, " ", h.event.Name, " ", h.event.TransactionID))

	if h.event.TransactionID != "" {
		s.transactions[model.TransactionKey{SiteID: h.site.id, TransactionID: h.event.TransactionID}] = h.event.Name
	}

	if h.event.Name == model.EventPurchase {
		s.deliveries = append(s.deliveries, fmt.Sprintf("%s %s %s: %d %s for %s from %q %q", h.site.key, h.event.Name, h.path,
			h.event.Value/1_000_000, h.event.Currency, h.event.TransactionID, v.source, v.name))
	}
}

func (s *modelState) compare(t *testing.T, d *db.DB) {
	t.Helper()

	for key, want := range s.used {
		if used, err := sites.New(d).Usage.MonthlyUsage(t.Context(), key.Month, []model.SiteID{key.SiteID}); err != nil || used[key.SiteID] != want {
			t.Errorf("site %d in %v counts %d, want %d; %v", key.SiteID, key.Month, used[key.SiteID], want, err)
		}
	}

	s.compareMarks(t, d)
	s.compareViews(t, d)
	var visits, views []string
	for _, v := range s.visits {
		visits = append(visits, fmt.Sprint(v.visitor.SiteID, " ", v.visitor.Visitor[:2], " ", v.source, " ", v.name, " ", v.views))
	}

	type row struct {
		SiteID      model.SiteID
		Visitor     model.VisitorID
		Attribution string
		Pageviews   int
	}

	rows, err := dbtest.Rows[row](d, "SELECT site_id, visitor, attribution, pageviews FROM visits")
	testkit.NoError(t, err)

	for _, v := range rows {
		_, campaign := model.UnpackAttribution(v.Attribution)
		views = append(views, fmt.Sprint(v.SiteID, " ", v.Visitor[:2], " ", campaign.Source, " ", campaign.Name, " ", v.Pageviews))
	}

	slices.Sort(visits)
	slices.Sort(views)

	if !slices.Equal(visits, views) {
		t.Errorf("visits stored\n%v, want\n%v", views, visits)
	}

	events, err := dbtest.Rows[model.Event](d, "SELECT site_id, name, transaction_id FROM events")
	testkit.NoError(t, err)

	var names []string
	for _, e := range events {
		names = append(names, fmt.Sprint(e.SiteID, " ", e.Name, " ", e.TransactionID))
	}

	slices.Sort(names)
	slices.Sort(s.events)

	if !slices.Equal(names, s.events) {
		t.Errorf("events stored\n%v, want\n%v", names, s.events)
	}
	dbtest.HasRows(t, d, "transactions", len(s.transactions), "transactions")

	s.compareDeliveries(t, d)
}

// compareDeliveries compares what the owners' servers will be sent.
func (s *modelState) compareDeliveries(t *testing.T, d *db.DB) {
	t.Helper()

	deliveries, err := dbtest.Rows[model.Delivery](d, "SELECT body FROM deliveries")
	testkit.NoError(t, err)

	var bodies []string
	for _, delivery := range deliveries {
		var b struct {
			Event         string  `json:"event"`
			SiteKey       string  `json:"site_key"`
			Path          string  `json:"path"`
			Value         float64 `json:"value"`
			Currency      string  `json:"currency"`
			TransactionID string  `json:"transaction_id"`
			Attribution   struct {
				Source   string `json:"utm_source"` // null stays empty
				Campaign string `json:"utm_campaign"`
			} `json:"attribution"`
		}
		if err := json.Unmarshal([]byte(delivery.Body), &b); err != nil {
			t.Fatalf("body %s: %v", delivery.Body, err)
		}

		bodies = append(bodies, fmt.Sprintf("%s %s %s: %v %s for %s from %q %q", b.SiteKey, b.Event, b.Path,
			b.Value, b.Currency, b.TransactionID, b.Attribution.Source, b.Attribution.Campaign))
	}

	slices.Sort(bodies)
	slices.Sort(s.deliveries)

	if !slices.Equal(bodies, s.deliveries) {
		t.Errorf("deliveries stored\n%q, want\n%q", bodies, s.deliveries)
	}
}

// compareViews compares each site's page views in the order in which they arrived, and the visits
// they are grouped into.
func (s *modelState) compareViews(t *testing.T, d *db.DB) {
	t.Helper()

	for siteID := range s.quota {
		var want []string
		numbers := make(map[*modelVisit]int)

		mine := slices.DeleteFunc(slices.Clone(s.views), func(v *modelView) bool { return v.hit.site.id != siteID })
		for _, v := range mine {
			if numbers[v.visit] == 0 {
				numbers[v.visit] = len(numbers) + 1
			}

			want = append(want, fmt.Sprint(v.hit.pageview.ID, " ", v.hit.pageview.Path, " ", v.hit.pageview.Manual, " visit ", numbers[v.visit], " ",
				v.ms, " ms ", v.scroll, " %"))
		}

		var rows []exports.Pageview
		err := exports.New(d).ExportPageviews(t.Context(), exports.Range{SiteID: siteID, To: 1 << 51, Limit: 1_000_000},
			func(p *exports.Pageview) error { rows = append(rows, *p); return nil })

		// the order of arrival
		slices.SortFunc(rows, func(a, b exports.Pageview) int { return int(a.ID - b.ID) })
		var got []string

		stored := make(map[string]int)
		for _, p := range rows {
			if stored[p.Visit.ID()] == 0 {
				stored[p.Visit.ID()] = len(stored) + 1
			}

			got = append(got, fmt.Sprint(p.ID, " ", p.Path, " ", p.Manual, " visit ", stored[p.Visit.ID()], " ", p.EngagedMS, " ms ", p.Scroll, " %"))
		}

		if err != nil || !slices.Equal(got, want) {
			t.Errorf("page views of site %d\n%v, want\n%v; %v", siteID, got, want, err)
		}
	}
}

// compareMarks checks that each month has the mark of the threshold that it reached, and no other
// one.
func (s *modelState) compareMarks(t *testing.T, d *db.DB) {
	t.Helper()

	type row struct {
		SiteID  model.SiteID
		Month   model.Month
		Reached int16
	}
	rows, err := dbtest.Rows[row](d, "SELECT site_id, month, reached FROM site_usage")
	testkit.NoError(t, err)

	for _, r := range rows {
		used := s.used[model.UsageKey{SiteID: r.SiteID, Month: r.Month}]
		if want := model.QuotaReached(used, s.quota[r.SiteID]); r.Reached != want {
			t.Errorf("site %d in %v is marked with %d %%, want %d, having used %d", r.SiteID, r.Month, r.Reached, want, used)
		}
	}
}

// TestLargerQuotaIsMarked checks that a site that used up its quota and got a larger one is marked
// at the thresholds of the larger one, too, and that each mark has no notice yet.
func TestLargerQuotaIsMarked(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newWriter(storeOf(t, d), StoreTimeout, nil, nil)
		defer w.Stop(context.Background())
		random, now := rand.New(rand.NewPCG(1, 1)), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		one, number := []*site{modelSite(t, d, "shop.example", 5)}, 0

		// Each mark gets its notices at once, as by the worker's job.
		marks := func(hits int) (marks []int) {
			t.Helper()
			for range hits {
				number++
				h := randomHit(random, one, model.At(now), number)
				h.pageview, h.event, h.engagement = &model.Pageview{SiteID: one[0].id, Path: "/"}, nil, nil
				if _, err := w.Commit(t.Context(), []*hit{h}); err != nil {
					t.Fatal(err)
				}

				rows, err := dbtest.Rows[struct{ Reached int }](d, "SELECT reached FROM site_usage WHERE reached > noted")
				testkit.NoError(t, err)
				for _, row := range rows {
					marks = append(marks, row.Reached)
				}
				testkit.NoError(t, dbtest.Exec(d, "UPDATE site_usage SET noted = reached"))
			}
			return marks
		}

		for _, quota := range []int{5, 50} {
			testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET monthly_pageviews = ?", quota))

			// The last two hits are refused.
			if got := marks(quota - number + 2); !slices.Equal(got, []int{80, 100}) {
				t.Errorf("quota %d is marked at %v %%, want 80 and 100", quota, got)
			}
			number -= 2
		}
	})
}

// TestLowerQuotaIsMarked checks that the next hit of a site, which is refused, marks a quota that
// became too small for what is used.
func TestLowerQuotaIsMarked(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newWriter(storeOf(t, d), StoreTimeout, nil, nil)
		defer w.Stop(context.Background())
		random, now := rand.New(rand.NewPCG(1, 1)), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		one := []*site{modelSite(t, d, "shop.example", 100)}

		commit := func(number int, want outcome) {
			t.Helper()
			h := randomHit(random, one, model.At(now), number)
			h.pageview, h.event, h.engagement = &model.Pageview{SiteID: one[0].id, Path: "/"}, nil, nil
			if got, err := w.Commit(t.Context(), []*hit{h}); err != nil || got[0] != want {
				t.Fatalf("outcome %d, %v; want %d", got[0], err, want)
			}
		}
		mark := func() int {
			t.Helper()
			marks, err := dbtest.Rows[struct{ Reached int }](d, "SELECT reached FROM site_usage")
			if err != nil || len(marks) != 1 {
				t.Fatal(marks, err)
			}
			return marks[0].Reached
		}

		commit(1, stored)
		commit(2, stored)
		if got := mark(); got != 0 {
			t.Errorf("2 of 100 marked %d %%", got)
		}

		testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET monthly_pageviews = 2"))
		commit(3, overQuota)
		if got := mark(); got != 100 {
			t.Errorf("2 of 2 marked %d %%, want 100", got)
		}
	})
}
