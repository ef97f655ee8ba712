// Package inprocess sends the GraphQL requests of other interfaces, the tools for assistants and
// the plain figures, to the handler of /graphql: in process, and with the caller's own credential.
// Permissions, costs, limits and the audit log are therefore GraphQL's.
package inprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/cputime"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/web"
)

// Options configure an API. All are required.
type Options struct {
	GraphQL http.Handler // answers a POST to /graphql
	Auth    *auth.Auth
	Now     func() time.Time
	Log     *slog.Logger
	Present func(ctx context.Context, err error) *gqlerror.Error // GraphQL's errors
}

// API runs GraphQL requests for callers with a token. It is safe for concurrent use.
type API struct {
	Options
	links *links
}

// New returns an API.
func New(o Options) *API {
	// A panic in a goroutine of an interface would end the process.
	o.GraphQL = web.Recover(o.Log, o.GraphQL)
	return &API{Options: o, links: newLinks()}
}

// Call is one HTTP request of another interface, with its caller.
type Call struct {
	API           *API
	HTTP          *http.Request // with the deadline of its GraphQL requests
	Authorization string        // header of its GraphQL requests; "": none
	Caller        auth.Caller
	Work          *cputime.Meter // of the request, without GraphQL's; nil: not measured
}

// Reads reports whether the caller reads through a shared link.
func (c *Call) Reads() bool { return c.Caller.Shared != nil }

// Response is the answer to a GraphQL request.
type Response struct {
	Data   json.RawMessage
	Errors Errors
	Fault  error // of this package: there is no GraphQL answer; Errors then has an INTERNAL error
}

// Errors are the errors of a GraphQL request.
type Errors []Error

// Error is one of them.
type Error struct {
	Message    string
	Path       []any // of the field in GraphQL's data
	Extensions struct {
		Code       string
		RetryAfter int64 // seconds; 0: none
		RequestID  string
	}
}

// Error implements error.
func (errs Errors) Error() string { return errs[0].Message }

// Err returns the error of a request that failed: its Fault, or its Errors.
func (r *Response) Err() error {
	if r.Fault != nil {
		return r.Fault
	}
	if len(r.Errors) > 0 {
		return r.Errors
	}
	return nil
}

// Decode decodes the data.
func (r *Response) Decode(into any) error {
	if len(r.Data) == 0 {
		return errors.New("an answer of GraphQL without data")
	}
	return json.Unmarshal(r.Data, into)
}

// Failed returns the response to a request that this process could not run.
func Failed(fault error) *Response {
	e := Error{Message: "Internal error."}
	e.Extensions.Code = string(generated.ErrorCodeInternal)
	return &Response{Errors: Errors{e}, Fault: fault}
}

// notForGraphQL are the headers of a request that its GraphQL requests do not have: they describe
// the body, or are a browser's.
var notForGraphQL = []string{
	"Authorization", "Cookie", "Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Accept", "Accept-Encoding",
	"Content-Encoding", "Content-Length", "Content-Type", "Transfer-Encoding", "Trailer", "If-None-Match", PasswordHeader,
}

// request returns an HTTP request of the same client, with the caller's credential and without a
// body.
func (c *Call) request(ctx context.Context) *http.Request {
	// Clone copies the header, so the client's request stays as it is.
	r := c.HTTP.Clone(ctx)
	for _, name := range notForGraphQL {
		r.Header.Del(name)
	}
	if c.Authorization != "" {
		r.Header.Set("Authorization", c.Authorization)
	}

	r.Method, r.URL, r.RequestURI = http.MethodPost, &url.URL{Path: "/graphql"}, "/graphql"
	r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = nil, 0, nil, nil
	return r
}

// Run sends a query with variables to GraphQL. A failure without a GraphQL answer becomes an
// INTERNAL error.
func (c *Call) Run(ctx context.Context, query string, variables map[string]any) *Response {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return Failed(fmt.Errorf("encode the arguments: %w", err))
	}

	r := c.request(ctx)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))

	var answer recorder
	c.serve(&answer, r)

	var decoded Response
	if err := json.Unmarshal(answer.body.Bytes(), &decoded); err != nil {
		return Failed(fmt.Errorf("GraphQL's answer of %d bytes: %w", answer.body.Len(), err))
	}
	return &decoded
}

// serve lets GraphQL answer a request. GraphQL charges its own work.
func (c *Call) serve(w http.ResponseWriter, r *http.Request) {
	defer c.Work.Leave().End()
	c.API.GraphQL.ServeHTTP(w, r)
}

// recorder keeps an answer in memory. Its length is bounded by GraphQL's own limits.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = make(http.Header)
	}
	return r.header
}

func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
