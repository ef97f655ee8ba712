package testkit

import "testing"

// NoError ends the test with err, at the line of its caller, unless err is nil.
func NoError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
