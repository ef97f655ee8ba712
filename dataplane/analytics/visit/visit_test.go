package visit_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/channel"
	"github.com/tallygate/tallygate/dataplane/analytics/visit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestContinues(t *testing.T) {
	last := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	spring := model.Campaign{Source: "newsletter", Name: "spring"}
	for _, test := range []struct {
		name    string
		visit   model.Campaign
		gap     time.Duration
		carries model.Campaign
		want    bool
	}{
		{name: "same time", want: true},
		{name: "29:59.999 after", gap: 30*time.Minute - time.Millisecond, want: true},
		{name: "one microsecond short of 30:00", gap: 30*time.Minute - time.Microsecond, want: true},
		{name: "30:00.000 after", gap: 30 * time.Minute},
		{name: "hours after", gap: 5 * time.Hour},
		{name: "clock stepped back a second", gap: -time.Second, want: true},
		{name: "clock stepped back an hour", gap: -time.Hour, want: true},
		{name: "no campaign, then none", visit: model.Campaign{}, want: true},
		{name: "campaign, then none", visit: spring, want: true},
		{name: "campaign, then the same", visit: spring, carries: spring, want: true},
		{name: "campaign, then only the same source", visit: spring, carries: model.Campaign{Source: "newsletter"}, want: true},
		{name: "campaign, then another source", visit: spring, carries: model.Campaign{Source: "partner"}},
		{name: "campaign, then another campaign", visit: spring, carries: model.Campaign{Source: "newsletter", Name: "summer"}},
		{name: "none, then a source", carries: model.Campaign{Source: "newsletter"}},
		{name: "none, then a campaign name", carries: model.Campaign{Name: "spring"}},
		{name: "another medium is no new visit", visit: spring, carries: model.Campaign{Medium: "email"}, want: true},
		{name: "another term is no new visit", visit: spring, carries: model.Campaign{Term: "shoes", Content: "b"}, want: true},
		{name: "a click id sets another source", visit: spring, carries: channel.Complete(model.Campaign{Gclid: "x"})},
		{
			name: "another click id of the same source", visit: channel.Complete(model.Campaign{Gclid: "x"}),
			carries: channel.Complete(model.Campaign{Gclid: "y"}), want: true,
		},
		{
			name: "a click id with the same source", visit: spring,
			carries: channel.Complete(model.Campaign{Source: "newsletter", Gclid: "x"}), want: true,
		},
		{name: "same campaign after the gap", visit: spring, gap: visit.Gap, carries: spring},
	} {
		t.Run(test.name, func(t *testing.T) {
			current := model.Visit{LastPageviewAt: last, Campaign: test.visit}
			if got := visit.Continues(&current, last.Add(test.gap), &test.carries); got != test.want {
				t.Errorf("visit of %+v, page view %v later carrying %+v: continues %v, want %v",
					test.visit, test.gap, test.carries, got, test.want)
			}
		})
	}
}

// TestContinuesTheLastVisit checks that a visitor's last visit of a day always continues.
func TestContinuesTheLastVisit(t *testing.T) {
	last := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	other := model.Campaign{Source: "other", Name: "other"}
	for n, want := range map[int16]bool{1: false, visit.MaxPerDay - 1: false, visit.MaxPerDay: true} {
		current := model.Visit{N: n, LastPageviewAt: last, Campaign: model.Campaign{Source: "newsletter"}}
		testkit.Equal(t, visit.Continues(&current, last.Add(2*visit.Gap), &other), want, "visit %d of the day continues", n)
	}
}

func TestViewNeverMovesBack(t *testing.T) {
	noon := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	v := model.Visit{LastPageviewAt: noon, Pageviews: 1}
	visit.View(&v, noon.Add(-time.Hour))

	if v.LastPageviewAt != noon || v.Pageviews != 2 {
		t.Errorf("after a view an hour back: last at %v, %d page views; want %v and 2", v.LastPageviewAt.Time(), v.Pageviews, noon.Time())
	}

	visit.View(&v, noon.Add(time.Minute))

	if v.LastPageviewAt != noon.Add(time.Minute) || v.Pageviews != 3 {
		t.Errorf("after a view a minute on: last at %v, %d page views", v.LastPageviewAt.Time(), v.Pageviews)
	}
}
