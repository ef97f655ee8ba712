package script_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestStoredInAnyOrderChromium checks messages that overtake each other. A load sends its page
// view, its search and a queued event at once, over several connections. Each load here is a visit
// of its own, by its campaign.
func TestStoredInAnyOrderChromium(t *testing.T) {
	const loads = 12
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, map[string]string{
			"/find": `<script>` + stub + `svc("event", "signup")</script>` + tag("data-search"),
		})

		page := s.browser.NewPage()
		overtaken := 0
		for i := range loads {
			page.Goto(fmt.Sprintf("http://www.shop.test/find?q=tea&utm_source=source-%d", i))

			// Each load also ends the previous one, which sends its engagement.
			messages := s.stored(3 + min(i, 1))
			messages = slices.DeleteFunc(messages, func(m map[string]any) bool { return m["t"] == "engagement" })
			testkit.Require(t, len(messages), 3, "sent %v", messages)
			if messages[0]["t"] != "pageview" {
				overtaken++
			}
		}

		page.Goto("about:blank")
		s.stored(1)

		t.Logf("in %d of %d loads an event was answered before its page view", overtaken, loads)

		var got, want []string
		for _, row := range s.Views(s.site) {
			got = append(got, fmt.Sprintf("%s: page view in a visit of %d", row.Source, row.Visit.Pageviews))
		}

		for _, row := range s.Events(s.site) {
			got = append(got, fmt.Sprintf("%s: %s in a visit of %d", row.Source, row.Name, row.Visit.Pageviews))
		}

		for i := range loads {
			for _, what := range []string{"page view", "signup", "site_search"} {
				want = append(want, fmt.Sprintf("source-%d: %s in a visit of 1", i, what))
			}
		}

		s.same("visits", got, want)

		dbtest.HasRows(t, d, "visits", loads, "visits")
	})
}
