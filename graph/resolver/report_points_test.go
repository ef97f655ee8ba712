package resolver

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestPointsOfReports checks the prices of docs/owner/reports.md.
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

// TestReportsPayForTheirTime checks that a report costs its processor time and memory if that is
// more than the price of what it reads, and that none is counted for an account without points.
func TestReportsPayForTheirTime(t *testing.T) {
	l, now := limits.New(1_000), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	caller := auth.Caller{User: &model.User{ID: 1, AccountID: 1, Role: model.RoleOwner}}
	remaining := func(r *limits.Request) int { return r.RateLimit().Remaining }

	for _, test := range []struct {
		name string
		size reports.Size
		took reports.Work
		want int // points that remain
	}{
		{"nothing", reports.Size{}, reports.Work{}, 999},
		{"time", reports.Size{}, reports.Work{Time: 25 * time.Millisecond}, 749},
		{"memory", reports.Size{}, reports.Work{Time: 5 * time.Millisecond, Bytes: 10 << 20}, 539},
		{"more rows than time", reports.Size{Events: 1_000_000}, reports.Work{Time: 5 * time.Millisecond}, 339},
		{"more than there is", reports.Size{}, reports.Work{Time: time.Second}, 0},
	} {
		request := limits.Of(l.WithRequest(t.Context(), netip.Addr{}, false, now))
		p := &payer{request, caller, 0, 0}
		if err := p.PayBefore(test.size); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		p.PayAfter(test.took)
		testkit.Equal(t, remaining(request), test.want, "%s: points remain", test.name)
	}

	request := limits.Of(l.WithRequest(t.Context(), netip.Addr{}, false, now))
	err := (&payer{request, caller, 0, 0}).PayBefore(reports.Size{})
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Kind != model.RateLimited {
		t.Errorf("a small report without points: %v", err)
	}
}
