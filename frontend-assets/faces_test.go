package assets_test

import (
	"bytes"
	"net/http"
	"os"
	"testing"

	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/testkit"
)

const testKey = "0123456789abcdef0123456789abcdef"

// TestFaces checks which script each path has, at the top and below a site key.
func TestFaces(t *testing.T) {
	h := assets.Handler()
	for path, face := range map[string]string{
		"/script.js":                        "umami",
		"/umami.js":                         "umami",
		"/js/script.js":                     "plausible",
		"/js/plausible.js":                  "plausible",
		"/js/index.js":                      "plausible",
		"/js/script.hash.outbound-links.js": "plausible",
		"/js/plausible.manual.js":           "plausible",
		"/js/pa-" + testKey + ".js":         "plausible",
		"/js/pa-01234567-89ab-cdef-0123-456789abcdef.js": "plausible",
		"/count.js":                         "goatcounter",
		"/matomo.js":                        "matomo",
		"/piwik.js":                         "matomo",
		"/js/":                              "matomo",
		"/js/index.hash.js":                 "",
		"/js/script.HASH.js":                "",
		"/js/script..js":                    "",
		"/js/script.a.a.a.a.a.a.a.a.a.a.js": "",
		"/js/pa-x.js":                       "",
		"/js":                               "",
		"/js/svc.js":                        "",
		"/script.js/":                       "",
		"/faces/umami.js":                   "",
		"/" + testKey[1:] + "/script.js":    "",
		"/" + testKey + "/" + testKey + "/umami.js": "",
		"/ABCDEF" + testKey[6:] + "/script.js":      "",
	} {
		for _, requested := range []string{path, "/" + testKey + path} {
			res := get(t, h, http.MethodGet, requested)
			if face == "" {
				if res.StatusCode != http.StatusNotFound || assets.Serves(requested) {
					t.Errorf("%s: %d, want 404", requested, res.StatusCode)
				}
				continue
			}

			want, err := os.ReadFile("dist/faces/" + face + ".js")
			testkit.NoError(t, err)
			if !bytes.Equal(body(t, res), want) || !assets.Serves(requested) {
				t.Errorf("%s is not the script of %s", requested, face)
			}
			testkit.Equal(t, res.Header.Get("Cache-Control"), "public, max-age=3600", "%s: Cache-Control", requested)
		}
	}
}
