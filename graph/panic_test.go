package graph

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/graph/endpoint"
	"github.com/tallygate/tallygate/graph/limits"
)

// panicking is a schema whose operations panic before a field runs.
type panicking struct{ schema *ast.Schema }

func (p panicking) Schema() *ast.Schema { return p.schema }

func (panicking) Complexity(context.Context, string, string, int, map[string]any) (int, bool) {
	return 0, false
}

func (panicking) Exec(context.Context) graphql.ResponseHandler { panic("a programmer's mistake") }

// TestPanicOutsideOfField: the answer and the log have the same request id, and only the log has
// the reason.
func TestPanicOutsideOfField(t *testing.T) {
	t.Parallel()

	var log strings.Builder
	l := limits.New(0)
	exec := executor.New(panicking{gqlparser.MustLoadSchema(&ast.Source{Input: "type Query { a: String }"})})
	exec.SetErrorPresenter((&presenter{log: slog.New(slog.NewJSONHandler(&log, nil)), now: time.Now}).present)
	exec.SetRecoverFunc(recovered)
	handler := requests{
		limits: l, timeout: time.Minute, now: time.Now, clientAddr: func(*http.Request) netip.Addr { return netip.Addr{} },
		isShared: func(*http.Request) bool { return false },
	}.handler(handle(endpoint.New(l, time.Now), exec))

	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(`{"query":"{ a }"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)

	var line struct {
		RequestID    string `json:"request_id"`
		Error, Stack string
	}
	if err := json.Unmarshal([]byte(log.String()), &line); err != nil {
		t.Fatalf("%v in the log %q", err, log.String())
	}
	id := w.Header().Get("X-Request-Id")
	if line.RequestID != id || id == "" || !strings.Contains(line.Error, "a programmer's mistake") || !strings.Contains(line.Stack, "Exec") {
		t.Errorf("request %q is logged as %+v", id, line)
	}

	want := `{"errors":[{"message":"Internal error. It was logged with the request id ` + id + `.",` +
		`"extensions":{"code":"INTERNAL","requestId":"` + id + `"}}]}`
	if w.Code != http.StatusInternalServerError || w.Body.String() != want ||
		w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("status %d, %v, %s, want %s", w.Code, w.Header(), w.Body, want)
	}
}
