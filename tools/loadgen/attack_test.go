package main

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAttackVisitor attacks for half a second. It checks that the other site's hits are stored, and
// the attacker's until the quota is used up. PostgreSQL gets one kind of attack: each kind starts a
// server of its own.
func TestAttackVisitor(t *testing.T) {
	testkit.SkipLong(t, "a load")
	requirePrograms(t)

	exhausted := []string{" exhausted  attacker: ", "100 204, ", " 429 quota_exceeded\n"}
	for _, test := range []struct {
		engine, attacks string
		want            []string
	}{
		{"sqlite", "manual,campaigns,exhausted", append([]string{" manual     calm:", " manual     attacker: ",
			" 204\n", " campaigns  attack:"}, exhausted...)},
		{"postgres", "exhausted", append([]string{" exhausted  calm:"}, exhausted...)},
	} {
		t.Run(test.engine, func(t *testing.T) {
			t.Parallel()
			args := []string{"attack", "visitor", "--program", tallygate(t), "--engines", test.engine, "--rounds", "1",
				"--duration", "500ms"}
			for attack := range strings.SplitSeq(test.attacks, ",") {
				args = append(args, "--attacks", attack)
			}
			out := command(t, args...)

			words := strings.Join(strings.Fields(out), " ")
			for _, want := range append([]string{test.engine + " ", "0 refused", "times the calm p99"}, test.want...) {
				if !strings.Contains(words, strings.Join(strings.Fields(want), " ")) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}
