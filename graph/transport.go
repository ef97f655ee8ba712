package graph

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/graph/generated"
)

// The two content types of answers. The second is sent to callers that ask for it.
const (
	typeJSON     = "application/json"
	typeResponse = "application/graphql-response+json"
)

// jsonPost is the one way in: POST of a JSON object. gqlgen's own transport would repeat the request's body in its
// errors; forms, GET, multipart and websockets are left out because a browser sends those across origins unasked.
//
// A request that was run answers 200, even when fields failed. One that was not (syntax, validation, limits) answers 400.
type jsonPost struct{}

// Supports takes every request; Server lets nothing else through.
func (jsonPost) Supports(*http.Request) bool { return true }

// Do reads, runs and answers one request.
func (jsonPost) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	start := graphql.Now()
	params, status, refusal := readParams(w, r)
	if refusal != nil {
		refuse(w, r, status, refusal)
		return
	}
	params.Headers = r.Header
	params.ReadTime = graphql.TraceTiming{Start: start, End: graphql.Now()}
	ctx := r.Context()
	operation, errs := exec.CreateOperationContext(ctx, params)
	if errs != nil {
		reply(w, r, http.StatusBadRequest, exec.DispatchError(graphql.WithOperationContext(ctx, operation), errs))
		return
	}
	run, ctx := exec.DispatchOperation(ctx, operation)
	// Resolvers have run when run returns: cookies they set are still in time.
	reply(w, r, http.StatusOK, run(ctx))
}

func readParams(w http.ResponseWriter, r *http.Request) (*graphql.RawParams, int, *gqlerror.Error) {
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != typeJSON {
		return nil, http.StatusUnsupportedMediaType,
			libraryError(generated.ErrorCodeBadRequest, "Send the content type application/json.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, http.StatusRequestEntityTooLarge,
			libraryError(generated.ErrorCodeTooLarge, "The request is larger than %d bytes.", maxBody)
	}
	var params graphql.RawParams
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	if err == nil {
		err = decoder.Decode(&params)
	}
	if err == nil && decoder.More() {
		err = errors.New("more than one JSON value")
	}
	if err != nil || params.Query == "" {
		return nil, http.StatusBadRequest,
			libraryError(generated.ErrorCodeBadRequest, `The body is not a JSON object with a "query".`)
	}
	return &params, 0, nil
}

// refuse answers a request that never reached the schema.
func refuse(w http.ResponseWriter, r *http.Request, status int, err *gqlerror.Error) {
	reply(w, r, status, &graphql.Response{Errors: gqlerror.List{err}})
}

// answer is a response as it is written: "data" is there when the request was run, even if it is null.
type answer struct {
	Errors gqlerror.List   `json:"errors,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

func reply(w http.ResponseWriter, r *http.Request, status int, response *graphql.Response) {
	body, err := json.Marshal(answer{Errors: response.Errors, Data: response.Data})
	if err != nil {
		panic(err) // Server turns it into "internal"
	}
	w.Header().Set("Content-Type", responseType(r))
	w.WriteHeader(status)
	w.Write(body)
}

func responseType(r *http.Request) string {
	if strings.Contains(r.Header.Get("Accept"), typeResponse) {
		return typeResponse + "; charset=utf-8"
	}
	return typeJSON + "; charset=utf-8"
}
