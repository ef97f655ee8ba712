package main

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/cells"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCellsCommand measures one cell and four on PostgreSQL, and on a Citus cluster if the tests
// have one. It checks the counted round trips, and that nothing is lost.
func TestCellsCommand(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	t.Parallel()

	requirePrograms(t)
	c := cells.Command{Program: tallygate(t), Citus: os.Getenv("TALLYGATE_TEST_CITUS_URL"), Connections: 16, Mix: "realistic",
		Rounds: 1, Duration: time.Second}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	o, err := c.Play(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	if !o.OK() || o.Verdict.Acknowledged < 100 {
		t.Errorf("outcome %+v, verdict %+v", o, o.Verdict)
	}
	for _, l := range o.Layouts {
		if l.Rate <= 0 || l.OfFirst <= 0 || l.Batch < 1 || l.Trips < 2 || l.Trips > 5 || l.Prepared != 0 {
			t.Errorf("%+v", l)
		}
	}
}
