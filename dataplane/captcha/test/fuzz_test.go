package captcha_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// fuzzPlane returns a plane on SQLite with a bound sitekey. fill replaces a body's placeholders
// with the values of a valid call.
func fuzzPlane(f *testing.F) (p *plane, fill func(string) string) {
	p = newPlane(f, dbtest.Open(f, dbtest.SQLiteURL(f)))
	key := p.Sitekey(p.Account("a", model.CaptchaPlanEnterprise), "example.com")
	token, work := p.Token(key, siteOrigin), p.Solved(key, siteOrigin)
	replacer := strings.NewReplacer("SITEKEY", key.Sitekey.Sitekey, "SECRET", key.Secret, "TOKEN", token,
		"CHALLENGE", work["challenge"].(string), "NONCE", mustJSON(f, work["nonce"]))
	return p, replacer.Replace
}

// serve calls the handler itself.
func (p *plane) serve(method, target, kind, origin, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	request.Method = method
	request.URL.Path, request.URL.RawQuery, _ = strings.Cut(target, "?")
	request.Header = http.Header{"Content-Type": {kind}}

	if origin != "" {
		request.Header.Set("Origin", origin)
	}

	response := httptest.NewRecorder()
	p.Handler.ServeHTTP(response, request)
	return response
}

// jsonInContract checks that an answer of a JSON endpoint has no 5xx status, and that a refusal is
// a sentence.
func jsonInContract(t *testing.T, response *httptest.ResponseRecorder) {
	t.Helper()

	var answer map[string]any
	err := json.Unmarshal(response.Body.Bytes(), &answer)

	switch response.Code {
	case 200:
		if err != nil || answer["error"] != nil {
			t.Errorf("200 with %q", response.Body)
		}
	case 204:
		if response.Body.Len() > 0 {
			t.Errorf("204 with %q", response.Body)
		}
	case 400, 401, 403, 404, 405, 429:
		if text, ok := answer["error"].(string); err != nil || !ok || text == "" {
			t.Errorf("%d with %q", response.Code, response.Body)
		}
	default:
		t.Errorf("status %d with %q: not in the contract", response.Code, response.Body)
	}
}

// FuzzWidget sends any method, origin and body to config and verify.
func FuzzWidget(f *testing.F) {
	p, fill := fuzzPlane(f)

	for _, body := range []string{
		`{"sitekey":"SITEKEY"}`, `{"sitekey":"SITEKEY","challenge":"CHALLENGE","nonce":NONCE}`,
		`{"sitekey":"SITEKEY","challenge":"CHALLENGE","nonce":-0}`, `{"sitekey":"SITEKEY","challenge":"CHALLENGE","nonce":1e400}`,
		`{"sitekey":"\ud800","nonce":{"a":[1]}}`, "", "null", "[", "\x00",
	} {
		f.Add("POST", siteOrigin, body)
	}

	f.Add("OPTIONS", "null", "")
	f.Fuzz(func(t *testing.T, method, origin, body string) {
		for _, path := range []string{configPath, verifyPath} {
			jsonInContract(t, p.serve(method, path, "text/plain", origin, fill(body)))
		}
	})
}

// FuzzSiteverify sends any body to the native endpoint.
func FuzzSiteverify(f *testing.F) {
	p, fill := fuzzPlane(f)

	for _, body := range []string{
		`{"sitekey":"SITEKEY","secret":"SECRET","token":"TOKEN"}`, `{"sitekey":"SITEKEY","secret":"SECRET","token":"x"}`,
		`{"sitekey":"SITEKEY","secret":null,"token":["TOKEN"]}`, "", "{}", "TOKEN",
	} {
		f.Add("POST", body)
	}

	f.Fuzz(func(t *testing.T, method, body string) {
		jsonInContract(t, p.serve(method, siteverifyPath, "application/json", "", fill(body)))
	})
}

// FuzzCompat sends any method, content type, query and body to the compatible endpoint. It must
// always answer 200 with either set of fields, and never succeed without the secret.
func FuzzCompat(f *testing.F) {
	p, fill := fuzzPlane(f)

	for _, call := range [][3]string{
		{formType, "", "secret=SECRET&response=TOKEN"},
		{formType, "", "secret=SECRET;response=TOKEN&%zz=%zz&=&"},
		{"application/json", "", `{"secret":"SECRET","response":"TOKEN","sitekey":"SITEKEY"}`},
		{"application/json; charset=utf-8", "", `{"secret":"SECRET","response":null,"x":[{}]}`},
		{"", "secret=SECRET&response=TOKEN", ""},
		{"multipart/form-data; boundary=b", "", "--b\r\nContent-Disposition: form-data; name=\"secret\"\r\n\r\nSECRET\r\n--b--\r\n"},
		{"multipart/form-data; boundary=", "response=TOKEN", "--b"},
	} {
		f.Add("POST", call[0], call[1], call[2])
	}

	f.Add("GET", "", "secret=SECRET&response=TOKEN", "")
	f.Fuzz(func(t *testing.T, method, kind, query, body string) {
		response := p.serve(method, compatPath+"?"+fill(query), kind, "", fill(body))
		var answer map[string]any
		err := json.Unmarshal(response.Body.Bytes(), &answer)
		success, _ := answer["success"].(bool)
		_, hasTime := answer["challenge_ts"]
		_, hasHost := answer["hostname"]

		codes, hasCodes := answer["error-codes"].([]any)
		if response.Code != 200 || err != nil || hasTime != success || hasHost != success || hasCodes == success || hasCodes && len(codes) == 0 {
			t.Errorf("%d with %q", response.Code, response.Body)
		}
		if success && !strings.Contains(query+body, "SECRET") {
			t.Errorf("success without the secret: %q %q", query, body)
		}

		for _, code := range codes {
			if code == "internal-error" {
				t.Errorf("%q %q: an error of ours from input", query, body)
			}
		}
	})
}
