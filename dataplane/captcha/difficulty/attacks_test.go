package difficulty

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// crowd requests one challenge for each of n networks and returns the last answer.
func crowd(c *Control, r Request, at time.Time, n int) (last Answer) {
	if r.Policy == nil {
		r.Policy = &model.CaptchaPolicy{}
	}
	for i := range n {
		r.Addr = netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1})
		last = c.Challenge(r, at)
	}
	return last
}

// TestAttackOfManyNetworks: the work of a sitekey rises with the networks of a window, compared
// with what is usual, and other sitekeys are not affected.
func TestAttackOfManyNetworks(t *testing.T) {
	c := New(1_000)
	of := func(sitekey model.SitekeyID) Request { return Request{SitekeyID: sitekey} }
	if got := crowd(c, of(1), start, 10_000); got.Difficulty != 1_000 || got.Attack.Level != 0 {
		t.Errorf("first window after the start: %+v; nothing is known yet", got)
	}

	at := start.Add(window)
	if got := crowd(c, of(1), at, 500); got.Difficulty != 1_000 {
		t.Errorf("second window: %+v; nothing is known yet", got)
	}

	// 500 networks are usual now.
	at = at.Add(window)
	for _, test := range []struct {
		networks int
		want     uint32
		level    int
	}{{1_999, 1_000, 0}, {2_000, 2_000, 1}, {7_999, 2_000, 1}, {8_000, 4_000, 2}, {31_999, 4_000, 2}, {32_000, 8_000, 3}} {
		got := crowd(c, of(1), at, test.networks)
		if got.Attack.Level != test.level {
			t.Errorf("%d networks: %+v, want level %d", test.networks, got, test.level)
		}
		if got.Attack.Level > 0 && (got.Attack.Usual != 500 || got.Attack.Networks != int64(test.networks) || got.Attack.Seen != model.At(at)) {
			t.Errorf("%d networks: %+v", test.networks, got.Attack)
		}
		testkit.Equal(t, got.Difficulty, test.want, "%d networks: difficulty", test.networks)
	}

	if got := crowd(c, of(2), at, 1); got.Difficulty != 1_000 {
		t.Errorf("another sitekey: %+v", got)
	}
}

// TestOneNetworkIsNoAttack: whatever one network does, the work of others stays at the base.
func TestOneNetworkIsNoAttack(t *testing.T) {
	c := New(1_000)
	for n := range 3 {
		crowd(c, Request{SitekeyID: 1}, start.Add(time.Duration(n)*window), 10)
	}

	at := start.Add(3 * window)
	for i := range 100_000 {
		c.Challenge(Request{SitekeyID: 1, Policy: &model.CaptchaPolicy{}, Addr: netip.MustParseAddr("198.51.100.1")},
			at.Add(time.Duration(i)*5*time.Millisecond))
	}

	if got := crowd(c, Request{SitekeyID: 1}, at.Add(9*time.Minute), 1); got.Difficulty != 1_000 || got.Attack.Level != 0 {
		t.Errorf("another network: %+v", got)
	}
}

// TestAttackDoesNotBecomeUsual: attacks that last for hours stay attacks, and a site that grows by
// half a day does not become one.
func TestAttackDoesNotBecomeUsual(t *testing.T) {
	c := New(1_000)
	at := start
	next := func(networks int) Answer {
		at = at.Add(window)
		return crowd(c, Request{SitekeyID: 1}, at, networks)
	}
	for range 10 {
		next(200)
	}
	for n := range 12 {
		if got := next(20_000); got.Attack.Level < 2 {
			t.Fatalf("window %d of an attack: %+v", n, got.Attack)
		}
	}

	grown := New(1_000)
	c, at = grown, start
	networks := 200.0
	for range 300 {
		networks *= 1.01
		if got := next(int(networks)); got.Attack.Level != 0 {
			t.Fatalf("%.0f networks: %+v", networks, got.Attack)
		}
	}
}

// TestAttackModes: OFF never changes the work and still reports the attack, ON has four times the
// work without one.
func TestAttackModes(t *testing.T) {
	for _, test := range []struct {
		mode         model.CaptchaAttackMode
		calm, attack uint32
	}{{"", 1_000, 2_000}, {model.AttackAuto, 1_000, 2_000}, {model.AttackOn, 4_000, 4_000}, {model.AttackOff, 1_000, 1_000}} {
		c, request := New(1_000), Request{SitekeyID: 1, Policy: &model.CaptchaPolicy{AttackMode: test.mode}}
		for n := range 3 {
			if got := crowd(c, request, start.Add(time.Duration(n)*window), 10); got.Difficulty != test.calm {
				t.Errorf("%q: calm %+v", test.mode, got)
			}
		}
		if got := crowd(c, request, start.Add(3*window), 400); got.Difficulty != test.attack || got.Attack.Level != 1 {
			t.Errorf("%q: attack %+v", test.mode, got)
		}
	}
}

// TestStoredAttack: what another process saw makes the work harder here until its level ends, and a
// process that starts during an attack does not take it for usual.
func TestStoredAttack(t *testing.T) {
	stored := model.CaptchaAttack{Level: 3, Seen: model.At(start), Usual: 120}
	c := New(1_000)
	for _, test := range []struct {
		after time.Duration
		want  uint32
	}{
		{0, 8_000}, {9 * time.Minute, 8_000}, {10 * time.Minute, 4_000}, {20 * time.Minute, 2_000},
		{29 * time.Minute, 2_000}, {30 * time.Minute, 1_000},
	} {
		r := Request{SitekeyID: 2, Attack: stored}
		if got := crowd(c, r, start.Add(test.after), 1); got.Difficulty != test.want {
			t.Errorf("after %v: %+v, want %d", test.after, got, test.want)
		}
	}

	if got := crowd(c, Request{SitekeyID: 1, Attack: stored}, start, 1_920); got.Attack.Level != 2 || got.Attack.Usual != 120 {
		t.Errorf("a new process: %+v", got)
	}
}

// TestRefusedTokens: unusually many refused tokens double the work, and no more.
func TestRefusedTokens(t *testing.T) {
	c := New(1_000)
	for n := range 3 {
		crowd(c, Request{SitekeyID: 1}, start.Add(time.Duration(n)*window), 10)
	}

	at := start.Add(3 * window)
	for _, test := range []struct {
		refused int
		want    uint32
	}{{399, 1_000}, {1, 2_000}, {100_000, 2_000}} {
		for range test.refused {
			c.Refused(1, at)
		}
		if got := crowd(c, Request{SitekeyID: 1}, at, 1); got.Difficulty != test.want {
			t.Errorf("%d more refused: %+v, want %d", test.refused, got, test.want)
		}
	}
}

// TestClockBackDuringAttack: a window that was missed in part, because the clock was set back into
// it, teaches nothing.
func TestClockBackDuringAttack(t *testing.T) {
	var l load
	add := func(at time.Time, n int) (attack model.CaptchaAttack) {
		for range n {
			attack = l.add(at, true, model.CaptchaAttack{})
		}
		return attack
	}

	// The clock is ahead when the program starts, and is corrected at the end of a window.
	add(start.Add(time.Hour), 10)
	add(start, 10)

	for n := range 5 {
		if got := add(start.Add(time.Duration(n+1)*window), 2_000); got.Level != 0 {
			t.Errorf("window %d with 2,000 networks, as usual: %+v", n, got)
		}
	}
}
