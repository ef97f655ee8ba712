package scenario

import (
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAttackCaptcha simulates small attacks and compares the cases: what a policy must not make
// better for the attacker, or worse for people.
func TestAttackCaptcha(t *testing.T) {
	play := func() *report.Outcome {
		c := AttackCaptcha{People: 300, Networks: 5_000, Cores: 1, Rounds: 1, Seed: 1}
		testkit.NoError(t, c.Validate())
		o, err := c.Play(t.Context(), io.Discard)
		testkit.NoError(t, err)
		return o
	}

	o := play()
	if again := play(); again.Text != o.Text {
		t.Errorf("the same seed has another table:\n%s\n%s", again.Text, o.Text)
	}
	if len(o.Cases) != 1+3*len(captchaTreatments) {
		t.Fatalf("%d cases:\n%s", len(o.Cases), o.Text)
	}

	calm := o.Cases[0]
	if waited := calm.Get(peopleMS + "50"); waited < 20 || waited > 400 || calm.Get(officeMS+"99") > 100 {
		t.Errorf("people wait %.0f ms without an attack:\n%s", waited, o.Text)
	}

	for cases := range slices.Chunk(o.Cases[1:], len(captchaTreatments)) {
		before, undeclared, harder, limit := cases[0], cases[1], cases[2], cases[3]
		attack := before.Label("attack")

		tokens := []float64{limit.Get(attackTokens), harder.Get(attackTokens), undeclared.Get(attackTokens), before.Get(attackTokens)}
		if !slices.IsSorted(tokens) || tokens[0] < 1 || tokens[0] > 35 {
			t.Errorf("%s: %v tokens with LIMIT, with HARDER, undeclared and before; want them to rise, the first at most 35", attack, tokens)
		}
		each := func(c *report.Case) float64 { return c.Get(attackPrice) / c.Get(attackTokens) }
		if each(harder) <= each(undeclared) || each(undeclared) < each(before) || each(before) <= 0 {
			t.Errorf("%s: a token under HARDER does not cost more:\n%s", attack, o.Text)
		}

		for i, c := range cases {
			for _, unit := range []string{peopleMS + "50", peopleMS + "95", peopleMS + "99", officeMS + "50", officeMS + "95"} {
				// One network, declared automation, and a policy without attacks change nothing for
				// people. Any attack means at most eight times the work.
				factor := 1.0
				if attack != "one network" && i == 1 {
					factor = 8.5
				}
				if got, want := c.Get(unit), calm.Get(unit); got < want || got > factor*want {
					t.Errorf("%s, %s: %s is %.0f, without an attack %.0f", attack, c.Label("policy"), unit, got, want)
				}
			}
		}

		seen := attack != "one network"
		testkit.Equal(t, undeclared.Get(peopleMS+"50") > calm.Get(peopleMS+"50"), seen, "%s: people meet more work", attack)
		if back := undeclared.Get(backMinutes); (back > 0) != seen || back > 40 {
			t.Errorf("%s: %.0f minutes until the work is back at the base", attack, back)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for percent, want := range map[int]float64{1: 1, 50: 50, 95: 95, 99: 99, 100: 100} {
		testkit.Equal(t, percentile(hundred, percent), want, "%d %% of 1 to 100", percent)
	}
	if one, none := percentile([]float64{7}, 50), percentile(nil, 50); one != 7 || none != 0 {
		t.Errorf("of 7: %v, of nothing: %v", one, none)
	}

	numbers := map[float64]string{0: "0", 999: "999", 1_000: "1,000", 1_234_567: "1,234,567"}
	for _, number := range slices.Sorted(maps.Keys(numbers)) {
		testkit.Equal(t, grouped(number), numbers[number], "%v", number)
	}
}
