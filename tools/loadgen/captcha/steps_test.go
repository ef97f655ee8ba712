package captcha

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestRefusingServer checks that a run does not pass if all its calls are refused.
func TestRefusingServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()

	var successes atomic.Int64
	run := NewRun(server.Listener.Addr().String(), "key", "secret", load.Load{Connections: 2, Successes: &successes})
	run.Redeem(t.Context(), Once([]*Ticket{{}, {}, {}}))

	if r := run.Results[Redeeming]; successes.Load() != 0 || r.Answers["503"] != 3 || run.Verdict.Unknown != 3 {
		t.Errorf("%d successes, answers %v, %+v", successes.Load(), r.Answers, run.Verdict)
	}
	if run.Verdict.OK() {
		t.Error("a captcha without accepted tokens is fine")
	}
}

// TestCaptchaUsage compares the counted usage with the accepted tokens.
func TestCaptchaUsage(t *testing.T) {
	usage := func(period string, verifications int64) target.CaptchaUsage {
		return target.CaptchaUsage{Period: period, Verifications: verifications}
	}

	for _, test := range []struct {
		name          string
		before, after target.CaptchaUsage
		wrong         bool
	}{
		{"exact", usage("2026-11", 5), usage("2026-11", 15), false},
		{"one without an answer was counted", usage("2026-11", 5), usage("2026-11", 16), false},
		{"too few", usage("2026-11", 5), usage("2026-11", 14), true},
		{"too many", usage("2026-11", 5), usage("2026-11", 17), true},
		{"a new month", usage("2026-11", 5), usage("2026-12", 3), false},
		{"too many in a new month", usage("2026-11", 5), usage("2026-12", 12), true},
	} {
		v := Verdict{Accepted: 10, Unknown: 1}
		if v.Compare(test.before, test.after); v.Wrong > 0 != test.wrong || v.OK() == test.wrong {
			t.Errorf("%s: %+v", test.name, v)
		}
	}
}

// TestRehearsal checks that the empty handler gets the requests that redeem tokens, that the first
// responses are warm-up, and that no response counts for the verdict.
func TestRehearsal(t *testing.T) {
	var paths sync.Map
	stub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		paths.Store(r.URL.Path+" "+string(body), true)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer stub.Close()

	tickets := make([]*Ticket, 1000)
	for i := range tickets {
		tickets[i] = &Ticket{Token: "same"}
	}

	run := NewRun("elsewhere.example:1", "key", "secret", load.Load{Connections: 4, WarmAnswers: 400})
	r := run.Rehearse(t.Context(), stub.Listener.Addr().String(), 0, Redeeming, Once(tickets))

	// Up to three other connections may be answered between the two counts.
	if n := r.Sent(); n > 600 || n < 600-3 || r.Others != 1000-n || r.AllAccepted() != nil {
		t.Errorf("%d measured, %d not, %v", n, r.Others, r.AllAccepted())
	}
	if _, ok := paths.Load(`/api/v1/pow/siteverify {"sitekey":"key","secret":"secret","token":"same"}`); !ok {
		t.Error("other requests were sent")
	}
	if v := run.Verdict; v.Accepted+v.Lost+v.Unknown != 0 || len(run.Unexpected.Counts) != 0 ||
		tickets[0].outcomes != (Ticket{}).outcomes {
		t.Errorf("the answers count: %+v", v)
	}

	r.Answers["503"] = 1
	if r.AllAccepted() == nil {
		t.Error("an empty handler that refuses is fine")
	}
}

// TestJudgeProxied checks that a load balancer's answer for a lost server leaves the outcome
// unknown, and that it is a fault of the server itself.
func TestJudgeProxied(t *testing.T) {
	for proxied, want := range map[bool]outcome{true: unknown, false: absurd} {
		s := &stepSource{step: &step{run: &Run{Proxied: proxied}, number: Redeeming}}
		for _, status := range []int{502, 504} {
			testkit.Equal(t, s.judge(load.Answer{Status: status}, nil), want, "status %d, proxied %v: outcome", status, proxied)
		}
	}
}
