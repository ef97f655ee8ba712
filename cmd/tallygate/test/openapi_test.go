package test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane"
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
	send := func(method, path string, header ...string) (*http.Response, []byte) {
		request, err := http.NewRequest(method, "http://"+p.addr["data"]+path, nil)
		testkit.NoError(t, err)
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}

		response, err := http.DefaultClient.Do(request)
		testkit.NoError(t, err)
		defer response.Body.Close()

		body, err := io.ReadAll(response.Body)
		testkit.NoError(t, err)
		return response, body
	}

	t.Run("document", func(t *testing.T) {
		got, body := send("GET", "/openapi.json", "Origin", "https://editor.example")
		if got.StatusCode != 200 || !bytes.Equal(body, dataplane.OpenAPI) || got.Header.Get("Content-Type") != "application/json" ||
			got.Header.Get("Access-Control-Allow-Origin") != "*" || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("GET: %d, %d bytes, %v", got.StatusCode, len(body), got.Header)
		}

		head, empty := send("HEAD", "/openapi.json")
		if head.StatusCode != 200 || len(empty) != 0 || head.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
			t.Errorf("HEAD: %d, %d bytes, %v", head.StatusCode, len(empty), head.Header)
		}

		tag := got.Header.Get("ETag")
		for header, want := range map[string]int{tag: 304, `"x", W/` + tag: 304, `"x"`: 200} {
			if again, _ := send("GET", "/openapi.json", "If-None-Match", header); again.StatusCode != want {
				t.Errorf("If-None-Match %s: %d, want %d", header, again.StatusCode, want)
			}
		}
	})

	t.Run("methods", func(t *testing.T) {
		for path, listed := range openapitest.Paths() {
			others := openapitest.OtherMethods(path)
			if strings.Contains(path, "{") {
				path = assets.Versioned("captcha.wasm")
			}

			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				response, _ := send(method, path)
				if !slices.Contains(listed, method) {
					if response.StatusCode != others {
						t.Errorf("%s %s: %d, the document has %d for other methods", method, path, response.StatusCode, others)
					}
					continue
				}
				if response.StatusCode == http.StatusMethodNotAllowed || response.StatusCode == http.StatusNotFound {
					t.Errorf("%s %s: %d, the document has the methods %v", method, path, response.StatusCode, listed)
				}
			}
		}
	})
}
