package assets_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/frontend-assets/browsertest"
)

func TestGraphiQLPage(t *testing.T) {
	for _, path := range []string{"/", "/graphql"} {
		res := get(t, assets.GraphiQL(), "GET", path)
		page := string(body(t, res))
		if res.StatusCode != 200 || !strings.Contains(page, "<title>Tallygate</title>") {
			t.Errorf("%s: status %d, page:\n%s", path, res.StatusCode, page)
		}

		policy := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: Content-Security-Policy %q lacks %q", path, policy, want)
			}
		}

		if res.Header.Get("X-Frame-Options") != "DENY" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, res.Header)
		}
		if strings.Contains(page, "://") {
			t.Errorf("%s: the page names another host:\n%s", path, page)
		}
	}
}

func TestGraphiQLFiles(t *testing.T) {
	page := string(body(t, get(t, assets.GraphiQL(), "GET", "/graphql")))
	files := regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(files) != 5 {
		t.Fatalf("the page loads %d files, want 5:\n%s", len(files), page)
	}

	for _, match := range files {
		path := match[1]
		zipped := get(t, assets.GraphiQL(), "GET", path, "Accept-Encoding", "gzip")

		plain := get(t, assets.GraphiQL(), "GET", path)
		if zipped.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: Content-Encoding %q and %q", path, zipped.Header.Get("Content-Encoding"), plain.Header.Get("Content-Encoding"))
		}
		if zipped.Header.Get("ETag") == plain.Header.Get("ETag") {
			t.Errorf("%s: both forms have the ETag %s", path, plain.Header.Get("ETag"))
		}
		if got := zipped.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control = %q", path, got)
		}

		content := body(t, plain)
		if len(content) == 0 || !bytes.Equal(content, body(t, zipped)) {
			t.Errorf("%s: %d bytes, or not the same in both forms", path, len(content))
		}
		if bytes.Contains(content, []byte("sourceMappingURL")) {
			t.Errorf("%s asks for a source map that is not there", path)
		}
	}

	if res := get(t, assets.GraphiQL(), "GET", "/graphiql/react-17.js"); res.StatusCode != 404 {
		t.Errorf("unknown file: status %d, want 404", res.StatusCode)
	}
}

// TestPlainFormIsUnpackedOnce: a client without gzip costs no more than one with it, since the
// plain form is kept.
func TestPlainFormIsUnpackedOnce(t *testing.T) {
	graphiql := assets.GraphiQL()
	const path = "/graphiql/graphiql-4.1.2.js"

	// the first client unpacks it
	size := len(body(t, get(t, graphiql, "GET", path)))
	request := httptest.NewRequest("GET", path, nil)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			graphiql.ServeHTTP(nothing{http.Header{}}, request)
		}
	}).AllocedBytesPerOp()
	if allocated > int64(size)/100 {
		t.Errorf("each request allocates %d bytes, and the file has %d", allocated, size)
	}
}

// nothing is a response that is not read.
type nothing struct{ header http.Header }

func (n nothing) Header() http.Header       { return n.header }
func (nothing) Write(b []byte) (int, error) { return len(b), nil }
func (nothing) WriteHeader(int)             {}

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
		case <-time.After(30 * time.Second):
			t.Fatalf("the page did not post %s with the session cookie to /graphql", part)
		}
	}

	wait("__schema")
	page.Click(".graphiql-execute-button")
	wait("viewer")
	page.WaitFor(`document.querySelector(".graphiql-response").textContent.includes("from the test")`)

	// The parts that are shown on demand: documentation, history, settings.
	for _, button := range []string{"Show Documentation Explorer", "Show History", "Open settings dialog"} {
		page.Click(`button[aria-label="` + button + `"]`)
	}

	page.WaitFor(`document.querySelector(".graphiql-dialog")`)

	for _, message := range page.Console() {
		// GraphiQL's settings dialog lacks a description for screen readers, and its library warns
		// of that.
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
