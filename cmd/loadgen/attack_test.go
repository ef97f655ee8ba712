package main

import (
	"strings"
	"testing"
)

// TestAttackVisitor attacks for half a second. It checks that the other site's hits are stored, and
// the attacker's until the quota is used up.
func TestAttackVisitor(t *testing.T) {
	requirePrograms(t)

	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			out := command(t, "attack", "visitor", "--program", tallygate(t), "--engines", engine, "--rounds", "1",
				"--duration", "500ms")
			for _, want := range []string{
				engine + " manual     calm:", "0 refused", "times the calm p99", " manual     attacker: ", " 204\n",
				" campaigns  attack:", " exhausted  attacker: ", "100 204, ", " 429 quota_exceeded\n",
			} {
				if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}
