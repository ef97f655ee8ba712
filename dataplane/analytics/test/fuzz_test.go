package analytics_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// contractCodes are all error codes of the two endpoints, by status (analytics contract, section
// 7).
var contractCodes = map[int]string{
	400: "bad_body bad_json bad_path unknown_event bad_event visitor_required",
	401: "missing_secret invalid_secret",
	403: "domain_not_allowed",
	404: "unknown_site_key",
	405: "method_not_allowed",
	429: "quota_exceeded",
}

// fuzzPlane returns a plane whose hits pass the real writer into SQLite.
func fuzzPlane(f *testing.F) (*plane, *model.Site) {
	p := newPlane(f, dbtest.Open(f, dbtest.SQLiteURL(f)))
	site := p.shop("shop.example")
	testkit.NoError(f, sites.New(p.DB).Sites.SetSitePlan(f.Context(), site.ID, model.PlanEnterprise, new(int64(1<<40))))
	return p, site
}

// inContract checks that an answer has no 5xx status, and that an error has one of the contract's
// codes.
func inContract(t *testing.T, response *httptest.ResponseRecorder) {
	t.Helper()

	body, err := io.ReadAll(response.Result().Body)
	testkit.NoError(t, err)

	switch status := response.Code; {
	case status == http.StatusNoContent:
		if len(body) > 0 {
			t.Errorf("204 with a body: %q", body)
		}
	case status == http.StatusOK:
		var answer struct{ Status, Reason string }
		if err := json.Unmarshal(body, &answer); err != nil || (answer.Status != "recorded" && answer.Status != "ignored") {
			t.Errorf("200 with %q, %v", body, err)
		}
	default:
		var answer struct{ Error string }
		if err := json.Unmarshal(body, &answer); err != nil || answer.Error == "" ||
			!strings.Contains(" "+contractCodes[status]+" ", " "+answer.Error+" ") {
			t.Errorf("status %d with %q, %v: not in the contract", status, body, err)
		}
	}
}

// FuzzCollect sends any method, headers and body. KEY in the body is replaced by the site's key, so
// that the seeds lead to valid calls.
func FuzzCollect(f *testing.F) {
	p, site := fuzzPlane(f)

	for _, body := range []string{
		`{"k":"KEY","t":"pageview","p":"/a?b","r":"https://www.google.com/x","i":"0123456789abcdef","u":{"source":"S","gclid":"g"},"w":1920,"l":"de-DE","d":"` + strings.Repeat("ab", 32) + `"}`,
		`{"k":"KEY","t":"pageview","p":"/a","x":1}`,
		`{"k":"KEY","t":"event","p":"/","e":"signup","m":{"a":1,"b":[null,{"c":"\u0000\ud800"}]}}`,
		`{"k":"KEY","t":"event","p":"/","e":"purchase","m":{"transaction_id":"T","value":1e-7,"currency":"eur","items":[{"item_id":"x","price":1}]}}`,
		`{"k":"KEY","t":"event","p":"/","e":"outbound_click","m":{"host":"shop.example"}}`,
		`{"k":"KEY","t":"engagement","p":"/","i":"0123456789abcdef","ms":1e999,"sc":-1}`,
		`{"k":"KEY","t":"event","p":"/a\nb\tc\u0000","e":"signup","m":{"a":1e400,"a\n":[1e-400],"a":{"b":1,"b":2},"\ud800":1,"\ud801":2}}`,
		`{"k":"KEY","t":"event","p":"/","e":"purchase","m":{"transaction_id":1001,"value":1,"currency":"EUR","items":[5,{"item_id":5,"price":-5,"quantity":1.5}]}}`,
		`{"k":"KEY","t":"event","p":"/","e":"outbound_click","m":{"host":"https://shop.example/"}}`,
		`{"k":"KEY","t":"event","p":"/","e":"signup\n"}`, `{"k":"KEY\u0000","t":"pageview","p":"/"}`,
		`{"k":"KEY","t":"nope"}`, `{"k":"KEY","p":"/","p":"/"}`, `{"k":"KEY","x":"` + strings.Repeat("x", 9_000) + `"}`,
		"", "null", "{", "\x00",
	} {
		f.Add("POST", "https://shop.example", "", chrome, "203.0.113.9", body)
	}

	f.Add("OPTIONS", "null", "https://shop.example/", "", "::1", "")
	f.Fuzz(func(t *testing.T, method, origin, referer, agent, forwarded, body string) {
		request := httptest.NewRequest(http.MethodPost, "/collect.php", strings.NewReader(strings.ReplaceAll(body, "KEY", site.SiteKey)))
		request.Method = method
		request.RemoteAddr = "127.0.0.1:1"
		request.Header = http.Header{"Origin": {origin}, "Referer": {referer}, "User-Agent": {agent}, "X-Forwarded-For": {forwarded}}

		if origin == "" {
			request.Header.Del("Origin")
		}

		response := httptest.NewRecorder()
		p.Handler.ServeHTTP(response, request)

		if method == http.MethodOptions && response.Code == http.StatusNoContent {
			return
		}

		inContract(t, response)
	})
}

// FuzzServer sends any secret and body.
func FuzzServer(f *testing.F) {
	p, site := fuzzPlane(f)
	secret := p.secret(site)

	for _, body := range []string{
		`{"event":"signup","ip":"203.0.113.9","user_agent":"` + chrome +
			`","path":"/x","referrer":"https://x.test/","campaign":{"source":"s"},"meta":{"a":1},"user_id":"` + strings.Repeat("ab", 32) + `"}`,
		`{"event":"refund","ip":"::1","user_agent":"x","meta":{"transaction_id":"R","value":0.000001,"currency":"USD"}}`,
		`{"event":"purchase","ip":"203.0.113.9","user_agent":"x","path":"/\t","meta":{"transaction_id":7,"value":1,"currency":"EUR","items":{},"value":2}}`,
		`{"event":"signup\u0000","ip":"203.0.113.9   x","user_agent":"x"}`, `{"event":"signup","ip":"fe80::1%eth0","user_agent":"x","event":"signup"}`,
		`{"event":7,"ip":[],"user_agent":{},"meta":"x","campaign":null}`,
		"", "[]",
	} {
		f.Add("Bearer SECRET", body)
	}

	f.Add("bearer  SECRET ", "{}")
	f.Add("Basic x", "{}")
	f.Fuzz(func(t *testing.T, authorization, body string) {
		request := httptest.NewRequest(http.MethodPost, "/server.php", strings.NewReader(body))
		request.Header.Set("Authorization", strings.ReplaceAll(authorization, "SECRET", secret))
		response := httptest.NewRecorder()
		p.Handler.ServeHTTP(response, request)
		inContract(t, response)
	})
}
