package analytics_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestUnknownEventsAreNamed: the owner sees the names of refused events that could be registered,
// and no reserved or malformed one.
func TestUnknownEventsAreNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		site := p.site("example.com", quota)

		for range 2 {
			p.Collect(eventCall(site, "", "newsletter", nil, nil))
		}
		for _, name := range []string{"lead", "purchase", "scroll", "Not A Name", "pageview"} {
			p.Collect(eventCall(site, "", name, nil, nil))
		}

		foreign := eventCall(site, "", "foreign", nil, nil)
		foreign.Origin = "https://example.org"
		p.Collect(foreign)
		p.Stop()

		events, err := ingest.New(d).UnknownEventsOfSites(t.Context(), []model.SiteID{site.ID}, 0)
		testkit.NoError(t, err)

		got := map[string]int64{}
		for _, event := range events[site.ID] {
			got[event.Name] = event.Count
		}
		if len(got) != 2 || got["newsletter"] != 2 || got["lead"] != 1 {
			t.Errorf("unknown events %v", got)
		}
	})
}
