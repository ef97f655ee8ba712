// Package endpoint reads GraphQL requests from HTTP and writes the responses: one JSON object per
// POST. The server in graph mounts its Transport; it never calls a resolver directly and knows no
// type of the schema.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/turns"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// The sizes of requests in bytes: of a body, and of the query of an address, which a document
// fills.
const (
	maxBody  = 64 << 10
	maxQuery = 8 << 10
)

// The bounds of requests that are parsed and validated, which needs no session. They use at most
// half of the processors, so a flood of them leaves the other half to hits.
const (
	parseQueue           = 512 // of at most maxBody each
	parseQueuePerNetwork = 256
	parsePatience        = 2 * time.Second
)

// Transport runs requests by gqlgen's executor: POST of a JSON object, and GET for queries.
// gqlgen's own transports repeat the request's body in their errors. Forms, multipart and
// websockets are left out because browsers send those across origins without a preflight. The
// server passes on a GET only if it has a token, which pages of other origins send after a
// preflight.
//
// A request that was run is answered with 200, even when fields failed. A request that was not run
// (syntax, validation, limits) is answered with 400, or the status documented at ErrorCode in
// errors.graphqls.
type Transport struct {
	limits  *limits.Limits
	now     func() time.Time
	parsing *turns.Queue // of requests that are parsed and validated, or read the schema, by client network
	schema  *schemaCache
}

// New returns a transport within the limits.
func New(l *limits.Limits, now func() time.Time) Transport {
	most := max(1, runtime.GOMAXPROCS(0)/2)
	parsing := &turns.Queue{
		Most: most, MostPerKey: most, Line: parseQueue, LinePerKey: parseQueuePerNetwork, Patience: parsePatience,
	}

	return Transport{limits: l, now: now, parsing: parsing, schema: newSchemaCache()}
}

// Do reads, runs and answers one request. Its context must have the time of the start, see
// graphql.StartOperationTrace.
func (t Transport) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	start := graphql.Now()

	if wait := t.limits.Impatient(r, t.now()); wait > 0 {
		Refuse(w, r, http.StatusTooManyRequests, limits.RefusalFor(generated.ErrorCodeRateLimited, wait, limits.Impatience))
		return
	}

	defer func() { t.limits.CountRefusal(r, t.now()) }()

	read, status, refusal := receive(w, r)
	if refusal != nil {
		Refuse(w, r, status, refusal)
		return
	}

	ctx := r.Context()
	params, operation, errs, err := t.prepare(ctx, r, exec, read, start)
	switch {
	case err != nil:
		refuseUnserved(w, r, err)
		return
	case params == nil:
		Refuse(w, r, http.StatusBadRequest, errs[0])
		return
	case errs != nil:
		reply(w, r, http.StatusBadRequest, exec.DispatchError(graphql.WithOperationContext(ctx, operation), errs))
		return
	}

	// Only a parsed document says whether it is a mutation.
	if r.Method == http.MethodGet && operation.Operation.Operation != ast.Query {
		refuseGet(w, r)
		return
	}

	// The charge precedes the run: a caller over the limit must not cost the 30 ms that the schema
	// takes.
	reads := introspectionOf(operation.Operation)
	if reads != notIntrospection {
		if refusal := limits.Of(ctx).ChargeIntrospection(graphql.WithOperationContext(ctx, operation)); refusal != nil {
			Refuse(w, r, http.StatusTooManyRequests, refusal)
			return
		}
	}

	run := func() *graphql.Response {
		run, ctx := exec.DispatchOperation(ctx, operation)
		return run(ctx)
	}

	if reads == onlyIntrospection {
		t.schema.serve(w, r, params, t.parsing, run)
		return
	}

	if operation.Operation.Operation == ast.Query {
		end, err := limits.Of(ctx).TakeQueryTurn(ctx)
		switch {
		case errors.Is(err, turns.ErrBusy):
			Refuse(w, r, http.StatusTooManyRequests, limits.RefusalFor(generated.ErrorCodeRateLimited, time.Second,
				"Too many queries are in progress. Try again."))
			return
		case err != nil:
			refuseUnserved(w, r, err)
			return
		}
		defer end()
	}

	// The resolvers have set their cookies when run returns: the header is written afterwards.
	response := run()

	// There is no response if the context ended before.
	if response == nil {
		refuseUnserved(w, r, ctx.Err())
		return
	}

	answer := encode(response, deprecatedUses(operation.Operation))

	// Secrets must not share a compressed body with texts of visitors.
	if isCompressible(operation.Operation) {
		answer = compress(w, r, answer)
	}
	send(w, r, http.StatusOK, answer)
}

// refuseGet refuses a mutation. Programs between client and server may repeat a GET, and keep its
// address.
func refuseGet(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	Refuse(w, r, http.StatusMethodNotAllowed, limits.Refusal(generated.ErrorCodeBadRequest, "Send a mutation as a POST request."))
}

// prepare waits for a turn, then decodes, parses and validates a request. For something that is not
// a request it returns no params and one error; err means that the turn did not come.
func (t Transport) prepare(
	ctx context.Context, r *http.Request, exec graphql.GraphExecutor, read func() (*graphql.RawParams, *gqlerror.Error),
	start time.Time,
) (
	*graphql.RawParams, *graphql.OperationContext, gqlerror.List, error,
) {
	end, err := t.parsing.Take(ctx, limits.Of(ctx).Network())
	if err != nil {
		return nil, nil, nil, err
	}
	defer end()

	params, refusal := read()
	if refusal != nil {
		return nil, nil, gqlerror.List{refusal}, nil
	}

	params.Headers = r.Header
	params.ReadTime = graphql.TraceTiming{Start: start, End: graphql.Now()}
	operation, errs := exec.CreateOperationContext(ctx, params)

	return params, operation, errs, nil
}

// receive reads a request, up to maxBody or maxQuery bytes, and returns how to decode it.
func receive(w http.ResponseWriter, r *http.Request) (func() (*graphql.RawParams, *gqlerror.Error), int, *gqlerror.Error) {
	if r.Method == http.MethodGet {
		if len(r.URL.RawQuery) > maxQuery {
			return nil, http.StatusRequestURITooLong, limits.Refusal(generated.ErrorCodeTooLarge,
				"The query of the address is longer than %d bytes. Send a POST request.", maxQuery)
		}
		return func() (*graphql.RawParams, *gqlerror.Error) { return paramsOfAddress(r.URL) }, 0, nil
	}

	body, status, refusal := Body(w, r)
	return func() (*graphql.RawParams, *gqlerror.Error) { return readParams(body) }, status, refusal
}

// Body reads a body of JSON, up to maxBody bytes. A refusal comes with its status.
func Body(w http.ResponseWriter, r *http.Request) (body []byte, status int, refusal *gqlerror.Error) {
	// Browsers send forms and plain text to other origins without a preflight.
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != typeJSON {
		return nil, http.StatusUnsupportedMediaType,
			limits.Refusal(generated.ErrorCodeBadRequest, "Send the content type application/json.")
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, http.StatusRequestEntityTooLarge,
			limits.Refusal(generated.ErrorCodeTooLarge, "The request is larger than %d bytes.", maxBody)
	}
	if err != nil {
		return nil, http.StatusBadRequest, limits.Refusal(generated.ErrorCodeBadRequest, "The body ended early.")
	}
	return body, 0, nil
}

func readParams(body []byte) (*graphql.RawParams, *gqlerror.Error) {
	var params graphql.RawParams
	if decode(body, &params) != nil || params.Query == "" {
		return nil, notARequest()
	}
	return &params, nil
}

// paramsOfAddress reads the request of a GET, with variables as JSON (GraphQL over HTTP, section
// 6.2).
func paramsOfAddress(address *url.URL) (*graphql.RawParams, *gqlerror.Error) {
	values, err := url.ParseQuery(address.RawQuery)
	params := &graphql.RawParams{Query: values.Get("query"), OperationName: values.Get("operationName")}
	if text := values.Get("variables"); err == nil && text != "" {
		err = decode([]byte(text), &params.Variables)
	}

	if err != nil || params.Query == "" {
		return nil, limits.Refusal(generated.ErrorCodeBadRequest, `The address has no "query", or "variables" that are no JSON object.`)
	}
	return params, nil
}

// decode decodes one JSON value, with numbers as they were written.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err := decoder.Decode(into)
	if err == nil && decoder.More() {
		err = errors.New("more than one value")
	}
	return err
}

func notARequest() *gqlerror.Error {
	return limits.Refusal(generated.ErrorCodeBadRequest, `The body is not a JSON object with a "query".`)
}
