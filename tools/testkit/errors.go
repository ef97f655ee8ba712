package testkit

import "testing"

// NoError ends the test with err, at the line of its caller, unless err is nil.
func NoError(tb testing.TB, err error) {
	// Helper takes longer than many of the calls that a benchmark checks.
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}
