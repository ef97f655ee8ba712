package test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/db/model"
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestOpenAPI checks how the data listener serves its OpenAPI document, and that it takes the
// methods that the document lists for each path, and no others.
func TestOpenAPI(t *testing.T) {
	t.Parallel()

	p := start(t, settingsFor(t, dbtest.SQLiteURL(t)), []string{"control", "data"})
	send := func(method, path string, header map[string]string) (*http.Response, string) {
		t.Helper()
		return exchange(t, http.DefaultClient, method, "http://"+p.addr["data"]+path, "", header)
	}

	t.Run("document", func(t *testing.T) {
		got, body := send("GET", "/openapi.json", map[string]string{"Origin": "https://editor.example"})
		if got.StatusCode != 200 || body != string(dataplane.OpenAPI) || got.Header.Get("Content-Type") != "application/json" ||
			got.Header.Get("Access-Control-Allow-Origin") != "*" || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("GET: %d, %d bytes, %v", got.StatusCode, len(body), got.Header)
		}

		head, empty := send("HEAD", "/openapi.json", nil)
		if head.StatusCode != 200 || len(empty) != 0 || head.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("HEAD: %d, %d bytes, %v", head.StatusCode, len(empty), head.Header)
		}

		tag := got.Header.Get("ETag")
		for header, want := range map[string]int{tag: 304, `"x", W/` + tag: 304, `"x"`: 200} {
			if again, _ := send("GET", "/openapi.json", map[string]string{"If-None-Match": header}); again.StatusCode != want {
				t.Errorf("If-None-Match %s: %d, want %d", header, again.StatusCode, want)
			}
		}
	})

	t.Run("methods", func(t *testing.T) {
		for path, listed := range openapitest.Paths() {
			others := openapitest.OtherMethods(path)
			path = strings.NewReplacer("{key}", model.NewSiteKey(), "js/{face}", "js/script", "{face}", "umami",
				"/{file}.{version}.{extension}", assets.Versioned("captcha.wasm")).Replace(path)

			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				response, _ := send(method, path, nil)
				if !slices.Contains(listed, method) {
					testkit.Equal(t, response.StatusCode, others, "%s %s: , the document has %d for other methods", method, path, others)
					continue
				}
				if response.StatusCode == http.StatusMethodNotAllowed || response.StatusCode == http.StatusNotFound {
					t.Errorf("%s %s: %d, the document has the methods %v", method, path, response.StatusCode, listed)
				}
			}
		}
	})
}
