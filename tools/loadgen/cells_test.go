package main

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/scenario"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCellsCommand measures one cell and four on PostgreSQL, and on a Citus cluster if the tests
// have one. It checks the counted round trips, and that nothing is lost.
func TestCellsCommand(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	t.Parallel()

	requirePrograms(t)
	c := scenario.Cells{Private: scenario.Private{Program: tallygate(t)}, Citus: os.Getenv("TALLYGATE_TEST_CITUS_URL"), Connections: 16,
		Mix:    "realistic",
		Rounds: 1, Duration: time.Second}
	testkit.NoError(t, c.Validate())
	o, err := c.Play(t.Context(), io.Discard)
	testkit.NoError(t, err)

	if err := o.Err(); err != nil || o.Hits.Acknowledged < 100 {
		t.Errorf("%v, verdict %+v", err, o.Hits)
	}
	for _, l := range o.Cases {
		// Other work has some round trips, too, which a busy machine divides by few batches.
		batches := l.Get(report.Rate) * c.Duration.Seconds() / max(l.Get("hits/batch"), 1)
		const other = 200
		if trips := l.Get("trips/batch"); l.Get(report.Rate) <= 0 || l.Get("cpu-of-first") <= 0 || l.Get("hits/batch") < 1 ||
			trips < 2 || trips > 5+other/batches || l.Get("prepared-commits") != 0 {
			t.Errorf("%s", o.Text)
		}
	}
}
