package scenario

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestEffect checks which answers count as refused, and which as broken.
func TestEffect(t *testing.T) {
	var e report.Case
	addEffect(&e, &load.Result{Answers: map[string]int64{
		"204": 1, "400 unknown_event": 2, "503": 4, "503 unavailable": 8, "502": 16, "504": 32, "no answer": 64,
	}}, 0)
	if e.Get(served) != 3 || e.Get(refused) != 12 || e.Get(broken) != 112 {
		t.Errorf("%+v, want 3 served, 12 refused, 112 broken", e)
	}
}

// TestDeliveriesComplete checks that each missing delivery is noticed.
func TestDeliveriesComplete(t *testing.T) {
	for name, test := range map[string]struct {
		d    deliveries
		want bool
	}{
		"all arrived, one twice": {deliveries{Stored: 2, Received: 2, Repeated: 1}, true},
		"an open delivery":       {deliveries{Stored: 2, Received: 2, Open: 1}, false},
		"a message too few":      {deliveries{Stored: 2, Received: 1}, false},
		"no delivery":            {deliveries{}, false},
		"one five times":         {deliveries{Stored: 2, Received: 2, Repeated: 4, Most: 5}, true},
		"one six times":          {deliveries{Stored: 2, Received: 2, Repeated: 5, Most: 6}, false},
	} {
		testkit.Equal(t, test.d.complete(), test.want, "%s: complete is %v", name, !test.want)
	}
}

// TestReceiver checks that messages are counted once each, and repeated calls apart.
func TestReceiver(t *testing.T) {
	r, err := startReceiver(t.TempDir())
	testkit.NoError(t, err)
	defer r.server.Close()

	for _, id := range []string{"a", "b", "a", "a"} {
		call, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL, strings.NewReader("{}"))
		testkit.NoError(t, err)
		call.Header.Set("webhook-id", id)
		response, err := r.server.Client().Do(call)
		if err != nil || response.StatusCode != http.StatusNoContent {
			t.Fatalf("response %v, error %v", response, err)
		}
		response.Body.Close()
	}
	var got deliveries
	if r.count(&got); got != (deliveries{Received: 2, Repeated: 2, Most: 3}) {
		t.Errorf("%+v, want 2 messages, one of them 3 times", got)
	}
}
