package target

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestReadRows checks that a truncated export is an error.
func TestReadRows(t *testing.T) {
	for text, want := range map[string]int{
		`[]`: 0, `[{"row_id":"1"},{"row_id":"2"}]`: 2,
		``: -1, `{}`: -1, `[`: -1, `[{"row_id":"1"}`: -1, `[{"row_id":"1"},`: -1, `[{"row_id":"1"},{"ro`: -1,
		`[{"row_id":"1"}}`: -1,
	} {
		rows, last, err := readRows(strings.NewReader(text), func(*Row) error { return nil })
		if (err != nil) != (want < 0) || err == nil && rows != want || rows == 2 && last != "2" {
			t.Errorf("%s: %d rows up to %q, %v", text, rows, last, err)
		}
	}

	broken := errors.New("broken")
	if _, _, err := readRows(io.MultiReader(strings.NewReader(`[{"row_id":"1"}`), iotest.ErrReader(broken)),
		func(*Row) error { return nil }); !errors.Is(err, broken) {
		t.Errorf("a broken connection: %v", err)
	}
}

// TestRateLimit checks that a rate-limited caller waits for the given time and retries.
func TestRateLimit(t *testing.T) {
	answers := []string{
		`{"errors":[{"message":"Used up.","extensions":{"code":"RATE_LIMITED","retryAfter":7}}]}`,
		`{"data":{"site":{"usage":{"period":"2026-11","pageviews":5}}}}`,
		`{"errors":[{"message":"Too often.","extensions":{"code":"RATE_LIMITED","retryAfter":900}}]}`,
		`{"errors":[{"message":"No.","extensions":{"code":"FORBIDDEN"}}]}`,
	}

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answers[0])
		answers = answers[1:]
	}))
	defer server.Close()

	a, err := NewAccount(Target{Control: server.URL})
	testkit.NoError(t, err)

	var waited []time.Duration
	a.wait = func(_ context.Context, d time.Duration) error { waited = append(waited, d); return nil }
	if used, err := a.Usage(t.Context(), "x"); err != nil || used.Pageviews != 5 {
		t.Errorf("%+v, %v", used, err)
	}

	for _, code := range []string{"RATE_LIMITED", "FORBIDDEN"} {
		if _, err := a.Usage(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%v, want %s", err, code)
		}
	}

	testkit.EqualSlices(t, waited, []time.Duration{7 * time.Second}, "waited")
}
