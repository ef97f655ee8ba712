package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/graph/generated"
)

// document is a GraphQL request.
type document struct {
	text      string
	variables map[string]any

	operation *ast.OperationDefinition // of the text; nil for documents that are not of a tool
	site      string                   // that the caller asked for; "": any
}

// response is the answer to a GraphQL request.
type response struct {
	Data   json.RawMessage
	Errors graphQLErrors
	fault  error // of this package: there is no GraphQL answer; Errors then has an INTERNAL error
}

type graphQLError struct {
	Message    string
	Path       []any
	Extensions struct {
		Code       string
		RetryAfter int64
		RequestID  string
	}
}

// err returns the error of a request that failed.
func (r *response) err() error {
	if r.fault != nil {
		return r.fault
	}
	if len(r.Errors) > 0 {
		return r.Errors
	}
	return nil
}

// decode decodes the data.
func (r *response) decode(into any) error {
	if len(r.Data) == 0 {
		return errors.New("mcp: an answer of GraphQL without data")
	}
	return json.Unmarshal(r.Data, into)
}

// notForGraphQL are the headers of a request that its GraphQL requests do not have: they describe
// the body, or are a browser's.
var notForGraphQL = []string{
	"Authorization", "Cookie", "Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Accept", "Accept-Encoding",
	"Content-Encoding", "Content-Length", "Content-Type", "Transfer-Encoding", "Trailer", PasswordHeader,
}

// request returns an HTTP request of the same client, with the caller's credential and without a
// body.
func (c *call) request(ctx context.Context) *http.Request {
	// Clone copies the header, so the client's request stays as it is.
	r := c.http.Clone(ctx)
	for _, name := range notForGraphQL {
		r.Header.Del(name)
	}
	if c.authorization != "" {
		r.Header.Set("Authorization", c.authorization)
	}

	r.URL, r.RequestURI = &url.URL{Path: "/graphql"}, "/graphql"
	r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = nil, 0, nil, nil
	return r
}

// run sends a document to GraphQL. A failure without a GraphQL answer becomes an INTERNAL error.
func (c *call) run(ctx context.Context, d *document) *response {
	body, err := json.Marshal(map[string]any{"query": d.text, "variables": d.variables})
	if err != nil {
		return failed(fmt.Errorf("encode the arguments: %w", err))
	}

	r := c.request(ctx)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))

	var answer recorder
	c.serveGraphQL(&answer, r)

	var decoded response
	if err := json.Unmarshal(answer.body.Bytes(), &decoded); err != nil {
		return failed(fmt.Errorf("GraphQL's answer of %d bytes: %w", answer.body.Len(), err))
	}
	return &decoded
}

// serveGraphQL lets GraphQL answer a request. GraphQL charges its own work.
func (c *call) serveGraphQL(w http.ResponseWriter, r *http.Request) {
	defer c.work.Leave().End()
	c.server.GraphQL.ServeHTTP(w, r)
}

func failed(fault error) *response {
	e := graphQLError{Message: "Internal error."}
	e.Extensions.Code = string(generated.ErrorCodeInternal)
	return &response{Errors: graphQLErrors{e}, fault: fault}
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
