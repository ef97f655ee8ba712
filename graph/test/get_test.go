package graph_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestGetQueries sends requests by GET: queries with a token are answered, and nothing else is.
func TestGetQueries(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		owner := a.owner("owner@get.example")
		reader := owner.done("createApiToken", "name", "t", "scopes", []string{"READ", "WRITE"}).at("createApiToken.token").(string)

		const viewer = `query Mine($first: Int) { viewer { email } account { sites(first: $first) { totalCount } } }`
		for _, test := range []struct {
			name   string
			query  url.Values
			token  string
			accept string
			status int
			says   string
		}{
			{name: "a query", query: url.Values{"query": {`{ account { name } }`}}, token: reader, status: 200, says: `{"data":{"account":{"name":`},
			{
				name:  "variables",
				query: url.Values{"query": {viewer}, "operationName": {"Mine"}, "variables": {`{"first": 1}`}},
				token: reader, status: 200, says: `"totalCount":0`,
			},
			{name: "of a client", query: url.Values{"query": {`{ account { name } }`}, "extensions": {`{}`}}, token: reader, status: 200,
				accept: "application/graphql-response+json, application/json", says: `{"data":`},
			{
				name:  "a mutation",
				query: url.Values{"query": {`mutation { revokeApiToken(input: {apiTokenId: "x"}) { userErrors { code } } }`}},
				token: reader, status: 405, says: "Send a mutation as a POST request.",
			},
			{name: "a wrong token", query: url.Values{"query": {`{ account { name } }`}}, token: "svc_wrong", status: 200, says: "UNAUTHENTICATED"},
			{name: "a cookie alone", query: url.Values{"query": {`{ account { name } }`}}, status: 405, says: "Send a POST request."},
			{name: "no query", query: url.Values{"variables": {`{}`}}, token: reader, status: 400, says: "BAD_REQUEST"},
			{
				name: "variables that are none", query: url.Values{"query": {viewer}, "variables": {`[1]`}},
				token: reader, status: 400, says: "BAD_REQUEST",
			},
			{
				name: "two sets of variables", query: url.Values{"query": {viewer}, "variables": {`{} {}`}},
				token: reader, status: 400, says: "BAD_REQUEST",
			},
			{
				name:  "a long address",
				query: url.Values{"query": {`{ account { name } } #` + strings.Repeat("x", 8<<10)}}, token: reader,
				status: 414, says: "TOO_LARGE",
			},
		} {
			request := value(http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"?"+test.query.Encode(), nil))(t)
			if test.token != "" {
				request.Header.Set("Authorization", "Bearer "+test.token)
			}
			request.Header.Set("Accept", test.accept)

			// The client has the owner's session.
			response := value(owner.http.Do(request))(t)
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			testkit.NoError(t, err)
			if response.StatusCode != test.status || !strings.Contains(string(body), test.says) {
				t.Errorf("%s: %d %s", test.name, response.StatusCode, body)
			}
			if stored := response.Header.Get("Cache-Control"); test.status == 200 && stored != "no-store" {
				t.Errorf("%s: a cache may store the answer: %q", test.name, stored)
			}
		}
	})
}
