package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/explain"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// hit is a visit with one page view.
type hit struct {
	at                      time.Duration // of the day
	campaign, path, country string
}

// midnight is the beginning of a day of November 2026.
func midnight(on int) time.Time { return time.Date(2026, 11, on, 0, 0, 0, 0, time.UTC) }

// day returns the rows of a day: three hits in each hour, and further ones.
func day(on int, leaves func(hit) bool, more ...hit) segment.Rows {
	hits := more
	for at := time.Duration(0); at < 24*time.Hour; at += 20 * time.Minute {
		country := []string{"DE", "FR", "AT", "PL"}[at/(20*time.Minute)%4]
		hits = append(hits, hit{at: at, path: fmt.Sprint("/", int(at/time.Minute)%3), country: country})
	}

	rows := segment.Rows{Day: model.At(midnight(on)).Day()}
	for i, h := range hits {
		if leaves != nil && leaves(h) {
			continue
		}
		at := model.At(midnight(on).Add(h.at))
		key := segment.VisitKey{Visitor: model.VisitorID{byte(on), byte(i >> 8), byte(i)}, N: 1}
		visit := segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct", Client: model.Client{Country: h.country}}
		if h.campaign != "" {
			visit.Channel, visit.Campaign = "email", model.Campaign{Source: "letter", Name: h.campaign}
		}
		rows.Visits = append(rows.Visits, visit)
		rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: int64(i + 1), Path: h.path, Width: model.UnknownWidth})
	}
	return rows
}

// text writes a change with the codes of its parts.
func text(c *model.Change) string {
	if c == nil {
		return "nothing"
	}
	parts := []string{fmt.Sprintf("%s %d to %d", c.Metric, c.Before, c.After)}
	for _, cause := range c.Causes {
		var names []string
		for _, name := range cause.Names {
			names = append(names, fmt.Sprintf("%s %s", name.By, name.Value))
		}
		parts = append(parts, fmt.Sprintf("%s %+d", strings.Join(names, " = "), cause.Difference))
	}
	if c.Gap != nil {
		parts = append(parts, c.Gap.From+" to "+c.Gap.To)
	}
	return strings.Join(parts, "; ")
}

// TestExplanations plants changes to the same weekday a week before: a campaign that ends, hours
// without the script, equal days, a country of few visitors, and a drop within a day that is not
// over.
func TestExplanations(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example")
		now := midnight(20).Add(12*time.Hour + 30*time.Minute)
		dbtest.SetClock(d, func() time.Time { return now })

		var campaign, few []hit
		for i := range 30 {
			campaign = append(campaign, hit{time.Duration(i) * 40 * time.Minute, "spring", fmt.Sprint("/sale", i%5/2), "DE"})
		}
		for i := range site.SmallGroup - 1 {
			few = append(few, hit{time.Duration(i) * time.Hour, "", "/0", "LI"})
		}
		isMissing := func(h hit) bool { return h.at >= 9*time.Hour && h.at < 13*time.Hour }
		isDown := func(h hit) bool { return h.at >= 10*time.Hour && h.path == "/0" || h.at >= 13*time.Hour }
		testkit.NoError(t, oracle.Store(t.Context(), d, int64(site.ID),
			day(8, nil, campaign...), day(9, nil), day(11, nil), day(12, nil), day(13, nil),
			day(15, nil), day(16, isMissing), day(18, nil), day(19, nil, few...), day(20, isDown),
		))
		store := reports.New(d)
		_, err := store.Plan(t.Context(), model.At(now))
		testkit.NoError(t, err)
		_, err = store.BuildDue(t.Context())
		testkit.NoError(t, err)

		e := explain.New(store)
		for _, test := range []struct {
			name string
			on   int
			want string
		}{
			{"a campaign ends", 15, "VISITS 102 to 72; SOURCE_NAME letter = CHANNEL email = UTM_CAMPAIGN spring -30; ENTRY_PAGE /sale0 -12"},
			{"the script is missing", 16, "VISITS 72 to 60; 2026-11-16 09:00 to 2026-11-16 13:00"},
			{"equal days", 18, "nothing"},
			{"a small group", 19, fmt.Sprintf("VISITS 72 to %d; ENTRY_PAGE /0 +%d", 71+site.SmallGroup, site.SmallGroup-1)},
		} {
			on := model.At(midnight(test.on)).Day()
			got, err := e.Visits(t.Context(), site, on, on, model.At(now))
			if err != nil || text(got) != test.want {
				t.Errorf("%s: %q, %v; want %q", test.name, text(got), err, test.want)
			}
		}

		span := func(on int) explain.Span {
			return explain.Span{From: midnight(on).Add(10 * time.Hour), To: midnight(on).Add(12*time.Hour + 30*time.Minute)}
		}
		got, err := e.Pageviews(t.Context(), site, span(13), span(20), model.At(now))
		if want := "PAGEVIEWS 8 to 5; PAGE /0 = ENTRY_PAGE /0 -3"; err != nil || text(got) != want {
			t.Errorf("a broken page: %q, %v; want %q", text(got), err, want)
		}
	})
}
