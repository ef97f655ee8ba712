package analytics_test

import (
	"net/http"
	"testing"

	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestUnknownEventsAreNamed: the owner sees the names of refused events that could be registered,
// and no reserved or malformed one.
func TestUnknownEventsAreNamed(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)

		for range 2 {
			p.Collect(eventCall(site, "", "newsletter", nil, nil))
		}
		for _, name := range []string{"lead", "purchase", "scroll", "Not A Name", "pageview"} {
			p.Collect(eventCall(site, "", name, nil, nil))
		}

		// Names of other products' pages are counted as they would be registered.
		p.Send(foreignCall(site, "/api/send", umamiBody(site, m{"name": "Signup Button!"})))
		p.Send(foreignCall(site, "/api/send", umamiBody(site, m{"name": "Scroll"})))
		p.Send(foreignCall(site, "/"+site.SiteKey+"/api/event", m{"t": "event", "p": "/", "e": "from_a_face"}))

		foreign := eventCall(site, "", "foreign", nil, nil)
		foreign.Origin = "https://example.org"
		p.Collect(foreign)
		p.Stop()

		events, err := ingest.New(p.DB).UnknownEventsOfSites(t.Context(), []model.SiteID{site.ID}, 0)
		testkit.NoError(t, err)

		got := map[string]int64{}
		for _, event := range events[site.ID] {
			got[event.Name] = event.Count
		}
		want := map[string]int64{"newsletter": 2, "lead": 1, "signup_button": 1, "own_scroll": 1, "from_a_face": 1}
		testkit.EqualMaps(t, got, want, "unknown events")
	})
}

// TestEngagementWithoutView checks that the probe of `tallygate doctor --site` leaves no row and no
// counter of the site.
func TestEngagementWithoutView(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", quota)

		for _, path := range []string{"/collect.php", "/api/send", "/" + site.SiteKey + "/api/event", "/" + site.SiteKey + "/count"} {
			response, answer := p.Send(foreignCall(site, path, m{"k": site.SiteKey, "t": "engagement", "p": "/"}))
			if response.StatusCode != http.StatusNoContent {
				t.Errorf("%s: status %d, %s", path, response.StatusCode, answer)
			}
		}

		p.Rejected(site, map[string]int64{})
		for _, table := range []string{"engagement", "pageviews", "visits"} {
			dbtest.HasRows(t, p.DB, table, 0, "rows of %s", table)
		}
	})
}
