package captcha_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// TestSiteverifyPaths redeems tokens under the paths of other captchas, which answer as /siteverify
// does.
func TestSiteverifyPaths(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		account := p.Account("a", model.CaptchaPlanFree)
		key, other := p.Sitekey(account, "example.com"), p.Sitekey(account)

		for i, path := range []string{"/siteverify", "/recaptcha/api/siteverify", "/1/siteverify", "/turnstile/v0/siteverify"} {
			token := p.Token(key, siteOrigin)
			form := "secret=" + key.Secret + "&response=" + token
			for _, test := range []struct {
				name string
				call call
				want string
			}{
				{"no parameters", call{Type: formType}, `{"success":false,"error-codes":["missing-input-secret","missing-input-response"]}`},
				{"wrong secret", call{Type: formType, Body: "secret=x&response=" + token}, refused("invalid-input-secret")},
				{
					name: "another sitekey's secret",
					call: call{Type: formType, Body: "secret=" + other.Secret + "&response=" + token},
					want: refused("invalid-input-response"),
				},
				{"the wrong sitekey", call{Type: formType, Body: form + "&sitekey=" + other.Sitekey.Sitekey}, refused("invalid-input-response")},
				{"PUT", call{Method: http.MethodPut, Type: formType, Body: form}, refused("bad-request")},
				{"form", call{Type: formType, Body: form + "&remoteip=203.0.113.1"}, success(noon)},
				{"again", call{Type: formType, Body: form}, refused("timeout-or-duplicate")},
				{"again, JSON", call{Body: m{"secret": key.Secret, "response": token}}, refused("timeout-or-duplicate")},
				{"again, query", call{Method: http.MethodGet, Path: "?" + form}, refused("timeout-or-duplicate")},
			} {
				test.call.Path = path + test.call.Path
				check(t, path+", "+test.name, p.compatCall(t, test.call), test.want)
			}
			if got := p.CaptchaUsage(account).Used; got != int64(i+1) {
				t.Errorf("%s: %d verifications were counted, want %d", path, got, i+1)
			}
		}
	})
}

// TestSiteconfig checks a sitekey as hCaptcha's plug-ins do, which stores nothing.
func TestSiteconfig(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		key, suspended := p.Sitekey(p.Account("a", model.CaptchaPlanFree), "example.com"), p.Account("b", model.CaptchaPlanFree)
		stopped := p.Sitekey(suspended)
		if _, err := accounts.New(p.DB).Suspend(t.Context(), suspended, "abuse", model.At(p.Clock.Now())); err != nil {
			t.Fatal(err)
		}

		const pass, unknown = `{"pass":true,"features":{}}`, `{"pass":false,"error":"Unknown sitekey."}`
		query := "?host=shop.test&sitekey=" + key.Sitekey.Sitekey + "&sc=1&swa=1&spst=0"
		for _, test := range []struct {
			name string
			call call
			want string
		}{
			{"as the plug-in asks", call{Path: query}, pass},
			{"a page", call{Path: query, Origin: "https://other.test"}, pass},
			{"a body", call{Path: query, Body: strings.Repeat("x", 100)}, pass},
			{"the test sitekey", call{Path: "?sitekey=" + model.TestSitekey}, pass},
			{"no query", call{}, unknown},
			{"in the body", call{Type: formType, Body: "sitekey=" + key.Sitekey.Sitekey}, unknown},
			{"malformed", call{Path: "?sitekey=x%00"}, unknown},
			{"hCaptcha's own", call{Path: "?sitekey=10000000-ffff-ffff-ffff-000000000001"}, unknown},
			{"another one", call{Path: "?sitekey=" + model.NewSitekey()}, unknown},
			{"suspended", call{Path: "?sitekey=" + stopped.Sitekey.Sitekey},
				`{"pass":false,"error":"Unknown sitekey: the operator has suspended its account."}`},
		} {
			test.call.Path = "/checksiteconfig" + test.call.Path
			response, got := p.Send(test.call)
			if response.StatusCode != http.StatusOK || got != test.want || response.Header.Get("Cache-Control") != "no-store" ||
				response.Header.Get("Access-Control-Allow-Origin") != test.call.Origin {
				t.Errorf("%s: %d %v %s, want %s", test.name, response.StatusCode, response.Header, got, test.want)
			}
		}

		for _, method := range []string{http.MethodGet, http.MethodPut} {
			p.refusal(t, method, call{Method: method, Path: "/checksiteconfig" + query}, 405)
		}
		preflight, _ := p.Send(call{Method: http.MethodOptions, Path: "/checksiteconfig" + query, Origin: "https://other.test"})
		if preflight.StatusCode != http.StatusNoContent || preflight.Header.Get("Access-Control-Allow-Origin") != "https://other.test" {
			t.Errorf("OPTIONS: %d %v", preflight.StatusCode, preflight.Header)
		}

		p.Stop()
		dbtest.HasRows(t, p.DB, "captcha_counts", 0, "counts are stored")
	})
}

// TestSiteverifyKey redeems tokens as mCaptcha's clients do, with the sitekey as key.
func TestSiteverifyKey(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		account := p.Account("a", model.CaptchaPlanFree)
		key, other := p.Sitekey(account, "example.com"), p.Sitekey(account)
		body := m{"token": p.Token(key, siteOrigin), "key": key.Sitekey.Sitekey, "secret": key.Secret}

		for _, test := range []struct {
			name   string
			body   m
			status int
		}{
			{"no key", with(body, m{"key": nil}), 400},
			{"key of another type", with(body, m{"key": 7}), 400},
			{"empty key", with(body, m{"key": ""}), 400},
			{"key in another case", with(body, m{"key": nil, "Key": key.Sitekey.Sitekey}), 400},
			{"unknown key", with(body, m{"key": model.NewSitekey()}), 404},
			{"another sitekey's key", with(body, m{"key": other.Sitekey.Sitekey}), 401},
			{"the sitekey wins, and is another one", with(body, m{"sitekey": other.Sitekey.Sitekey}), 401},
		} {
			p.refusal(t, test.name, call{Path: siteverifyPath, Body: test.body}, test.status)
		}

		for _, test := range []struct {
			name string
			body m
			want string
		}{
			{"key", body, valid},
			{"again", body, invalid},
			{
				name: "the sitekey wins",
				body: with(body, m{"token": p.Token(key, siteOrigin), "sitekey": key.Sitekey.Sitekey, "key": other.Sitekey.Sitekey}),
				want: valid,
			},
			{"an empty sitekey", with(body, m{"token": p.Token(key, siteOrigin), "sitekey": ""}), valid},
		} {
			response, got := p.Send(call{Path: siteverifyPath, Body: test.body})
			if response.StatusCode != http.StatusOK || got != test.want {
				t.Errorf("%s: %d %s, want %s", test.name, response.StatusCode, got, test.want)
			}
		}
	})
}

// otherReadings returns queries that have a sitekey for a browser's script, which trims it, and
// another text or no sitekey for the server.
func otherReadings(sitekey string) map[string]string {
	return map[string]string{
		"a blank":             "sitekey=" + sitekey + "+",
		"an escaped blank":    "sitekey=%20" + sitekey,
		"a tab":               "sitekey=" + sitekey + "%09",
		"a byte order mark":   "sitekey=%EF%BB%BF" + sitekey,
		"a no-break space":    "sitekey=" + sitekey + "%C2%A0",
		"a semicolon":         "a;b&sitekey=" + sitekey + "%0a",
		"too many parameters": strings.Repeat("a&", 10_001) + "sitekey=" + sitekey,
	}
}

// TestFrame checks who may frame mCaptcha's page, and that the page says it in a policy.
func TestFrame(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		account := p.Account("a", model.CaptchaPlanFree)
		bound, free := p.Sitekey(account, "example.com", "shop.test"), p.Sitekey(account)

		domains := "http://example.com:* http://*.example.com:* http://shop.test:* http://*.shop.test:*"
		boundKey, freeKey := bound.Sitekey.Sitekey, free.Sitekey.Sitekey
		tests := []struct{ name, path, sitekey, ancestors string }{
			{"bound", "/widget?sitekey=" + boundKey, boundKey, domains},
			{"bound, with a slash", "/widget/?sitekey=" + boundKey, boundKey, domains},
			{"bound, escaped", "/widget?x=1&%73itekey=%73" + boundKey[1:], boundKey, domains},
			{"bound, then another", "/widget?sitekey=" + boundKey + "&sitekey=" + freeKey, boundKey, domains},
			{"not bound", "/widget?sitekey=" + freeKey, freeKey, "*"},
			{"not bound, then another", "/widget?sitekey=" + freeKey + "&sitekey=" + boundKey, freeKey, "*"},
			{"the test sitekey", "/widget?sitekey=" + model.TestSitekey, model.TestSitekey, "*"},
			{"unknown", "/widget?sitekey=" + model.NewSitekey(), "", "*"},
			{"malformed", "/widget?sitekey=%zz%22%3E%3Cscript%3E", "", "*"},
			{"missing", "/widget", "", "*"},
		}
		for name, query := range otherReadings(boundKey) {
			tests = append(tests, struct{ name, path, sitekey, ancestors string }{name, "/widget?" + query, "", "*"})
		}

		for _, test := range tests {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				response, body := p.Send(call{Method: method, Path: test.path})
				policy := response.Header.Get("Content-Security-Policy")
				_, ancestors, _ := strings.Cut(policy, "frame-ancestors ")
				if response.StatusCode != http.StatusOK || ancestors != test.ancestors || response.Header.Get("Cache-Control") != "no-store" ||
					response.Header.Get("Content-Type") != "text/html; charset=utf-8" || response.Header.Get("X-Frame-Options") != "" {
					t.Errorf("%s %s: %d %v", method, test.name, response.StatusCode, response.Header)
				}

				want := []string{`src="/widget/frame.js"`, `<body data-sitekey="` + test.sitekey + `">`}
				isPage := strings.Contains(body, want[0]) && strings.Contains(body, want[1]) &&
					strings.Count(body, "svck_") == strings.Count(test.sitekey, "svck_")
				if isPage != (method == http.MethodGet) || method == http.MethodHead && body != "" {
					t.Errorf("%s %s: %s", method, test.name, body)
				}
			}
		}

		// Proxies often have 4 KiB for all headers of an answer.
		var many []string
		for i := range model.MaxSitekeyDomains {
			many = append(many, fmt.Sprintf("branch-%02d.example.com", i))
		}
		response, _ := p.Send(call{Method: http.MethodGet, Path: "/widget?sitekey=" + p.Sitekey(account, many...).Sitekey.Sitekey})
		policy := response.Header.Get("Content-Security-Policy")
		if len(policy) > 3600 || strings.Count(policy, "http://*.branch-") != len(many) {
			t.Errorf("the policy of %d domains has %d bytes: %s", len(many), len(policy), policy)
		}

		response, _ = p.Send(call{Path: "/widget"})
		if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST: %d %v", response.StatusCode, response.Header)
		}
	})
}

// TestFrameCalls checks that a bound sitekey takes calls of the captcha's own origin in the frame's
// folder only.
func TestFrameCalls(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	key := p.Sitekey(p.Account("a", model.CaptchaPlanFree), "example.com")
	body := m{"sitekey": key.Sitekey.Sitekey}
	own := p.URL

	for _, test := range []struct {
		name, path, origin string
		status             int
	}{
		{"the frame", "/widget" + configPath, own, 200},
		{"the frame over TLS, which this server is not reached by", "/widget" + configPath, strings.Replace(own, "http:", "https:", 1), 403},
		{"a page of the domain", "/widget" + configPath, siteOrigin, 200},
		{"a page of another domain", "/widget" + configPath, "https://example.org", 403},
		{"another port of this host", "/widget" + configPath, "http://127.0.0.1:1", 403},
		{"no origin", "/widget" + configPath, "", 403},
		{"a sandboxed page", "/widget" + configPath, "null", 403},
		{"this origin at the contract's path", configPath, own, 403},
	} {
		response, answer := p.Send(call{Path: test.path, Body: body, Origin: test.origin, Client: planetest.NextClient()})
		testkit.Equal(t, response.StatusCode, test.status, "%s: %s", test.name, answer)
	}

	// A page of another domain that resolves its own name to this server.
	for _, path := range []string{configPath, verifyPath} {
		r := httptest.NewRequest(http.MethodPost, "http://other.test/widget"+path, strings.NewReader(`{"sitekey":"`+key.Sitekey.Sitekey+`"}`))
		r.Header.Set("Origin", "http://other.test")
		w := httptest.NewRecorder()
		p.Handler.ServeHTTP(w, r)
		testkit.Equal(t, w.Code, http.StatusForbidden, "%s with another host: %s", path, w.Body)
	}

	// A whole token, as the frame's widget gets it.
	challenge := p.Challenge(key, siteOrigin)
	nonce, err := pow.Solve(challenge)
	testkit.NoError(t, err)
	solved := with(body, m{"challenge": challenge.Challenge, "nonce": nonce})
	p.refusal(t, "this origin at the contract's path", call{Path: verifyPath, Body: solved, Origin: own}, 403)
	if response, answer := p.Send(call{Path: "/widget" + verifyPath, Body: solved, Origin: own}); response.StatusCode != http.StatusOK {
		t.Errorf("verify: %d %s", response.StatusCode, answer)
	}
}
