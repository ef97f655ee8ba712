package captcha_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// compatCall sends a call to the compatible endpoint and returns the answer, which must have HTTP
// status 200 and be JSON.
func (p *plane) compatCall(t *testing.T, c call) string {
	t.Helper()
	response, body := p.Send(c)
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s %.200v: status %d, %s; want 200 always", c.Method, c.Path, c.Body, response.StatusCode, response.Header)
	}
	return body
}

// TestCompatRequests checks the three sources of parameters (captcha contract, section 4), and the
// forms in which libraries and people write them.
func TestCompatRequests(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	key := p.Sitekey(p.Account("a", model.CaptchaPlanFree), "example.com")
	form := func(fields ...string) string {
		values := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			values.Add(fields[i], fields[i+1])
		}
		return values.Encode()
	}

	var parts bytes.Buffer
	for _, test := range []struct {
		name string
		call func(token string) call
	}{
		{"form", func(s string) call { return call{Type: formType, Body: form("secret", key.Secret, "response", s)} }},
		{"form with charset", func(s string) call {
			return call{Type: formType + ";charset=UTF-8", Body: form("secret", key.Secret, "response", s, "remoteip", "203.0.113.1")}
		}},
		{"form without a type", func(s string) call {
			return call{Header: http.Header{"Content-Type": nil}, Body: form("response", s, "secret", key.Secret)}
		}},
		{"form with empty remoteip", func(s string) call {
			return call{Type: formType, Body: form("secret", key.Secret, "response", s, "remoteip", "")}
		}},
		{"unescaped form", func(s string) call {
			return call{Type: formType, Body: "secret=" + key.Secret + "&response=" + s + "&remoteip=::1&version=a;b%zz"}
		}},
		{"form with white space around", func(s string) call {
			return call{Type: formType, Body: "secret=" + key.Secret + "&response=" + s + "\r\n"}
		}},
		{"JSON", func(s string) call { return call{Body: m{"secret": key.Secret, "response": s}} }},
		{"JSON with charset", func(s string) call {
			return call{Type: "application/json; charset=utf-8", Body: m{"secret": key.Secret, "response": s}}
		}},
		{"JSON with unknown keys of any type", func(s string) call {
			return call{Body: m{
				"secret": key.Secret, "response": s, "remoteip": nil, "idempotency_key": "x", "version": 3,
				"headers": m{"a": []any{1, nil}},
			}}
		}},
		{"JSON declared as a form", func(s string) call { return call{Type: formType, Body: m{"secret": key.Secret, "response": s}} }},
		{"JSON declared as text", func(s string) call { return call{Type: "text/plain", Body: m{"secret": key.Secret, "response": s}} }},
		{"query, POST without a body", func(s string) call {
			return call{Path: "?" + form("secret", key.Secret, "response", s), Header: http.Header{"Content-Type": nil}}
		}},
		{"query, GET", func(s string) call { return call{Method: "GET", Path: "?" + form("secret", key.Secret, "response", s)} }},
		{"secret in the query, response in the body", func(s string) call {
			return call{Path: "?" + form("secret", key.Secret), Type: formType, Body: form("response", s)}
		}},
		{"the body wins over the query", func(s string) call {
			return call{Path: "?" + form("secret", "wrong", "response", "wrong"), Body: m{"secret": key.Secret, "response": s}}
		}},
		{"the first of several wins", func(s string) call {
			return call{Type: formType, Body: form("secret", key.Secret, "secret", "x", "response", s, "response", "x")}
		}},
		{"multipart, as PHP's curl sends an array", func(s string) call {
			parts.Reset()
			w := multipart.NewWriter(&parts)
			for _, field := range [][2]string{{"secret", key.Secret}, {"response", s}, {"remoteip", "203.0.113.1"}} {
				testkit.NoError(t, w.WriteField(field[0], field[1]))
			}

			testkit.NoError(t, w.Close())

			return call{Type: w.FormDataContentType(), Body: parts.String()}
		}},
		{"empty values in the body, the query's count", func(s string) call {
			return call{Path: "?" + form("secret", key.Secret, "response", s, "sitekey", key.Sitekey.Sitekey),
				Type: formType, Body: "secret=&response=+%0d%0a&sitekey="}
		}},
		{"empty values in a JSON body", func(s string) call {
			return call{Path: "?" + form("secret", key.Secret, "response", s), Body: m{"secret": "", "response": " ", "sitekey": nil}}
		}},
		{"the first that is not empty wins", func(s string) call {
			return call{
				Type: formType,
				Body: form("secret", key.Secret, "response", " ", "response", s, "sitekey", "", "sitekey", key.Sitekey.Sitekey),
			}
		}},
		{"an unreadable sitekey in the query, below that of the body", func(s string) call {
			return call{Path: "?sitekey=%zz", Type: formType, Body: form("secret", key.Secret, "response", s, "sitekey", key.Sitekey.Sitekey)}
		}},
		{"with its sitekey", func(s string) call {
			return call{Type: formType, Body: form("secret", key.Secret, "response", s, "sitekey", key.Sitekey.Sitekey)}
		}},
		{"with an empty sitekey", func(s string) call { return call{Body: m{"secret": key.Secret, "response": s, "sitekey": ""}} }},
	} {
		c := test.call(p.Token(key, siteOrigin))
		c.Path = compatPath + c.Path
		check(t, test.name, p.compatCall(t, c), success(noon))
	}
}

// TestCompatCodes goes through the contract's list of error codes (captcha contract, section 7).
func TestCompatCodes(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		account := p.Account("a", model.CaptchaPlanFree)
		key, other := p.Sitekey(account), p.Sitekey(account)
		token := p.Token(key, siteOrigin)

		ask := func(fields m) call { return call{Body: fields} }
		for _, test := range []struct {
			name string
			call call
			want string
		}{
			{"missing-input-secret", ask(m{"response": token}), refused("missing-input-secret")},
			{"missing-input-secret: null", ask(m{"response": token, "secret": nil}), refused("missing-input-secret")},
			{"missing-input-response", ask(m{"secret": key.Secret}), refused("missing-input-response")},
			{"missing-input-response: empty", ask(m{"secret": key.Secret, "response": ""}), refused("missing-input-response")},
			{"both missing", call{Body: ""}, `{"success":false,"error-codes":["missing-input-secret","missing-input-response"]}`},
			{"both missing, GET", call{Method: "GET"}, `{"success":false,"error-codes":["missing-input-secret","missing-input-response"]}`},
			{"invalid-input-secret", ask(m{"secret": "x", "response": token}), refused("invalid-input-secret")},
			{
				name: "invalid-input-secret: unknown",
				call: ask(m{"secret": model.NewSecret(model.CaptchaSecretPrefix), "response": token}),
				want: refused("invalid-input-secret"),
			},
			{"invalid-input-secret: a sitekey", ask(m{"secret": key.Sitekey.Sitekey, "response": token}), refused("invalid-input-secret")},
			{"invalid-input-secret comes before the response", ask(m{"secret": "x", "response": "x"}), refused("invalid-input-secret")},
			{"invalid-input-response", ask(m{"secret": key.Secret, "response": "x"}), refused("invalid-input-response")},
			{"invalid-input-response: null", ask(m{"secret": key.Secret, "response": "null"}), refused("invalid-input-response")},
			{"invalid-input-response: undefined", ask(m{"secret": key.Secret, "response": "undefined"}), refused("invalid-input-response")},
			{"invalid-input-response: altered", ask(m{"secret": key.Secret, "response": token[:len(token)-1]}), refused("invalid-input-response")},
			{"invalid-input-response: long", ask(m{"secret": key.Secret, "response": strings.Repeat("A", 4_000)}), refused("invalid-input-response")},
			{
				name: "invalid-input-response: another sitekey's secret",
				call: ask(m{"secret": other.Secret, "response": token}), want: refused("invalid-input-response"),
			},
			{
				name: "invalid-input-response: the test secret",
				call: ask(m{"secret": model.TestSitekeySecret, "response": token}),
				want: refused("invalid-input-response"),
			},
			{
				name: "invalid-input-response: another sitekey",
				call: ask(m{"secret": key.Secret, "response": token, "sitekey": other.Sitekey.Sitekey}),
				want: refused("invalid-input-response"),
			},
			{"invalid-input-response: another sitekey, by an encoded name",
				call{
					Type: formType,
					Body: "secret=" + key.Secret + "&response=" + token + "&site%6bey=" + other.Sitekey.Sitekey,
				}, refused("invalid-input-response")},
			{
				name: "bad-request: a sitekey that is a list",
				call: ask(m{"secret": key.Secret, "response": token, "sitekey": []any{other.Sitekey.Sitekey}}),
				want: refused("bad-request"),
			},
			{"bad-request: a sitekey that is a number", ask(m{"secret": key.Secret, "response": token, "sitekey": 5}), refused("bad-request")},
			{"bad-request: a sitekey that is an object", ask(m{"secret": key.Secret, "response": token, "sitekey": m{}}), refused("bad-request")},
			{"bad-request: a sitekey that is false", ask(m{"secret": key.Secret, "response": token, "sitekey": false}), refused("bad-request")},
			{"bad-request: a sitekey badly encoded",
				call{Type: formType, Body: "secret=" + key.Secret + "&response=" + token + "&sitekey=%zz"}, refused("bad-request")},
			{"bad-request: a sitekey badly encoded, then a good one",
				call{
					Type: formType,
					Body: "secret=" + key.Secret + "&response=" + token + "&sitekey=%zz&sitekey=" + key.Sitekey.Sitekey,
				}, refused("bad-request")},
			{"bad-request: a sitekey badly encoded in the query",
				call{Path: "?sitekey=%zz", Body: m{"secret": key.Secret, "response": token}}, refused("bad-request")},
			{"bad-request: a list in the body, a good sitekey in the query",
				call{
					Path: "?sitekey=" + key.Sitekey.Sitekey,
					Body: m{"secret": key.Secret, "response": token, "sitekey": []any{}},
				}, refused("bad-request")},
			{"bad-request: cut off", call{Body: `{"secret":`}, refused("bad-request")},
			{"bad-request: array", call{Body: `[]`}, refused("bad-request")},
			{"bad-request: a key twice", call{Body: `{"secret":"a","secret":"b"}`}, refused("bad-request")},
			{
				name: "bad-request: larger than 8 KB",
				call: ask(m{"secret": key.Secret, "response": token, "x": strings.Repeat("x", 8_200)}),
				want: refused("bad-request"),
			},
			{"bad-request: multipart without its boundary", call{Type: "multipart/form-data", Body: "--x\r\n"}, refused("bad-request")},
			{"bad-request: PUT", call{Method: "PUT", Body: m{"secret": key.Secret, "response": token}}, refused("bad-request")},
			{"bad-request: OPTIONS", call{Method: "OPTIONS"}, refused("bad-request")},
		} {
			test.call.Path = compatPath + test.call.Path
			check(t, test.name, p.compatCall(t, test.call), test.want)
		}

		check(t, "the token after all that", p.Compat(key, token), success(noon))
		check(t, "timeout-or-duplicate: duplicate", p.Compat(key, token), refused("timeout-or-duplicate"))
		old := p.Token(key, siteOrigin)
		p.Clock.Add(5 * time.Minute)
		check(t, "timeout-or-duplicate: timeout", p.Compat(key, old), refused("timeout-or-duplicate"))
		p.setUsage(account, 11_000)
		check(t, "quota-exceeded", p.Compat(key, p.Token(key, siteOrigin)), refused("quota-exceeded"))
		p.setUsage(account, 0)
		check(t, "hostname of a page without Origin", p.Compat(key, p.Token(key, "")),
			`{"success":true,"challenge_ts":"2026-11-20T12:05:00.000Z","hostname":""}`)
	})
}

// TestTestCredentials checks that the test credentials work on any domain, never count and use real
// work, and that their tokens are valid once like others (captcha contract, section 5).
func TestTestCredentials(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		real := p.Sitekey(p.Account("a", model.CaptchaPlanFree))

		if !model.IsSitekey(model.TestSitekey) || !model.IsSecret(model.CaptchaSecretPrefix, model.TestSitekeySecret) {
			t.Error("the test credentials have not the form of others")
		}

		for _, origin := range []string{"https://example.org", "http://localhost:3000", "null", ""} {
			token := p.Token(planetest.TestSitekey, origin)
			check(t, origin, p.Siteverify(planetest.TestSitekey, token), valid)
			check(t, origin+" again", p.Siteverify(planetest.TestSitekey, token), invalid)
		}

		work := p.Solved(planetest.TestSitekey, "")
		p.refusal(t, "no work", call{Path: verifyPath, Body: with(work, m{"nonce": 1})}, 400)

		if response, body := p.Send(call{Path: verifyPath, Body: work}); response.StatusCode != 200 {
			t.Errorf("work: %d %s", response.StatusCode, body)
		}

		p.refusal(t, "the same work", call{Path: verifyPath, Body: work}, 400)
		check(t, "test token for a real secret", p.Compat(real, p.Token(planetest.TestSitekey, "")), refused("invalid-input-response"))
		check(t, "test token by the compatible endpoint", p.Compat(planetest.TestSitekey, p.Token(planetest.TestSitekey, siteOrigin)), success(noon))

		dbtest.HasRows(t, p.DB, "captcha_usage", 0, "rows of usage")
	})
}
