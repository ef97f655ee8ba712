package graph_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCompressedReports checks which answers are compressed: large ones with a report and without a
// secret, for clients that accept gzip.
func TestCompressedReports(t *testing.T) {
	a := sqliteApp(t)
	c := a.owner("owner@example.com")
	id := c.siteOf("example.com")

	const days = `report(period: {from: "2025-01-01", to: "2025-03-01"}) { series(interval: DAY) { start metrics { visitors visits } } }`
	for name, test := range map[string]struct {
		query, accepts string
		want           bool
	}{
		"a report":                        {`{ site(id: $id) { ` + days + ` } }`, "gzip, deflate, br", true},
		"in a fragment":                   {`{ site(id: $id) { ...r } } fragment r on Site { ` + days + ` }`, "br, GZIP;q=0.1", true},
		"with another encoding":           {`{ site(id: $id) { ` + days + ` } }`, "br", false},
		"with gzip refused":               {`{ site(id: $id) { ` + days + ` } }`, "gzip; q=0, *", false},
		"with the address of a webhook":   {`{ site(id: $id) { conversionWebhookUrl ` + days + ` } }`, "gzip", false},
		"in a fragment, with the address": {`{ site(id: $id) { ` + days + ` ... on Site { w: conversionWebhookUrl } } }`, "gzip", false},
		"a small report":                  {`{ site(id: $id) { report(period: {from: "2025-01-01", to: "2025-01-02"}) { from } } }`, "gzip", false},
		"no report":                       {`{ site(id: $id) { domain ` + strings.Repeat("name ", 300) + `} }`, "gzip", false},
	} {
		plain, encoding := c.encoded(t, `query($id: ID!) `+test.query, id, "identity")
		got, compressed := c.encoded(t, `query($id: ID!) `+test.query, id, test.accepts)
		if got != plain || !strings.Contains(plain, `"site":{`) || encoding != "" || (compressed == "gzip") != test.want {
			t.Errorf("%s: encoding %q, compressed wanted: %v; %s", name, compressed, test.want, got)
		}
	}
}

// encoded returns the decompressed answer to a query, and its encoding.
func (c *client) encoded(t *testing.T, query, id, accepts string) (body, encoding string) {
	t.Helper()
	call, err := json.Marshal(map[string]any{"query": query, "variables": map[string]any{"id": id}})
	testkit.NoError(t, err)
	request, err := http.NewRequest(http.MethodPost, c.app.url, strings.NewReader(string(call)))
	testkit.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept-Encoding", accepts)
	response, err := c.http.Do(request)
	testkit.NoError(t, err)
	defer response.Body.Close()

	var content io.Reader = response.Body
	if encoding = response.Header.Get("Content-Encoding"); encoding == "gzip" {
		if content, err = gzip.NewReader(response.Body); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(content)
	testkit.NoError(t, err)
	return string(text), encoding
}
