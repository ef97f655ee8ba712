package dbtest

import (
	"hash/fnv"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// byTurns makes Each leave one of both databases to a later run, under -short.
var byTurns bool

// RunByTurns is Run for a package above the stores. "make test" runs each of its tests on one
// database, a quarter of them on PostgreSQL, where a test takes three times the processor time, and
// "make test-left" on the other one: what differs between the databases is in the stores, and
// their tests always run on both.
func RunByTurns(m *testing.M) int {
	byTurns = true
	return Run(m)
}

// onDatabase runs a subtest named like its database, unless it is another run's turn.
func onDatabase(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	if testkit.RanBefore(t, name) {
		return
	}

	first := !byTurns || onCitus() || name == firstDatabase(t.Name())
	t.Run(name, func(t *testing.T) {
		if !first {
			testkit.SkipLong(t, "the other database")
		}
		test(t)
	})
}

// firstDatabase is the one on which "make test" runs a test.
func firstDatabase(test string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(test))
	if h.Sum32()%4 > 0 {
		return "sqlite"
	}
	return "postgres"
}
