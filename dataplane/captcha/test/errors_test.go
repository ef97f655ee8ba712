package captcha_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// with returns a copy of a body with changed fields; nil removes a field.
func with(body m, fields m) m {
	all := maps.Clone(body)
	for name, value := range fields {
		if value == nil {
			delete(all, name)
		} else {
			all[name] = value
		}
	}

	return all
}

func mustJSON(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	testkit.NoError(tb, err)
	return string(text)
}

// refusal sends a call that must be refused. It checks the status with its headers, and that the
// body is one sentence.
func (p *plane) refusal(t *testing.T, name string, c call, status int) *http.Response {
	t.Helper()

	response, body := p.Send(c)
	var answer struct{ Error string }
	err := json.Unmarshal([]byte(body), &answer)
	if response.StatusCode != status || err != nil || len(answer.Error) < 10 || !strings.HasSuffix(answer.Error, ".") {
		t.Errorf("%s: %d %s, want %d and a sentence", name, response.StatusCode, body, status)
	}
	testkit.Equal(t, response.Header.Get("Content-Type"), "application/json", "%s: content type", name)

	if status == http.StatusMethodNotAllowed && !strings.HasPrefix(response.Header.Get("Allow"), "POST") {
		t.Errorf("%s: Allow %q", name, response.Header.Get("Allow"))
	}

	return response
}

// TestErrors goes through the contract's table of errors (captcha contract, section 7) on the three
// JSON endpoints, and the order of their checks. A refused call must not change anything.
func TestErrors(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		account := p.Account("a", model.CaptchaPlanFree)
		key, unbound := p.Sitekey(account, "example.com"), p.Sitekey(account)
		work := p.Solved(key, siteOrigin)

		used := p.Solved(key, siteOrigin)
		if response, body := p.Send(call{Path: verifyPath, Body: used, Origin: siteOrigin}); response.StatusCode != 200 {
			t.Fatal(response.StatusCode, body)
		}

		nonce := work["nonce"].(uint64)
		pair := m{"sitekey": key.Sitekey.Sitekey, "secret": key.Secret, "token": p.Token(key, siteOrigin)}

		rows, err := dbtest.Count(p.DB, "captcha_spent")
		testkit.NoError(t, err)

		unknown := model.NewSitekey()
		config := m{"sitekey": key.Sitekey.Sitekey}
		long := strings.Repeat("x", 8_200)
		foreign := "https://example.org"

		for _, test := range []struct {
			name   string
			call   call
			status int
		}{
			// 400: stale, malformed or already used challenge.
			{"challenge used already", call{Path: verifyPath, Body: used, Origin: siteOrigin}, 400},
			{
				name:   "challenge altered",
				call:   call{Path: verifyPath, Body: with(work, m{"challenge": "B" + work["challenge"].(string)[1:]}), Origin: siteOrigin},
				status: 400,
			},
			{"challenge malformed", call{Path: verifyPath, Body: with(work, m{"challenge": "x"}), Origin: siteOrigin}, 400},
			{
				name:   "challenge of another sitekey",
				call:   call{Path: verifyPath, Body: with(work, m{"sitekey": unbound.Sitekey.Sitekey}), Origin: siteOrigin},
				status: 400,
			},
			{"no challenge", call{Path: verifyPath, Body: with(work, m{"challenge": nil}), Origin: siteOrigin}, 400},
			{"challenge of another type", call{Path: verifyPath, Body: with(work, m{"challenge": 7}), Origin: siteOrigin}, 400},
			{"wrong nonce", call{Path: verifyPath, Body: with(work, m{"nonce": nonce ^ 1}), Origin: siteOrigin}, 400},
			{"no nonce", call{Path: verifyPath, Body: with(work, m{"nonce": nil}), Origin: siteOrigin}, 400},
			{"nonce as text", call{Path: verifyPath, Body: with(work, m{"nonce": "1"}), Origin: siteOrigin}, 400},
			{"nonce negative", call{Path: verifyPath, Body: with(work, m{"nonce": -1}), Origin: siteOrigin}, 400},
			{"nonce with a fraction", call{Path: verifyPath, Body: with(work, m{"nonce": json.RawMessage("1.5")}), Origin: siteOrigin}, 400},
			{"nonce with an exponent", call{Path: verifyPath, Body: with(work, m{"nonce": json.RawMessage("1e3")}), Origin: siteOrigin}, 400},
			{"nonce too large", call{Path: verifyPath, Body: with(work, m{"nonce": json.RawMessage("9007199254740992")}), Origin: siteOrigin}, 400},
			{
				name:   "nonce of 30 digits",
				call:   call{Path: verifyPath, Body: with(work, m{"nonce": json.RawMessage(strings.Repeat("9", 30))}), Origin: siteOrigin},
				status: 400,
			},
			// 400: a body that cannot be read.
			{"config, empty body", call{Path: configPath, Body: "", Origin: siteOrigin}, 400},
			{"config, no JSON", call{Path: configPath, Body: "hello", Origin: siteOrigin}, 400},
			{"config, null", call{Path: configPath, Body: "null", Origin: siteOrigin}, 400},
			{"config, array", call{Path: configPath, Body: "[]", Origin: siteOrigin}, 400},
			{"config, a key twice", call{Path: configPath, Body: `{"sitekey":"a","sitekey":"b"}`, Origin: siteOrigin}, 400},
			{"config, form", call{Path: configPath, Body: "sitekey=" + key.Sitekey.Sitekey, Origin: siteOrigin}, 400},
			{"config, 8 KB and more", call{Path: configPath, Body: with(config, m{"x": long}), Origin: siteOrigin}, 400},
			{"config, no sitekey", call{Path: configPath, Body: "{}", Origin: siteOrigin}, 400},
			{"config, sitekey in another case", call{Path: configPath, Body: `{"Sitekey":"` + key.Sitekey.Sitekey + `"}`, Origin: siteOrigin}, 400},
			{"config, sitekey null", call{Path: configPath, Body: `{"sitekey":null}`, Origin: siteOrigin}, 400},
			{"verify, no sitekey", call{Path: verifyPath, Body: with(work, m{"sitekey": nil}), Origin: siteOrigin}, 400},
			{"siteverify, empty body", call{Path: siteverifyPath, Body: ""}, 400},
			{"siteverify, no JSON", call{Path: siteverifyPath, Body: "hello"}, 400},
			{"siteverify, 8 KB and more", call{Path: siteverifyPath, Body: with(pair, m{"x": long})}, 400},
			{"siteverify, no sitekey", call{Path: siteverifyPath, Body: with(pair, m{"sitekey": nil})}, 400},
			{"siteverify, no secret", call{Path: siteverifyPath, Body: with(pair, m{"secret": nil})}, 400},
			{"siteverify, no token", call{Path: siteverifyPath, Body: with(pair, m{"token": nil})}, 400},
			{"siteverify, empty token", call{Path: siteverifyPath, Body: with(pair, m{"token": ""})}, 400},
			{"siteverify, token of another type", call{Path: siteverifyPath, Body: with(pair, m{"token": 1})}, 400},
			// 401: the secret does not match the sitekey.
			{"secret with a newline", call{Path: siteverifyPath, Body: with(pair, m{"secret": key.Secret + "\n"})}, 401},
			{"secret of another sitekey", call{Path: siteverifyPath, Body: with(pair, m{"secret": unbound.Secret})}, 401},
			{"secret with a typo", call{Path: siteverifyPath, Body: with(pair, m{"secret": key.Secret + "x"})}, 401},
			{"test secret", call{Path: siteverifyPath, Body: with(pair, m{"secret": model.TestSitekeySecret})}, 401},
			{"secret for the test sitekey", call{Path: siteverifyPath, Body: with(pair, m{"sitekey": model.TestSitekey})}, 401},
			{"the secret comes before the token", call{Path: siteverifyPath, Body: with(pair, m{"secret": "x", "token": "x"})}, 401},
			// 403: the request's origin is not among the sitekey's domains.
			{"config, another domain", call{Path: configPath, Body: config, Origin: foreign}, 403},
			{"verify, another domain", call{Path: verifyPath, Body: work, Origin: foreign}, 403},
			{"the domain comes before the work", call{Path: verifyPath, Body: with(work, m{"nonce": "x"}), Origin: foreign}, 403},
			// 404: the sitekey does not exist.
			{"config, unknown sitekey", call{Path: configPath, Body: m{"sitekey": unknown}, Origin: siteOrigin}, 404},
			{
				name:   "config, sitekey with a newline",
				call:   call{Path: configPath, Body: m{"sitekey": key.Sitekey.Sitekey[:9] + "\n" + key.Sitekey.Sitekey[9:]}, Origin: siteOrigin},
				status: 404,
			},
			{"config, not the form of one", call{Path: configPath, Body: m{"sitekey": "x"}, Origin: siteOrigin}, 404},
			{"verify, unknown sitekey", call{Path: verifyPath, Body: with(work, m{"sitekey": unknown}), Origin: siteOrigin}, 404},
			{"siteverify, unknown sitekey", call{Path: siteverifyPath, Body: with(pair, m{"sitekey": unknown})}, 404},
			{"siteverify, a secret for a sitekey", call{Path: siteverifyPath, Body: with(pair, m{"sitekey": key.Secret})}, 404},
			{"the sitekey comes before the secret", call{Path: siteverifyPath, Body: with(pair, m{"sitekey": unknown, "secret": "x"})}, 404},
			// 405
			{"config, GET", call{Method: "GET", Path: configPath + "?sitekey=" + key.Sitekey.Sitekey, Origin: siteOrigin}, 405},
			{"verify, PUT", call{Method: "PUT", Path: verifyPath, Body: work, Origin: siteOrigin}, 405},
			{"siteverify, GET", call{Method: "GET", Path: siteverifyPath}, 405},
			{"siteverify, OPTIONS", call{Method: "OPTIONS", Path: siteverifyPath}, 405},
		} {
			p.refusal(t, test.name, test.call, test.status)
		}

		if n, err := dbtest.Count(p.DB, "captcha_spent"); err != nil || n != rows {
			t.Errorf("%d rows are consumed, %v; want the %d from before", n, err, rows)
		}
		testkit.Equal(t, p.CaptchaUsage(account).Used, 0, "counted")

		// The challenges and tokens refused above are still valid.
		if response, body := p.Send(call{Path: verifyPath, Body: work, Origin: siteOrigin}); response.StatusCode != 200 {
			t.Errorf("the work: %d %s", response.StatusCode, body)
		}
		if response, body := p.Send(call{Path: siteverifyPath, Body: pair}); body != valid {
			t.Errorf("the token: %d %s", response.StatusCode, body)
		}

		stale := p.Solved(key, siteOrigin)
		p.Clock.Add(pow.Lifetime + time.Second)
		p.refusal(t, "stale challenge", call{Path: verifyPath, Body: stale, Origin: siteOrigin}, 400)
	})
}

// TestNonceInAnyNotation checks that verify accepts the nonce in each notation of its value.
func TestNonceInAnyNotation(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	for _, notation := range []string{"%d", "%d.0", "%d.000", "%d0e-1", "%dE+0"} {
		work := p.Solved(planetest.TestSitekey, "")
		number := json.RawMessage(fmt.Sprintf(notation, work["nonce"]))
		if response, body := p.Send(call{Path: verifyPath, Body: with(work, m{"nonce": number})}); response.StatusCode != 200 {
			t.Errorf("nonce %s: %d %s", number, response.StatusCode, body)
		}
	}

	work := p.Solved(planetest.TestSitekey, "")
	number := json.RawMessage(strconv.FormatFloat(float64(work["nonce"].(uint64)), 'e', -1, 64))
	if response, body := p.Send(call{Path: verifyPath, Body: with(work, m{"nonce": number})}); response.StatusCode != 200 {
		t.Errorf("nonce %s: %d %s", number, response.StatusCode, body)
	}
}

// TestDomainBinding checks that a bound sitekey works on its domains and their subdomains only, and
// an unbound one on every page (captcha contract, section 5).
func TestDomainBinding(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	account := p.Account("a", model.CaptchaPlanFree)
	bound, unbound := p.Sitekey(account, "example.com", "shop.example"), p.Sitekey(account)
	for _, test := range []struct {
		name    string
		header  http.Header
		allowed bool   // with the bound sitekey
		host    string // in the token, when the key is unbound
	}{
		{"own domain", http.Header{"Origin": {"https://example.com"}}, true, "example.com"},
		{"second domain", http.Header{"Origin": {"https://shop.example"}}, true, "shop.example"},
		{"subdomain", http.Header{"Origin": {"https://a.b.example.com"}}, true, "a.b.example.com"},
		{"port", http.Header{"Origin": {"http://example.com:8080"}}, true, "example.com"},
		{"capitals", http.Header{"Origin": {"https://WWW.Example.COM"}}, true, "www.example.com"},
		{"suffix without a dot", http.Header{"Origin": {"https://notexample.com"}}, false, "notexample.com"},
		{"domain as a subdomain of another", http.Header{"Origin": {"https://example.com.evil.example"}}, false, "example.com.evil.example"},
		{"parent", http.Header{"Origin": {"https://com"}}, false, "com"},
		{"null", http.Header{"Origin": {"null"}}, false, ""},
		{"localhost", http.Header{"Origin": {"http://localhost:3000"}}, false, "localhost"},
		{"address", http.Header{"Origin": {"http://127.0.0.1"}}, false, "127.0.0.1"},
		{"IPv6 address", http.Header{"Origin": {"http://[::1]:80"}}, false, "::1"},
		{"an app", http.Header{"Origin": {"capacitor://example.com"}}, false, ""},
		{"two origins", http.Header{"Origin": {"https://example.com", "https://example.com"}}, false, ""},
		{"nothing", nil, false, ""},
		{"referer only", http.Header{"Referer": {"https://www.example.com/login?next=%2F"}}, true, "www.example.com"},
		{"foreign referer only", http.Header{"Referer": {"https://example.org/https://example.com"}}, false, "example.org"},
		{
			name:   "the origin comes before the referer",
			header: http.Header{"Origin": {"https://example.org"}, "Referer": {"https://example.com/"}}, allowed: false,
			host: "example.org",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := http.StatusOK

			if !test.allowed {
				status = http.StatusForbidden
			}

			// The page may read all answers, including refusals.
			var allow []string

			if origin := test.header["Origin"]; len(origin) == 1 {
				allow = origin
			}

			for _, key := range []sitekey{bound, unbound} {
				want := status

				if key == unbound {
					want = http.StatusOK
				}

				for _, path := range []string{configPath, verifyPath} {
					body := p.Solved(key, "https://example.com")
					response, text := p.Send(call{Path: path, Body: body, Header: test.header, Client: planetest.NextClient()})
					testkit.Equal(t, response.StatusCode, want, "%s: %s", path, text)
					if got := response.Header["Access-Control-Allow-Origin"]; mustJSON(t, got) != mustJSON(t, allow) {
						t.Errorf("%s, status %d: Access-Control-Allow-Origin %q, want %q", path, response.StatusCode, got, allow)
					}
					if response.Header.Get("Vary") != "Origin" || response.Header.Get("Access-Control-Allow-Credentials") != "" {
						t.Errorf("%s: headers %v", path, response.Header)
					}

					if path == verifyPath && want == http.StatusOK {
						var answer struct{ Token string }
						testkit.NoError(t, json.Unmarshal([]byte(text), &answer))
						if got := p.Compat(key, answer.Token); !strings.Contains(got, `"hostname":"`+test.host+`"}`) {
							t.Errorf("hostname in %s, want %q", got, test.host)
						}
					}
				}
			}
		})
	}
}

// TestLocalhostBinding checks that a sitekey with the domain localhost works there and on its other
// domains, and not on loopback addresses.
func TestLocalhostBinding(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	account := p.Account("a", model.CaptchaPlanFree)
	local, other := p.Sitekey(account, "example.com", "localhost"), p.Sitekey(account, "example.com")
	for origin, status := range map[string]int{
		"http://localhost:3000": 200, "https://localhost": 200, "http://app.localhost": 200, "https://www.example.com": 200,
		"http://127.0.0.1:3000": 403, "http://[::1]": 403, "https://notlocalhost": 403, "https://localhost.evil.example": 403, "null": 403,
	} {
		work := p.Solved(local, "https://example.com")
		for path, body := range map[string]any{configPath: m{"sitekey": local.Sitekey.Sitekey}, verifyPath: work} {
			response, text := p.Send(call{Path: path, Body: body, Origin: origin, Client: planetest.NextClient()})
			testkit.Equal(t, response.StatusCode, status, "%s from %s: %s", path, origin, text)
		}
	}

	p.refusal(t, "localhost, not named", call{Path: configPath, Body: m{"sitekey": other.Sitekey.Sitekey}, Origin: "http://localhost"}, 403)
}

// TestPreflight checks the answer to the preflight of a call with a JSON content type.
func TestPreflight(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))

	for _, path := range []string{configPath, verifyPath} {
		for _, origin := range []string{"https://example.com", "null"} {
			response, body := p.Send(call{Method: "OPTIONS", Path: path, Origin: origin,
				Header: http.Header{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type"}}})

			h := response.Header
			if response.StatusCode != 204 || body != "" || h.Get("Access-Control-Allow-Origin") != origin ||
				h.Get("Access-Control-Allow-Methods") != "POST, OPTIONS" || h.Get("Access-Control-Allow-Headers") != "Content-Type" ||
				h.Get("Vary") != "Origin" || h.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s from %s: %d %q %v", path, origin, response.StatusCode, body, h)
			}
		}
	}
}

// TestAnswersAreNotCached checks that no cache stores an answer, since a challenge or token is
// useless to a second client.
func TestAnswersAreNotCached(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	for path, body := range map[string]any{
		configPath: m{"sitekey": model.TestSitekey}, verifyPath: p.Solved(planetest.TestSitekey, ""),
		siteverifyPath: m{"sitekey": model.TestSitekey, "secret": model.TestSitekeySecret, "token": "x"}, compatPath: "{}",
	} {
		response, text := p.Send(call{Path: path, Body: body, Type: "text/plain;charset=UTF-8"})
		if response.StatusCode != 200 || response.Header.Get("Cache-Control") != "no-store" || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s, headers %v", path, response.StatusCode, text, response.Header)
		}
	}
}

// TestChallenge checks the fields and bounds of a challenge.
func TestChallenge(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	response, body := p.Send(call{Path: configPath, Body: m{"sitekey": model.TestSitekey, "unknown": []any{1, m{}}}})

	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil || response.StatusCode != 200 || len(fields) != 3 {
		t.Fatalf("%d %s", response.StatusCode, body)
	}

	challenge, _ := fields["challenge"].(string)
	salt, _ := fields["salt"].(string)
	if len(challenge) != 214 || len(salt) != 22 || fields["difficulty"] != float64(planetest.Difficulty) {
		t.Errorf("%s", body)
	}
}

// TestNoTestSitekey checks that a disabled test sitekey is unknown and its secret wrong at all
// endpoints, and that others still work.
func TestNoTestSitekey(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		on := newPlane(t, d)
		off := newPlaneWith(t, d, on.Clock, captcha.StoreTimeout, func(o *captcha.Options) { o.NoTestSitekey = true })
		owned := on.Sitekey(on.Account("owner", model.CaptchaPlanFree))
		work, token := on.Solved(planetest.TestSitekey, siteOrigin), on.Token(planetest.TestSitekey, siteOrigin)

		for _, c := range []struct {
			name   string
			call   call
			status int
		}{
			{"config", call{Path: configPath, Body: m{"sitekey": model.TestSitekey}, Origin: siteOrigin}, http.StatusNotFound},
			{"verify", call{Path: verifyPath, Body: work, Origin: siteOrigin}, http.StatusNotFound},
			{
				name:   "siteverify",
				call:   call{Path: siteverifyPath, Body: m{"sitekey": model.TestSitekey, "secret": model.TestSitekeySecret, "token": token}},
				status: http.StatusNotFound,
			},
			{"siteverify of another sitekey", call{
				Path: siteverifyPath,
				Body: m{"sitekey": owned.Sitekey.Sitekey, "secret": model.TestSitekeySecret, "token": token},
			},
				http.StatusUnauthorized},
		} {
			off.refusal(t, c.name, c.call, c.status)
		}

		if got, want := off.Compat(planetest.TestSitekey, token), refused("invalid-input-secret"); got != want {
			t.Errorf("compat: %s, want %s", got, want)
		}
		testkit.Equal(t, off.Siteverify(owned, off.Token(owned, siteOrigin)), valid, "another sitekey")
		testkit.Equal(t, on.Siteverify(planetest.TestSitekey, token), valid, "the test sitekey where it is on")
	})
}
