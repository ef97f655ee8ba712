package openapitest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// answer is what a test handler answers.
type answer struct {
	status int
	header string // lines "Name: value"
	body   string
}

func (a answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for line := range strings.SplitSeq(a.header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// errors collects what Handler reports.
type errors []string

// Errorf implements the reporter of Handler.
func (e *errors) Errorf(format string, args ...any) { *e = append(*e, fmt.Sprintf(format, args...)) }

const (
	isJSON    = "Content-Type: application/json\n"
	isText    = "Content-Type: text/plain; charset=utf-8\n"
	varies    = "Vary: Origin\n"
	sitekey   = "svck_TestTestTestTestTestTest"
	pageview  = `{"k":"0123456789abcdef0123456789abcdef","t":"pageview","p":"/"}`
	challenge = `{"challenge":"` // followed by 214 characters

	verification = `{"valid":true,"over_limit":false,"reserve":false,"quota_exceeded":false}`
)

// exchanges are requests with answers, and a part of the error of those that the document does not
// have.
var exchanges = []struct {
	name   string
	call   string // method, path and body, separated by blanks
	answer answer
	want   string
}{
	{"a hit", "POST /collect.php " + pageview, answer{204, varies, ""}, ""},
	{"no Vary", "POST /collect.php " + pageview, answer{204, "", ""}, `"Vary" missing`},
	{"another Vary", "POST /collect.php " + pageview, answer{204, "Vary: Accept", ""}, `"Vary" doesn't match`},
	{"another status", "POST /collect.php " + pageview, answer{202, varies, ""}, "status 202 is not listed"},
	{"another success", "POST /collect.php " + pageview, answer{200, varies + isJSON, "{}"}, "status 200 is not listed"},
	{"an unexpected body", "POST /collect.php " + pageview, answer{403, varies + isText, "no"}, `type "text/plain" is not listed`},
	{"a refusal", "POST /collect.php x", answer{400, varies + isJSON, `{"error":"bad_json"}`}, ""},
	{"a field", "POST /collect.php x", answer{400, varies + isJSON, `{"error":"bad_event","field":"value"}`}, ""},
	{"a field of another error", "POST /collect.php x", answer{400, isJSON, `{"error":"bad_json","field":"value"}`}, "value must be"},
	{"an unknown field", "POST /collect.php x", answer{400, isJSON, `{"error":"bad_event","field":"m"}`}, "field"},
	{"a code of another status", "POST /collect.php x", answer{400, isJSON, `{"error":"unavailable"}`}, "error"},
	{"a code of another endpoint", "POST /collect.php x", answer{400, isJSON, `{"error":"visitor_required"}`}, "error"},
	{"an unknown code", "POST /collect.php x", answer{400, isJSON, `{"error":"bad_mood"}`}, "error"},
	{"an additional member", "POST /collect.php x", answer{400, isJSON, `{"error":"bad_json","id":1}`}, "id"},
	{"a refusal that is no JSON", "POST /collect.php x", answer{400, isJSON, "bad"}, "invalid character"},

	{"a success without the site key", `POST /collect.php {"t":"pageview"}`, answer{204, varies, ""}, "k"},
	{"a success with a wrong type", `POST /collect.php {"k":7,"t":"pageview"}`, answer{204, varies, ""}, "k"},
	{
		name:   "an optional wrong type",
		call:   "POST /collect.php " + strings.Replace(pageview, "{", `{"w":"wide","u":{"source":7},"y":0,`, 1),
		answer: answer{204, varies, ""}, want: "",
	},
	{"an infinite number", "POST /collect.php " + strings.Replace(pageview, "{", `{"ms":1e999,`, 1), answer{204, varies, ""}, ""},
	{"a refusal without the site key", `POST /collect.php {"t":"pageview"}`, answer{404, isJSON, `{"error":"unknown_site_key"}`}, ""},

	{"another method", "PUT /collect.php", answer{405, isJSON + "Allow: POST", `{"error":"method_not_allowed"}`}, ""},
	{"no Allow", "PUT /collect.php", answer{405, isJSON, `{"error":"method_not_allowed"}`}, `"Allow" missing`},
	{"another method as a success", "PUT /collect.php", answer{204, varies, ""}, "not listed"},
	{
		name: "a method that the path has", call: "GET /siteverify",
		answer: answer{200, isJSON + "Cache-Control: no-store", `{"success":false,"error-codes":["bad-request"]}`},
		want:   "",
	},
	{
		name: "a method that the path answers", call: "PUT /siteverify",
		answer: answer{200, isJSON + "Cache-Control: no-store", `{"success":false,"error-codes":["bad-request"]}`},
		want:   "",
	},
	{"both forms", "GET /siteverify", answer{200, isJSON + "Cache-Control: no-store", `{"success":true,"error-codes":[]}`}, "oneOf"},

	{
		name: "another method of another captcha's path", call: "PUT /1/siteverify",
		answer: answer{200, isJSON + "Cache-Control: no-store", `{"success":false,"error-codes":["bad-request"]}`},
		want:   "",
	},
	{
		name:   "a token with the sitekey",
		call:   `POST /api/v1/pow/siteverify {"sitekey":"` + sitekey + `","key":"x","secret":"s","token":"t"}`,
		answer: answer{200, isJSON, verification}, want: "",
	},
	{
		name:   "a token with key",
		call:   `POST /api/v1/pow/siteverify {"sitekey":"","key":"` + sitekey + `","secret":"s","token":"t"}`,
		answer: answer{200, isJSON, verification}, want: "",
	},
	{"a token without a sitekey", `POST /api/v1/pow/siteverify {"sitekey":"","secret":"s","token":"t"}`, answer{200, isJSON, verification}, "anyOf"},
	{"a token with a wrong key", `POST /api/v1/pow/siteverify {"key":"x","secret":"s","token":"t"}`, answer{200, isJSON, verification}, "anyOf"},

	{"recorded", `POST /server.php {"event":"x","ip":"::1","user_agent":"x"}`, answer{200, isJSON, `{"status":"recorded"}`}, ""},
	{"recorded without ip", `POST /server.php {"event":"x","user_agent":"x"}`, answer{200, isJSON, `{"status":"recorded"}`}, "ip"},
	{
		name: "recorded with a reason", call: `POST /server.php {"event":"x","ip":"::1","user_agent":"x"}`,
		answer: answer{200, isJSON, `{"status":"recorded","reason":"bot"}`}, want: "oneOf",
	},
	{
		name: "an unknown reason", call: `POST /server.php {"event":"x","ip":"::1","user_agent":"x"}`,
		answer: answer{200, isJSON, `{"status":"ignored","reason":"mood"}`}, want: "oneOf",
	},

	{"a challenge", `POST /api/v1/pow/config {"sitekey":"` + sitekey + `"}`,
		answer{200, isJSON + varies, challenge + strings.Repeat("a", 214) + `","salt":"aaaaaaaaaaaaaaaaaaaaaa","difficulty":16}`}, ""},
	{"a short challenge", `POST /api/v1/pow/config {"sitekey":"` + sitekey + `"}`,
		answer{200, isJSON + varies, challenge + `","salt":"aaaaaaaaaaaaaaaaaaaaaa","difficulty":16}`}, "challenge"},
	{"no Retry-After", `POST /api/v1/pow/config {}`, answer{429, isJSON, `{"error":"Later."}`}, `"Retry-After" missing`},

	{"HEAD", "HEAD /healthz", answer{200, isText, ""}, ""},
	{"HEAD of another status", "HEAD /healthz", answer{204, isText, ""}, "not listed"},
	{"HEAD without a header", "HEAD /svc.js", answer{200, "Content-Type: text/javascript", ""}, "missing"},
	{"a warning", "GET /readyz", answer{200, isText + "Cache-Control: no-store", "ok\nwarning: x\n"}, ""},
	{"an undocumented line", "GET /readyz", answer{200, isText + "Cache-Control: no-store", "ok\nnote: x\n"}, "pattern"},
	{"a version of another build", "GET /svc.000000000000.js", answer{404, isText, "404"}, ""},
	{"a version that is none", "GET /svc.x.js", answer{200, "Content-Type: text/javascript", ""}, "missing"},

	{"an unknown path", "GET /x", answer{404, isText, "404"}, ""},
	{"an unknown path as a success", "GET /x", answer{200, isText, "x"}, "unknown path"},
}

func TestHandler(t *testing.T) {
	for _, test := range exchanges {
		var errs errors
		call := strings.SplitN(test.call+" ", " ", 3)
		request := httptest.NewRequest(call[0], call[1], strings.NewReader(strings.TrimSuffix(call[2], " ")))
		w := httptest.NewRecorder()
		openapitest.Handler(&errs, test.answer).ServeHTTP(w, request)

		if w.Code != test.answer.status || w.Body.String() != test.answer.body {
			t.Errorf("%s: the client got %d %s", test.name, w.Code, w.Body)
		}
		compareErrors(t, test.name, errs, test.want)
	}
}

func TestTransport(t *testing.T) {
	for _, test := range exchanges {
		call := strings.SplitN(test.call+" ", " ", 3)
		if call[1] == "/x" {
			test.want = "" // may be another server's
		}

		server := httptest.NewServer(test.answer)
		defer server.Close()
		transport := openapitest.NewTransport(http.DefaultTransport)

		request, err := http.NewRequest(call[0], server.URL+call[1], strings.NewReader(strings.TrimSuffix(call[2], " ")))
		testkit.NoError(t, err)
		response, err := (&http.Client{Transport: transport}).Do(request)
		testkit.NoError(t, err)
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != test.answer.body {
			t.Errorf("%s: the client got %q, %v", test.name, body, err)
		}

		var errs errors
		for _, err := range transport.Errors() {
			errs = append(errs, err.Error())
		}
		compareErrors(t, test.name, errs, test.want)
	}
}

func TestWebhook(t *testing.T) {
	const body = `{"type":"conversion","event":"signup","site_key":"0123456789abcdef0123456789abcdef",` +
		`"occurred_at":"2026-11-20T12:00:00.000000+00:00","path":"/","attribution":` +
		`{"channel":"direct","utm_source":null,"utm_medium":null,"utm_campaign":null}}`

	for change, want := range map[string]string{
		"": "", `"type":"conversion",`: "has the field type", `"utm_medium":null,`: "utm_medium", `"direct"`: "has the field",
	} {
		var errs errors
		openapitest.Webhook(&errs, "conversion", "signup", strings.Replace(body, change, "", 1))
		compareErrors(t, change, errs, want)
	}

	for _, test := range []struct{ kind, event, body, want string }{
		{"conversion", "purchase", body, "has the field value"},
		{"conversion", "signup", strings.Replace(body, `"path"`, `"road":1,"path"`, 1), "lacks the field road"},
		{"notice", "", body, "lacks the message notice"},
	} {
		var errs errors
		openapitest.Webhook(&errs, test.kind, test.event, test.body)
		compareErrors(t, test.kind+" "+test.event, errs, test.want)
	}
}

func compareErrors(t *testing.T, name string, errs errors, want string) {
	t.Helper()
	switch {
	case want == "" && len(errs) > 0:
		t.Errorf("%s: %v, want no error", name, errs)
	case want != "" && (len(errs) != 1 || !strings.Contains(errs[0], want)):
		t.Errorf("%s: %v, want one error with %q", name, errs, want)
	}
}

// BenchmarkHandler measures what the comparison adds to each answer.
func BenchmarkHandler(b *testing.B) {
	for _, test := range exchanges[:1] {
		call := strings.SplitN(test.call, " ", 3)
		handler := openapitest.Handler(b, test.answer)
		for b.Loop() {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(call[0], call[1], strings.NewReader(call[2])))
		}
	}
}
