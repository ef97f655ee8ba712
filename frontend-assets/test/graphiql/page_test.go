// Package graphiql_test tests GraphiQL in a browser: it loads, posts operations with the session
// cookie, and requests nothing from other hosts.
package graphiql_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/browsertest"
)

func TestChromiumGraphiQL(t *testing.T) {
	t.Parallel()

	operations := make(chan string, 100)
	graphiql := assets.GraphiQL()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" {
			graphiql.ServeHTTP(w, r)
			return
		}

		cookie, _ := r.Cookie("session")
		operation, _ := io.ReadAll(r.Body)

		if r.URL.Path == "/graphql" && cookie != nil {
			operations <- string(operation)
		}

		w.Header().Set("Content-Type", "application/json")

		if strings.Contains(string(operation), "__schema") {
			_, _ = io.WriteString(w, `{"data": {"__schema": {"queryType": {"name": "Query"}, "mutationType": null, "subscriptionType": null, "directives": [],
				"types": [{"kind": "OBJECT", "name": "Query", "description": null, "interfaces": [], "enumValues": null, "possibleTypes": null, "inputFields": null,
					"fields": [{"name": "hello", "description": null, "args": [], "isDeprecated": false, "deprecationReason": null,
						"type": {"kind": "SCALAR", "name": "String", "ofType": null}}]},
					{"kind": "SCALAR", "name": "String", "description": null, "fields": null, "interfaces": null, "enumValues": null, "possibleTypes": null, "inputFields": null}]}}}`)

			return
		}

		_, _ = io.WriteString(w, `{"data": {"hello": "from the test"}}`)
	}))

	t.Cleanup(server.Close)
	page := browsertest.New(t, browsertest.Host("control.example.test", server.URL)).NewPage()
	page.Before(`document.cookie = "session=1"`)
	page.Goto("http://control.example.test/graphql")
	page.WaitFor(`document.title === "Tallygate" && document.querySelector(".graphiql-query-editor .CodeMirror-line")`)
	wait := func(part string) {
		t.Helper()
		select {
		case got := <-operations:
			if !strings.Contains(got, part) {
				t.Errorf("the page posted %s, want %s", got, part)
			}
		case <-time.After(browsertest.Timeout):
			t.Fatalf("the page did not post %s with the session cookie to /graphql", part)
		}
	}

	wait("__schema")
	page.Click(".graphiql-execute-button")
	wait("viewer")
	page.WaitFor(`document.querySelector(".graphiql-response").textContent.includes("from the test")`)

	// Open the panels that are hidden at first: documentation, history, settings.
	for _, button := range []string{"Show Documentation Explorer", "Show History", "Open settings dialog"} {
		page.Click(`button[aria-label="` + button + `"]`)
	}

	page.WaitFor(`document.querySelector(".graphiql-dialog")`)

	for _, message := range page.Console() {
		// GraphiQL's settings dialog lacks a description for screen readers, and its library logs a
		// warning about that.
		if message.Level != "warning" || strings.Contains(message.Text, "Content Security Policy") {
			t.Errorf("console: %v", message)
		}
	}

	for _, r := range page.Requests() {
		if !strings.HasPrefix(r.URL, "http://control.example.test/") && !strings.HasPrefix(r.URL, "data:") {
			t.Errorf("request to another host: %v", r)
		}
	}
}
