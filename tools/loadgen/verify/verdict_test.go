package verify

import "testing"

// TestVerdictOfNothing checks that a run without acknowledged hits does not pass.
func TestVerdictOfNothing(t *testing.T) {
	if new(Verdict).OK() || !(&Verdict{Acknowledged: 1}).OK() {
		t.Error("the verdict does not depend on acknowledged hits")
	}
}
