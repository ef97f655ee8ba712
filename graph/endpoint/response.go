package endpoint

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/turns"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// The content types of responses. The second is sent to clients that accept it.
const (
	typeJSON     = "application/json"
	typeResponse = "application/graphql-response+json"
)

// envelope is the JSON form of a response. It has "data", which may be null, if the request was
// run.
type envelope struct {
	Errors gqlerror.List   `json:"errors,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`

	Extensions *extensions `json:"extensions,omitempty"`
}

// extensions are what a response has in addition.
type extensions struct {
	Deprecated []deprecatedUse `json:"deprecated"`
}

// Refuse answers a request that is not run.
func Refuse(w http.ResponseWriter, r *http.Request, status int, err *gqlerror.Error) {
	reply(w, r, status, &graphql.Response{Errors: gqlerror.List{err}})
}

// refuseUnserved answers a request that was not run, because its turn did not come or its deadline
// came first. A disconnected client gets no answer.
func refuseUnserved(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, turns.ErrBusy):
		Refuse(w, r, http.StatusServiceUnavailable,
			limits.RefusalFor(generated.ErrorCodeUnavailable, time.Second, "Too many requests are being read. Try again."))
	case !limits.Disconnected(r.Context()):
		Refuse(w, r, http.StatusServiceUnavailable, limits.TimeoutError())
	}
}

func reply(w http.ResponseWriter, r *http.Request, status int, response *graphql.Response) {
	send(w, r, status, encode(response, nil))
}

// encode returns a response as JSON. deprecated is what its request has used.
func encode(response *graphql.Response, deprecated []deprecatedUse) []byte {
	answer := envelope{Errors: response.Errors, Data: response.Data}
	if deprecated != nil {
		answer.Extensions = &extensions{Deprecated: deprecated}
	}

	body, err := json.Marshal(answer)
	if err != nil {
		// The server recovers the panic and answers with INTERNAL.
		panic(err)
	}
	return body
}

func send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Type", contentType(r))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// contentType returns the content type of the response to a request.
func contentType(r *http.Request) string {
	if strings.Contains(r.Header.Get("Accept"), typeResponse) {
		return typeResponse + "; charset=utf-8"
	}
	return typeJSON + "; charset=utf-8"
}
