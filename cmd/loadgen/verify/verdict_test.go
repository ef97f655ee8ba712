package verify

import "testing"

// TestVerdictOfNothing: a run without an acknowledged hit proves nothing, so it does not pass.
func TestVerdictOfNothing(t *testing.T) {
	if new(Verdict).OK() || !(&Verdict{Acknowledged: 1}).OK() {
		t.Error("the verdict does not depend on acknowledged hits")
	}
}
