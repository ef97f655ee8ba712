package resolver

import (
	"testing"

	"github.com/tallygate/tallygate/db/reports"
)

// TestPointsOfReports checks the prices of docs/reports.md.
func TestPointsOfReports(t *testing.T) {
	for _, test := range []struct {
		size   reports.Size
		panels int
		want   int
	}{
		{reports.Size{}, 28, 0},
		{reports.Size{Pageviews: 4_999}, 28, 0},
		{reports.Size{Pageviews: 50_000}, 0, 10},
		{reports.Size{Pageviews: 20_000, Events: 30_000}, 0, 10},
		{reports.Size{Pageviews: 50_000}, 8, 20},
		{reports.Size{Events: 50_000}, 28, 45},
		{reports.Size{Pageviews: 10_000_000}, 10, 4_500},
	} {
		if got := pointsOf(test.size, test.panels); got != test.want {
			t.Errorf("%+v with %d panels costs %d points, want %d", test.size, test.panels, got, test.want)
		}
	}
}
