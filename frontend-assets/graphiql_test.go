package assets_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/testkit"
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
			t.Errorf("%s: the page refers to another host:\n%s", path, page)
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
			t.Errorf("%s: both encodings have the ETag %s", path, plain.Header.Get("ETag"))
		}
		testkit.Equal(t, zipped.Header.Get("Cache-Control"), "public, max-age=31536000, immutable", "%s: Cache-Control", path)

		content := body(t, plain)
		if len(content) == 0 || !bytes.Equal(content, body(t, zipped)) {
			t.Errorf("%s: %d bytes, or different content per encoding", path, len(content))
		}
		if bytes.Contains(content, []byte("sourceMappingURL")) {
			t.Errorf("%s refers to a source map, which does not exist", path)
		}
	}

	if res := get(t, assets.GraphiQL(), "GET", "/graphiql/react-17.js"); res.StatusCode != 404 {
		t.Errorf("unknown file: status %d, want 404", res.StatusCode)
	}
}

// TestPlainFileIsUnpackedOnce checks that later requests without gzip do not unpack the file again.
func TestPlainFileIsUnpackedOnce(t *testing.T) {
	graphiql := assets.GraphiQL()
	const path = "/graphiql/graphiql-4.1.2.js"

	// The first request unpacks the file.
	size := len(body(t, get(t, graphiql, "GET", path)))
	request := httptest.NewRequest("GET", path, nil)
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			graphiql.ServeHTTP(discard{http.Header{}}, request)
		}
	}).AllocedBytesPerOp()
	if allocated > int64(size)/100 {
		t.Errorf("each request allocates %d bytes for a file of %d", allocated, size)
	}
}

// discard is a ResponseWriter that discards the body.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
