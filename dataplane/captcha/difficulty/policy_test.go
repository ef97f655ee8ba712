package difficulty

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db/model"
)

// TestHighestDifficulty: the model and the proof of work agree about the highest difficulty.
func TestHighestDifficulty(t *testing.T) {
	if model.HighestDifficulty != pow.MaxDifficulty || model.MaxCaptchaWorkMS*model.PhoneRate > pow.MaxDifficulty {
		t.Errorf("highest difficulty %d, of a policy %d, of the proof of work %d",
			model.HighestDifficulty, model.MaxCaptchaWorkMS*model.PhoneRate, pow.MaxDifficulty)
	}

	// A tenth of the phone's rate solves the median of the highest policy within the challenge's
	// life.
	if median := 10 * model.MaxCaptchaWorkMS * time.Millisecond; median > pow.Lifetime {
		t.Errorf("a slow browser needs %v, a challenge lives %v", median, pow.Lifetime)
	}
}

// TestPolicies goes through base, most and free challenges of policies.
func TestPolicies(t *testing.T) {
	for _, test := range []struct {
		policy model.CaptchaPolicy
		asked  int
		want   uint32
	}{
		{model.CaptchaPolicy{}, 8, 1_000},
		{model.CaptchaPolicy{BaseMS: 1_000}, 8, 3_000_000},
		{model.CaptchaPolicy{BaseMS: 1_000}, 16, 6_000_000},
		{model.CaptchaPolicy{BaseMS: 1_000}, 300, 24_000_000},
		{model.CaptchaPolicy{BaseMS: 1_000, MaxMS: 2_000}, 300, 6_000_000},
		{model.CaptchaPolicy{BaseMS: 1_000, MaxMS: 1_000}, 300, 3_000_000},
		{model.CaptchaPolicy{MaxMS: 1}, 300, 3_000},
		{model.CaptchaPolicy{BaseMS: 60_000}, 300, 60_000 * model.PhoneRate},
		{model.CaptchaPolicy{Free: 2}, 2, 1_000},
		{model.CaptchaPolicy{Free: 2}, 4, 2_000},
		{model.CaptchaPolicy{Free: 100}, 100, 1_000},
	} {
		c, last := New(1_000), Answer{}
		for range test.asked {
			last = c.Challenge(Request{SitekeyID: 1, Policy: &test.policy, Addr: netip.MustParseAddr("203.0.113.1")}, start)
		}
		if last.Difficulty != test.want {
			t.Errorf("%s, challenge %d: difficulty %d, want %d", test.policy.Text(), test.asked, last.Difficulty, test.want)
		}
	}
}

// TestExemptNetworks: own networks have the base and no limit, count nothing, and are no way in for
// others.
func TestExemptNetworks(t *testing.T) {
	policy := model.CaptchaPolicy{
		Exempt: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/28")}, Automation: model.AutomationLimit,
		AttackMode: model.AttackOn,
	}
	c := New(1_000)
	own := Request{SitekeyID: 1, Policy: &policy, Addr: netip.MustParseAddr("198.51.100.7"), IsAutomated: true}
	for i := range 1_000 {
		if got := c.Challenge(own, start); got.Difficulty != 1_000 || got.Wait != 0 {
			t.Fatalf("challenge %d of an own network: %+v", i+1, got)
		}
	}

	other := own
	other.Addr, other.IsAutomated = netip.MustParseAddr("198.51.100.200"), false
	if got := c.Challenge(other, start); got.Difficulty != 4_000 {
		t.Errorf("a neighbour: %+v", got)
	}

	// Many clients share this address, so that it says nothing about one of them.
	shared := own
	shared.IsShared, shared.IsAutomated = true, false
	if got := c.Challenge(shared, start); got.Difficulty != 4_000 {
		t.Errorf("a shared address: %+v", got)
	}
}

// TestAutomation: HARDER begins far above the base and rises with the challenges of all networks
// together, LIMIT refuses after a few, ALLOW changes nothing, and browsers are not affected.
func TestAutomation(t *testing.T) {
	ask := func(c *Control, kind model.CaptchaAutomation, i int, automated bool) Answer {
		return c.Challenge(Request{SitekeyID: 1, Policy: &model.CaptchaPolicy{Automation: kind}, IsAutomated: automated,
			Addr: netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})}, start)
	}

	harder := New(Default)
	for _, test := range []struct {
		further int
		want    uint32
	}{{1, 4 * Default}, {31, 4 * Default}, {32, 8 * Default}, {64, 16 * Default}, {8_000, pow.MaxDifficulty}} {
		var got Answer
		for i := range test.further {
			got = ask(harder, "", i, true)
		}
		if got.Difficulty != test.want || got.Wait != 0 {
			t.Errorf("%d further challenges of automation: %+v, want %d", test.further, got, test.want)
		}
	}
	if got := ask(harder, "", 60_000, false); got.Difficulty != Default {
		t.Errorf("a browser: %+v", got)
	}

	limit := New(1_000)
	for i := range 10 {
		got := ask(limit, model.AutomationLimit, i, true)
		if (got.Wait > 0) != (i >= automationBurst) || got.Wait > automationEvery {
			t.Errorf("challenge %d of limited automation: %+v", i+1, got)
		}
	}
	if got := ask(limit, model.AutomationLimit, 99, false); got.Difficulty != 1_000 || got.Wait != 0 {
		t.Errorf("a browser: %+v", got)
	}

	if got := ask(New(1_000), model.AutomationAllow, 1, true); got.Difficulty != 1_000 {
		t.Errorf("allowed automation: %+v", got)
	}
}
