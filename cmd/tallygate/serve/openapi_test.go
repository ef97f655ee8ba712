package serve

import (
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/db/model"
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/openapitest"
)

// TestOpenAPIPaths compares the paths of the data listener with the paths of its OpenAPI document.
// A new path needs one entry under "paths" in dataplane/openapi.json.
func TestOpenAPIPaths(t *testing.T) {
	described := openapitest.Paths()
	served := map[string]bool{}
	for _, path := range slices.Concat(dataplane.Endpoints(), assets.Paths(), healthPaths) {
		entry := openapitest.Path(strings.Replace(path, "{key}", model.NewSiteKey(), 1))
		if entry == "" {
			t.Errorf("%s is served: add it to dataplane/openapi.json", path)
		}
		served[entry] = true
	}

	for path := range described {
		if !served[path] {
			t.Errorf("%s is in dataplane/openapi.json: remove it there, or serve it", path)
		}
	}
	if len(described) < 14 {
		t.Errorf("%d paths are described, want at least 14", len(described))
	}
}
