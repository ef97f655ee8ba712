package main

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/fleet"
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

	c := fleet.Command{Program: tallygate(t), Nodes: 2, Connections: 16, Mix: "realistic", Rounds: 1, Duration: time.Second, Kills: 1}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	o, err := c.Play(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}

	if !o.OK() || o.Verdict.Acknowledged < 100 || len(o.Killed) == 0 {
		t.Errorf("outcome %+v, verdict %+v", o, o.Verdict)
	}
	for _, measured := range o.Cases {
		if measured.Rate <= 0 || measured.OfOne <= 0 {
			t.Errorf("%+v", measured)
		}
	}
}
