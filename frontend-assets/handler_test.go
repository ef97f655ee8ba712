package assets_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/testkit"
)

// get sends a request to a handler, with headers as pairs of name and value.
func get(t *testing.T, h http.Handler, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}

	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// body reads a response and decodes its Content-Encoding.
func body(t *testing.T, res *http.Response) []byte {
	t.Helper()

	reader := io.Reader(res.Body)

	switch encoding := res.Header.Get("Content-Encoding"); encoding {
	case "":
	case "br":
		reader = brotli.NewReader(res.Body)
	case "gzip":
		var err error
		if reader, err = gzip.NewReader(res.Body); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("Content-Encoding = %q", encoding)
	}

	b, err := io.ReadAll(reader)
	testkit.NoError(t, err)

	return b
}

func script(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("dist/svc.js")
	testkit.NoError(t, err)
	return b
}

func TestEncodingIsNegotiated(t *testing.T) {
	for accept, want := range map[string]string{
		"":                             "",
		"gzip, deflate, br, zstd":      "br",
		"gzip, deflate":                "gzip",
		"GZIP":                         "gzip",
		"br;q=0.5, gzip;q=0.8":         "gzip",
		"br;q=0, gzip":                 "gzip",
		"br;q=0, *":                    "gzip",
		"*":                            "br",
		"*;q=0":                        "",
		"identity, br;q=0.5":           "",
		"identity;q=0":                 "",
		"br;q=nonsense, gzip;q=0.1":    "gzip",
		"zstd, deflate":                "",
		" br ; q=1.0 ,gzip;q=1.0":      "br",
		"brotli, xgzip, gzip-but-not":  "",
		"gzip;q=0.1, identity;q=0.001": "gzip",
	} {
		res := get(t, assets.Handler(), "GET", "/svc.js", "Accept-Encoding", accept)
		testkit.Equal(t, res.Header.Get("Content-Encoding"), want, "Accept-Encoding %q: Content-Encoding", accept)
		if res.StatusCode != 200 || !bytes.Equal(body(t, res), script(t)) {
			t.Errorf("Accept-Encoding %q: status %d, or content other than dist/svc.js", accept, res.StatusCode)
		}
	}
}

func TestHeaders(t *testing.T) {
	const script, wasm = "text/javascript; charset=utf-8", "application/wasm"
	for asset, contentType := range map[string]string{
		"svc.js": script, "captcha.js": script, "captcha-worker.js": script,
		"captcha.wasm": wasm, "captcha-scalar.wasm": wasm, "captcha.css": "text/css; charset=utf-8",
	} {
		for path, cache := range map[string]string{
			"/" + asset:             "public, max-age=3600",
			assets.Versioned(asset): "public, max-age=31536000, immutable",
		} {
			res := get(t, assets.Handler(), "GET", path, "Accept-Encoding", "br")
			for name, want := range map[string]string{
				"Content-Type":                 contentType,
				"Cache-Control":                cache,
				"Vary":                         "Accept-Encoding",
				"X-Content-Type-Options":       "nosniff",
				"Cross-Origin-Resource-Policy": "cross-origin",
				"Access-Control-Allow-Origin":  "*",
				"Set-Cookie":                   "",
			} {
				testkit.Equal(t, res.Header.Get(name), want, "%s: %s", path, name)
			}

			if want, err := os.ReadFile("dist/" + asset); err != nil || res.StatusCode != 200 || !bytes.Equal(body(t, res), want) {
				t.Errorf("%s: status %d, or content other than dist/%s (%v)", path, res.StatusCode, asset, err)
			}
		}
	}
}

func TestETagIsStrongAndBelongsToOneEncoding(t *testing.T) {
	seen := map[string]string{}
	for _, encoding := range []string{"br", "gzip", "identity"} {
		tag := get(t, assets.Handler(), "GET", "/svc.js", "Accept-Encoding", encoding).Header.Get("ETag")
		if !regexp.MustCompile(`^"[0-9a-f]{12}"$`).MatchString(tag) {
			t.Errorf("%s: ETag = %s, want a strong ETag", encoding, tag)
		}
		if other, taken := seen[tag]; taken {
			t.Errorf("%s and %s have the same ETag %s", encoding, other, tag)
		}

		seen[tag] = encoding

		for header, want := range map[string]int{
			tag: 304, "W/" + tag: 304, `"other", ` + tag: 304, "*": 304,
			`"other"`: 200, strings.Trim(tag, `"`): 200, "": 200,
		} {
			res := get(t, assets.Handler(), "GET", "/svc.js", "Accept-Encoding", encoding, "If-None-Match", header)
			testkit.Equal(t, res.StatusCode, want, "%s: If-None-Match %s: status", encoding, header)

			if want == 304 {
				if b, _ := io.ReadAll(res.Body); len(b) > 0 || res.Header.Get("Content-Length") != "" {
					t.Errorf("%s: 304 with %d bytes of body, Content-Length %q", encoding, len(b), res.Header.Get("Content-Length"))
				}
				if res.Header.Get("ETag") != tag || res.Header.Get("Cache-Control") == "" || res.Header.Get("Vary") == "" {
					t.Errorf("%s: 304 lacks a header of the 200: %v", encoding, res.Header)
				}
			}
		}
	}

	// A client that has the brotli encoding and now requests gzip must get the gzip encoding.
	br := get(t, assets.Handler(), "GET", "/svc.js", "Accept-Encoding", "br").Header.Get("ETag")
	if res := get(t, assets.Handler(), "GET", "/svc.js", "Accept-Encoding", "gzip", "If-None-Match", br); res.StatusCode != 200 {
		t.Errorf("gzip with brotli's ETag: status %d, want 200", res.StatusCode)
	}
}

func TestVersionedNames(t *testing.T) {
	path := assets.Versioned("svc.js")
	if !regexp.MustCompile(`^/svc\.[0-9a-f]{12}\.js$`).MatchString(path) {
		t.Fatalf("Versioned = %q", path)
	}
	if res := get(t, assets.Handler(), "GET", path); !bytes.Equal(body(t, res), script(t)) {
		t.Errorf("%s is not dist/svc.js", path)
	}

	for _, unknown := range []string{"/svc.000000000000.js", "/", "/dist/svc.js", "/svc.js.br", "/svc.js/", "//svc.js", "/graphiql/start.js"} {
		if res := get(t, assets.Handler(), "GET", unknown); res.StatusCode != 404 {
			t.Errorf("%s: status %d, want 404", unknown, res.StatusCode)
		}
	}
}

func TestMethods(t *testing.T) {
	for _, handler := range []http.Handler{assets.Handler(), assets.GraphiQL()} {
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
			res := get(t, handler, method, "/svc.js")
			if res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s: status %d, Allow %q", method, res.StatusCode, res.Header.Get("Allow"))
			}
		}
	}
}

func TestHeadHasTheHeadersOfGet(t *testing.T) {
	server := httptest.NewServer(assets.Handler())
	defer server.Close()

	answer := func(method string) (http.Header, int) {
		req, _ := http.NewRequest(method, server.URL+"/svc.js", nil)
		req.Header.Set("Accept-Encoding", "br")

		res, err := server.Client().Do(req)
		testkit.NoError(t, err)
		defer res.Body.Close()

		b, err := io.ReadAll(res.Body)
		testkit.NoError(t, err)

		res.Header.Del("Date")
		return res.Header, len(b)
	}

	want, size := answer("GET")
	got, empty := answer("HEAD")
	if size == 0 || empty != 0 {
		t.Errorf("GET has %d bytes, HEAD %d", size, empty)
	}

	for name := range want {
		if got.Get(name) != want.Get(name) {
			t.Errorf("HEAD: %s = %q, GET has %q", name, got.Get(name), want.Get(name))
		}
	}
}

func TestLoaders(t *testing.T) {
	for _, path := range []string{"/recaptcha/api.js", "/recaptcha/enterprise.js", "/1/api.js", "/turnstile/v0/api.js", "/widget/frame.js"} {
		if !assets.IsLoader(path) {
			t.Errorf("%s is no loader", path)
		}
		res := get(t, assets.Handler(), "GET", path, "Accept-Encoding", "br")
		for name, want := range map[string]string{
			"Content-Type":                 "text/javascript; charset=utf-8",
			"Cache-Control":                "public, max-age=3600",
			"Cross-Origin-Resource-Policy": "cross-origin",
			"Access-Control-Allow-Origin":  "*",
			"Set-Cookie":                   "",
		} {
			testkit.Equal(t, res.Header.Get(name), want, "%s: %s", path, name)
		}
		if res.StatusCode != 200 || len(body(t, res)) == 0 {
			t.Errorf("%s: status %d", path, res.StatusCode)
		}
	}
	for _, path := range []string{"/captcha.js", "/recaptcha/api", "/widget", "/turnstile/v0/", ""} {
		if assets.IsLoader(path) {
			t.Errorf("%s is a loader", path)
		}
	}
}
