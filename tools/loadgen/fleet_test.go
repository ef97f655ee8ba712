package main

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/scenario"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestFleet measures two nodes behind a real HAProxy, kills one, and checks that nothing is lost.
func TestFleet(t *testing.T) {
	testkit.SkipLong(t, "processes that are killed under load")
	t.Parallel()

	requirePrograms(t)
	if _, err := exec.LookPath("haproxy"); err != nil {
		testkit.Missing(t, "haproxy is not installed")
	}

	c := scenario.Fleet{
		Private: scenario.Private{Program: tallygate(t)}, Nodes: 2, Connections: 16, Mix: "realistic", Rounds: 1,
		Duration: time.Second, Kills: 1,
	}
	testkit.NoError(t, c.Validate())
	o, err := c.Play(t.Context(), io.Discard)
	testkit.NoError(t, err)

	if err := o.Err(); err != nil || o.Hits.Acknowledged < 100 || len(o.Answers) == 0 {
		t.Errorf("%v, answers %v, verdict %+v", err, o.Answers, o.Hits)
	}
	for _, measured := range o.Cases {
		if measured.Get(report.Rate) <= 0 || measured.Get("of-first") <= 0 {
			t.Errorf("%s", o.Text)
		}
	}
}
