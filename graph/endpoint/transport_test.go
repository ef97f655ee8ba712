package endpoint

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/turns"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/tools/testkit"
)

// reader is an executor that counts how many requests it parses at once. Its other methods are not
// called.
type reader struct {
	graphql.GraphExecutor

	entered chan struct{}
	release chan struct{}
	now     atomic.Int32
	most    atomic.Int32
	runs    atomic.Int32
}

func (e *reader) CreateOperationContext(
	context.Context, *graphql.RawParams,
) (*graphql.OperationContext, gqlerror.List) {
	n := e.now.Add(1)
	for most := e.most.Load(); n > most && !e.most.CompareAndSwap(most, n); most = e.most.Load() {
	}
	e.entered <- struct{}{}
	<-e.release
	e.now.Add(-1)
	return &graphql.OperationContext{Operation: &ast.OperationDefinition{Operation: ast.Query}}, nil
}

func (e *reader) DispatchOperation(
	ctx context.Context, _ *graphql.OperationContext,
) (graphql.ResponseHandler, context.Context) {
	return func(context.Context) *graphql.Response {
		e.runs.Add(1)
		return &graphql.Response{Data: []byte(`{"a":1}`)}
	}, ctx
}

// newRequest returns a request within limits.
func (t Transport) newRequest(query string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(`{"query":"`+query+`"}`))
	r.Header.Set("Content-Type", "application/json")
	return r.WithContext(t.limits.WithRequest(r.Context(), netip.Addr{}, false, time.Now()))
}

// TestFewRequestsAreParsedAtOnce: a flood of documents takes a bounded number of processors, and
// requests beyond the queue are refused unparsed.
func TestFewRequestsAreParsedAtOnce(t *testing.T) {
	const most, line, sent = 2, 5, 10
	transport := New(limits.New(0), time.Now)
	transport.parsing = &turns.Queue{Most: most, MostPerKey: most, Line: line, LinePerKey: line, Patience: time.Minute}
	exec := &reader{entered: make(chan struct{}, sent), release: make(chan struct{})}
	statuses := make(chan int, sent)
	var requests sync.WaitGroup
	send := func() {
		requests.Go(func() {
			w := httptest.NewRecorder()
			transport.Do(w, transport.newRequest("{ a }"), exec)
			statuses <- w.Code
		})
	}
	for range sent {
		send()
	}

	for range sent - most - line {
		testkit.Equal(t, <-statuses, http.StatusServiceUnavailable, "one too many: status")
	}

	for range most {
		<-exec.entered
	}
	close(exec.release)
	requests.Wait()

	for range most + line {
		testkit.Equal(t, <-statuses, http.StatusOK, "another one: status")
	}

	testkit.Equal(t, exec.most.Load(), most, "requests were parsed at once")
}

// TestSchemaResponsesAreCached: a response is computed once for each query, operation name and
// variables.
func TestSchemaResponsesAreCached(t *testing.T) {
	transport := New(limits.New(0), time.Now)
	runs := 0
	run := func() *graphql.Response {
		runs++
		return &graphql.Response{Data: []byte(`{"a":1}`)}
	}
	for i, test := range []struct {
		params graphql.RawParams
		runs   int
	}{
		{graphql.RawParams{Query: "{ a }"}, 1},
		{graphql.RawParams{Query: "{ a }"}, 1},
		{graphql.RawParams{Query: "{ a  }"}, 2},
		{graphql.RawParams{Query: "{ a }", OperationName: "b"}, 3},
		{graphql.RawParams{Query: "{ a }", Variables: map[string]any{"b": 1}}, 4},
		{graphql.RawParams{Query: "{ a }", Variables: map[string]any{"b": 1}}, 4},
	} {
		w := httptest.NewRecorder()
		transport.schema.serve(w, transport.newRequest(""), &test.params, transport.parsing, run)

		if w.Code != http.StatusOK || w.Body.String() != `{"data":{"a":1}}` || runs != test.runs {
			t.Errorf("request %d: %d %s after %d runs, want %d", i, w.Code, w.Body, runs, test.runs)
		}
	}

	failing := func() *graphql.Response {
		runs++
		return &graphql.Response{Errors: gqlerror.List{gqlerror.Wrap(errors.New("no"))}}
	}

	before := runs

	for range 2 {
		transport.schema.serve(httptest.NewRecorder(), transport.newRequest(""), &graphql.RawParams{Query: "{ failing }"}, transport.parsing, failing)
	}

	testkit.Equal(t, runs, before+2, "a response with errors was cached")
}
