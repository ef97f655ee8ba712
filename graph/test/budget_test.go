package graph_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
)

// TestLinksShareABudget: all readers of an account's shared links share one budget. It is neither the
// account's own nor that of another account's links.
func TestLinksShareABudget(t *testing.T) {
	const limit, cost = 200, 4

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner, other := a.owner("owner@example.com"), a.owner("other@example.com")
		one, two := owner.siteOf("one.example"), owner.siteOf("two.example")
		readers := []string{owner.reader(one), owner.reader(one), owner.reader(two)}
		foreign := other.reader(other.siteOf("other.example"))

		// A link costs more to create than this server of the same installation allows.
		frugal := newApp(t, d, func(s *settings) { s.graph.CostPerMinute = limit })
		for i := range limit / cost {
			frugal.with(readers[i%len(readers)], sharedSiteQuery).ok(t, "")
		}
		for i, reader := range readers {
			if got := frugal.with(reader, sharedSiteQuery); got.codes() != "RATE_LIMITED" {
				t.Errorf("link %d, after the budget of all: %s", i, got.Body)
			}
		}

		// The owner, and the links of another account, have theirs.
		c := frugal.client()
		c.http.Jar = owner.http.Jar
		if got := c.query(`{ rateLimit { remaining } }`).ok(t, "").at("rateLimit.remaining"); got != limit-2.0 {
			t.Errorf("the owner has %v left, want %d", got, limit-2)
		}
		frugal.with(foreign, sharedSiteQuery).ok(t, "")
	})
}
