package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/turns"
)

// The two content types of answers. The second is sent to callers that ask for it.
const (
	typeJSON     = "application/json"
	typeResponse = "application/graphql-response+json"
)

// jsonPost is the one way in: POST of a JSON object. gqlgen's own transport would repeat the
// request's body in its errors; forms, GET, multipart and websockets are left out because a browser
// sends those across origins unasked.
//
// A request that was run answers 200, even when fields failed. One that was not (syntax,
// validation, limits) answers 400, or what ErrorCode in errors.graphqls says.
type jsonPost struct {
	resolver *Resolver
	reading  *turns.Queue // of requests that are parsed and validated, or read the schema, by client network
	answers  *schemaAnswers
}

// The bounds of requests that are parsed and validated, which callers send without signing in. They
// take at most half of the processors, so that no flood of them takes the hits' share.
const (
	readLine        = 512 // of at most 64 KB each
	readLinePerPeer = 256
	readPatience    = 2 * time.Second
)

func newJSONPost(r *Resolver) jsonPost {
	most := max(1, runtime.GOMAXPROCS(0)/2)
	reading := &turns.Queue{Most: most, MostPerKey: most, Line: readLine, LinePerKey: readLinePerPeer, Patience: readPatience}
	return jsonPost{resolver: r, reading: reading, answers: newSchemaAnswers()}
}

// Supports takes every request; Server lets nothing else through.
func (jsonPost) Supports(*http.Request) bool { return true }

// Do reads, runs and answers one request.
func (t jsonPost) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	start := graphql.Now()
	caller, recognised := credentialOf(r)
	if recognised {
		if wait := t.resolver.refusals.wait(caller, t.resolver.now()); wait > 0 {
			pause(r.Context(), refusalPause)
			refuse(w, r, http.StatusTooManyRequests, busyError(generated.ErrorCodeRateLimited, wait,
				"Requests were sent without waiting as long as the answers before said."))

			return
		}

		defer func() {
			if retryAfter := requestOf(r.Context()).retryAfter; retryAfter > 0 {
				t.resolver.refusals.note(caller, retryAfter, t.resolver.now())
			}
		}()
	}

	body, status, refusal := readBody(w, r)
	if refusal != nil {
		refuse(w, r, status, refusal)
		return
	}

	ctx := r.Context()
	params, operation, errs, err := t.prepare(ctx, r, exec, body, start)
	switch {
	case err != nil:
		refuseLate(w, r, err)
		return
	case params == nil:
		refuse(w, r, http.StatusBadRequest, errs[0])
		return
	case errs != nil:
		reply(w, r, http.StatusBadRequest, exec.DispatchError(graphql.WithOperationContext(ctx, operation), errs))
		return
	}

	reads := readsSchema(operation.Operation)
	if reads != schemaNotRead {
		if refusal := t.resolver.chargeSchema(graphql.WithOperationContext(ctx, operation)); refusal != nil {
			refuse(w, r, http.StatusTooManyRequests, refusal)
			return
		}
	}

	run := func() *graphql.Response {
		run, ctx := exec.DispatchOperation(ctx, operation)
		return run(ctx)
	}

	if reads == schemaOnly {
		t.answerSchema(w, r, params, run)
		return
	}

	// Resolvers have run when run returns: cookies they set are still in time.
	response := run()

	// the context had ended before
	if response == nil {
		refuseLate(w, r, ctx.Err())
		return
	}

	reply(w, r, http.StatusOK, response)
}

// prepare decodes, parses and validates a request when its turn has come. It returns no params, and
// one error, for a body that is not a request, and an err when the turn did not come.
func (t jsonPost) prepare(ctx context.Context, r *http.Request, exec graphql.GraphExecutor, body []byte, start time.Time) (
	*graphql.RawParams, *graphql.OperationContext, gqlerror.List, error,
) {
	end, err := t.reading.Take(ctx, requestOf(ctx).network)
	if err != nil {
		return nil, nil, nil, err
	}
	defer end()

	params, refusal := readParams(body)
	if refusal != nil {
		return nil, nil, gqlerror.List{refusal}, nil
	}

	params.Headers = r.Header
	params.ReadTime = graphql.TraceTiming{Start: start, End: graphql.Now()}
	operation, errs := exec.CreateOperationContext(ctx, params)

	return params, operation, errs, nil
}

// readBody reads the body of a request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, int, *gqlerror.Error) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != typeJSON {
		return nil, http.StatusUnsupportedMediaType,
			libraryError(generated.ErrorCodeBadRequest, "Send the content type application/json.")
	}

	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, http.StatusRequestEntityTooLarge,
			libraryError(generated.ErrorCodeTooLarge, "The request is larger than %d bytes.", maxBody)
	}

	if err != nil {
		return nil, http.StatusBadRequest, noRequest()
	}

	return body, 0, nil
}

func noRequest() *gqlerror.Error {
	return libraryError(generated.ErrorCodeBadRequest, `The body is not a JSON object with a "query".`)
}

func readParams(body []byte) (*graphql.RawParams, *gqlerror.Error) {
	var params graphql.RawParams
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()

	err := decoder.Decode(&params)
	if err != nil || decoder.More() || params.Query == "" {
		return nil, noRequest()
	}

	return &params, nil
}

// refuseLate answers a request of which nothing was run because its turn or its end came first. A
// caller who has left gets no answer.
func refuseLate(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, turns.ErrBusy):
		refuse(w, r, http.StatusServiceUnavailable,
			busyError(generated.ErrorCodeUnavailable, time.Second, "Too many requests are being read. Try again."))
	case !hasLeft(r.Context()):
		refuse(w, r, http.StatusServiceUnavailable, timeoutError())
	}
}

// refuse answers a request that never reached the schema.
func refuse(w http.ResponseWriter, r *http.Request, status int, err *gqlerror.Error) {
	reply(w, r, status, &graphql.Response{Errors: gqlerror.List{err}})
}

// answer is a response as it is written: "data" is there when the request was run, even if it is
// null.
type answer struct {
	Errors gqlerror.List   `json:"errors,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

func reply(w http.ResponseWriter, r *http.Request, status int, response *graphql.Response) {
	body, err := json.Marshal(answer{Errors: response.Errors, Data: response.Data})
	if err != nil {
		// Server turns it into INTERNAL
		panic(err)
	}
	send(w, r, status, body)
}

func send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Type", responseType(r))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

func responseType(r *http.Request) string {
	if strings.Contains(r.Header.Get("Accept"), typeResponse) {
		return typeResponse + "; charset=utf-8"
	}
	return typeJSON + "; charset=utf-8"
}
