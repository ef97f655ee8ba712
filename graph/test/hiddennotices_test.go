package graph_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	hiddenQuery = `query($id: ID!) { site(id: $id) { hiddenNotices { rejections usage } } }`
)

// TestHiddenNoticesOfEachUser: each member hides the notices of each site for themselves. Counts
// outside their range change nothing.
func TestHiddenNoticesOfEachUser(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site, other := c.siteOf("example.com"), c.siteOf("other.example")
		viewer := a.join(c, "viewer@example.com", model.RoleViewer)
		check := func(c *client, site, want string) {
			t.Helper()
			if got := c.query(hiddenQuery, "id", site).ok(t, ""); got.Body != `{"data":{"site":{"hiddenNotices":`+want+`}}}` {
				t.Errorf("hidden: %s, want %s", got.Body, want)
			}
		}
		check(viewer, site, `{"rejections":0,"usage":0}`)

		got := viewer.done("hideSiteNotices", "siteId", site, "rejections", 12, "usage", 80)
		if want := `{"data":{"hideSiteNotices":{"hiddenNotices":{"rejections":12,"usage":80},"userErrors":[]}}}`; got.Body != want {
			t.Errorf("hiding: %s, want %s", got.Body, want)
		}
		check(viewer, site, `{"rejections":12,"usage":80}`)
		check(viewer, other, `{"rejections":0,"usage":0}`)
		check(c, site, `{"rejections":0,"usage":0}`)

		for _, wrong := range []struct {
			rejections, usage int
			want              string
		}{
			{-1, 80, "rejections:INVALID_THRESHOLD"},
			{12, 1_000_000_001, "usage:INVALID_THRESHOLD"},
			{-1, -1, "rejections:INVALID_THRESHOLD usage:INVALID_THRESHOLD"},
		} {
			got := viewer.do("hideSiteNotices", "siteId", site, "rejections", wrong.rejections, "usage", wrong.usage)
			got.named("%d and %d", wrong.rejections, wrong.usage).fails(t, "hideSiteNotices", wrong.want)
		}
		check(viewer, site, `{"rejections":12,"usage":80}`)

		// A later choice replaces the earlier one, also by less.
		viewer.done("hideSiteNotices", "siteId", site, "rejections", 1_000_000_000, "usage", 0)
		check(viewer, site, `{"rejections":1000000000,"usage":0}`)
		equal(t, value(dbtest.Count(a.db, "hidden_notices"))(t), 1, "rows of hidden_notices")

		// Rejected calls count for 7 days, and the usage in its month: it is 20 November.
		hide := func() {
			viewer.done("hideSiteNotices", "siteId", site, "rejections", 12, "usage", 80)
		}
		hide()
		a.clock.Add(7*24*time.Hour - time.Second)
		check(viewer, site, `{"rejections":12,"usage":80}`)
		a.clock.Add(time.Second)
		check(viewer, site, `{"rejections":0,"usage":80}`)
		hide()
		a.clock.Add(4 * 24 * time.Hour)
		check(viewer, site, `{"rejections":12,"usage":0}`)
	})
}
