package cluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// TestEffect checks which answers count as refused, and which as broken.
func TestEffect(t *testing.T) {
	var e Effect
	for answer, n := range map[string]int64{
		"204": 1, "400 unknown_event": 2, "503": 4, "503 unavailable": 8, "502": 16, "504": 32, "no answer": 64,
	} {
		e.count(answer, n)
	}
	if e.Served != 3 || e.Refused != 12 || e.Broken != 112 {
		t.Errorf("%+v, want 3 served, 12 refused, 112 broken", e)
	}
}

// TestOutcomeOK checks that each fault makes the outcome a failure.
func TestOutcomeOK(t *testing.T) {
	good := func() *Outcome {
		return &Outcome{Verdict: &verify.Verdict{Acknowledged: 1}, Captcha: &captcha.Verdict{Accepted: 1},
			Deliveries: Deliveries{Stored: 2, Received: 2, Repeated: 1}}
	}
	if !good().OK() {
		t.Error("an outcome without a fault is not OK")
	}

	for name, spoil := range map[string]func(*Outcome){
		"an unexpected answer":   func(o *Outcome) { o.Unexpected = map[string]int64{"500": 1} },
		"a lost hit":             func(o *Outcome) { o.Verdict.Lost = 1 },
		"no hit":                 func(o *Outcome) { o.Verdict.Acknowledged = 0 },
		"an unchecked feature":   func(o *Outcome) { o.Verdict.Unchecked = []string{"deliveries"} },
		"a token accepted twice": func(o *Outcome) { o.Captcha.Doubled = 1 },
		"an open delivery":       func(o *Outcome) { o.Deliveries.Open = 1 },
		"a message too few":      func(o *Outcome) { o.Deliveries.Received = 1 },
		"no delivery":            func(o *Outcome) { o.Deliveries = Deliveries{} },
	} {
		o := good()
		spoil(o)
		if o.OK() {
			t.Errorf("%s: the outcome is OK", name)
		}
	}
}

// TestReceiver checks that messages are counted once each, and repeated calls apart.
func TestReceiver(t *testing.T) {
	r, err := startReceiver(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.server.Close()

	for _, id := range []string{"a", "b", "a", "a"} {
		call, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		call.Header.Set("webhook-id", id)
		response, err := r.server.Client().Do(call)
		if err != nil || response.StatusCode != http.StatusNoContent {
			t.Fatalf("response %v, error %v", response, err)
		}
		response.Body.Close()
	}
	if messages, repeated := r.counts(); messages != 2 || repeated != 2 {
		t.Errorf("%d messages, %d repeated calls; want 2 and 2", messages, repeated)
	}
}

// TestValidate checks the limits of the flags.
func TestValidate(t *testing.T) {
	good := Command{Rounds: 2, Connections: 16, Rate: 200, Outage: time.Second}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Command){
		"--rounds":      func(c *Command) { c.Rounds = 0 },
		"--connections": func(c *Command) { c.Connections = 4000 },
		"--rate":        func(c *Command) { c.Rate = 1 },
		"--outage":      func(c *Command) { c.Outage = time.Millisecond },
	} {
		c := good
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
