package analytics_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// serverCall posts a server-side event and returns status and body.
func (p *plane) serverCall(method, authorization, body string) (int, string) {
	p.TB.Helper()

	c := call{Method: method, Path: "/server.php", Body: body}
	if authorization != "" {
		c.Header = http.Header{"Authorization": {authorization}}
	}

	response, text := p.Send(c)
	if response.Header.Get("Set-Cookie") != "" {
		p.TB.Error("a cookie is set")
	}

	return response.StatusCode, text
}

// TestServer goes through the server endpoint's fields and errors (analytics contract, sections 4
// and 7).
func TestServer(t *testing.T) {
	t.Parallel()
	const recorded = `{"status":"recorded"}`
	code := func(code string) string { return `{"error":"` + code + `"}` }
	badField := func(field string) string { return `{"error":"bad_event","field":"` + field + `"}` }
	ignored := func(reason string) string { return `{"status":"ignored","reason":"` + reason + `"}` }
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		site, plain := p.shop("shop.example"), p.site("plain.example", quota)
		bearer := "Bearer " + p.secret(site)
		plainBearer := "Bearer " + p.secret(plain)
		good := m{"event": "signup", "ip": "203.0.113.1", "user_agent": chrome}
		with := func(fields m) string {
			all := maps.Clone(good)
			maps.Copy(all, fields)
			return mustJSON(t, all)
		}

		purchase := m{"transaction_id": "S1", "value": raw("12.50"), "currency": "EUR"}
		refund := m{"transaction_id": "S1-back", "value": raw("12.50"), "currency": "EUR"}
		for _, test := range []struct {
			name          string
			method        string
			authorization string
			body          string
			status        int
			want          string
		}{
			{"an event", "POST", bearer, with(nil), 200, recorded},
			{
				name: "all fields", method: "POST", authorization: bearer,
				body: with(m{"path": "/a?b", "referrer": "https://news.test/", "campaign": m{"source": "x"}, "meta": m{"plan": "pro"},
					"user_id": strings.Repeat("ab", 32)}),
				status: 200, want: recorded,
			},
			{"unknown fields", "POST", bearer, with(m{"foo": m{"bar": 1}}), 200, recorded},
			{"scheme in lower case", "POST", "bearer" + bearer[6:], with(nil), 200, recorded},
			{"GET", "GET", bearer, "", 405, code("method_not_allowed")},
			{"OPTIONS", "OPTIONS", bearer, "", 405, code("method_not_allowed")},
			{"no secret", "POST", "", with(nil), 401, code("missing_secret")},
			{"an empty secret", "POST", "Bearer ", with(nil), 401, code("missing_secret")},
			{"another scheme", "POST", "Basic dXNlcjpwYXNz", with(nil), 401, code("missing_secret")},
			{"unknown secret", "POST", "Bearer " + model.NewSecret("svcs_"), with(nil), 401, code("invalid_secret")},
			{"a secret with a typo", "POST", bearer[:len(bearer)-1] + "!", with(nil), 401, code("invalid_secret")},
			{"a site key", "POST", "Bearer " + site.SiteKey, with(nil), 401, code("invalid_secret")},
			{"the secret comes before the body", "POST", "Bearer x", "", 401, code("invalid_secret")},
			{"empty body", "POST", bearer, "", 400, code("bad_body")},
			{"8 KB and a byte", "POST", bearer, with(m{"x": strings.Repeat("x", 8193)}), 400, code("bad_body")},
			{"no JSON", "POST", bearer, "event=signup", 400, code("bad_json")},
			{"an array", "POST", bearer, "[]", 400, code("bad_json")},
			{"no ip", "POST", bearer, with(m{"ip": nil}), 400, code("visitor_required")},
			{"an ip that is none", "POST", bearer, with(m{"ip": "203.0.113"}), 400, code("visitor_required")},
			{"a number for an ip", "POST", bearer, with(m{"ip": 7}), 400, code("visitor_required")},
			{"an ip with a zone", "POST", bearer, with(m{"ip": "fe80::1%eth0"}), 400, code("visitor_required")},
			{"an ip with a newline", "POST", bearer, with(m{"ip": "203.0.113.1\n"}), 400, code("visitor_required")},
			{"an ip with a newline within", "POST", bearer, with(m{"ip": "203.0\n.113.1"}), 400, code("visitor_required")},
			{
				name: "an ip with blanks and text behind it", method: "POST", authorization: bearer,
				body: with(m{"ip": "203.0.113.9" + strings.Repeat(" ", 60) + "garbage"}), status: 400,
				want: code("visitor_required"),
			},
			{"an ip with NUL", "POST", bearer, with(m{"ip": "203.0.113.1\x00"}), 400, code("visitor_required")},
			{"an ip with a space", "POST", bearer, with(m{"ip": " 203.0.113.1"}), 400, code("visitor_required")},
			{"no user agent", "POST", bearer, with(m{"user_agent": " "}), 400, code("visitor_required")},
			{"an event name with a newline", "POST", bearer, with(m{"event": "sig\nnup"}), 400, code("bad_event")},
			{"an event name with a newline at its end", "POST", bearer, with(m{"event": "signup\n"}), 400, code("bad_event")},
			{"an event name with NUL", "POST", bearer, with(m{"event": "signup\x00"}), 400, code("bad_event")},
			{"a key twice", "POST", bearer, `{"event":"signup",` + with(nil)[1:], 400, code("bad_json")},
			{"a key twice within meta", "POST", bearer, with(m{"meta": raw(`{"a":1,"a":2}`)}), 200, recorded},
			{"no event", "POST", bearer, with(m{"event": nil}), 400, code("bad_event")},
			{"an event name that is none", "POST", bearer, with(m{"event": "Sign up"}), 400, code("bad_event")},
			{"an event that is not registered", "POST", bearer, with(m{"event": "login"}), 400, code("unknown_event")},
			{"a page view", "POST", bearer, with(m{"event": "pageview"}), 400, code("unknown_event")},
			{"e-commerce where it is not measured", "POST", plainBearer, with(m{"event": "purchase", "meta": purchase}), 400, code("unknown_event")},
			{
				name: "search where it is not measured", method: "POST", authorization: plainBearer,
				body: with(m{"event": "site_search", "meta": m{"term": "x"}}), status: 400, want: code("unknown_event"),
			},
			{
				name: "purchase without currency", method: "POST", authorization: bearer,
				body: with(m{"event": "purchase", "meta": m{"transaction_id": "S1", "value": 1}}), status: 400,
				want: badField("currency"),
			},
			{
				name: "purchase with a text for its value", method: "POST", authorization: bearer,
				body:   with(m{"event": "purchase", "meta": m{"transaction_id": "S1", "value": "12.50", "currency": "EUR"}}),
				status: 400, want: badField("value"),
			},
			{"purchase with numbers for ids and unreadable details", "POST", bearer,
				with(m{
					"event": "purchase",
					"meta":  m{"transaction_id": 1001, "value": 1, "currency": "EUR", "items": []any{m{"item_id": 5, "quantity": 1.5}, 7}},
				}), 200, recorded},
			{"purchase with the number as text", "POST", bearer,
				with(m{
					"event": "purchase", "meta": m{"transaction_id": "1001", "value": 1, "currency": "EUR"},
				}), 200, ignored("duplicate_transaction")},
			{
				name: "a link to the own domain", method: "POST", authorization: bearer,
				body: with(m{"event": "outbound_click", "meta": m{"host": "https://shop.example/"}}), status: 200,
				want: ignored("own_link"),
			},
			{
				name: "a link to another domain", method: "POST", authorization: bearer,
				body: with(m{"event": "outbound_click", "meta": m{"host": "https://other.example/x"}}), status: 200,
				want: recorded,
			},
			{"purchase", "POST", bearer, with(m{"event": "purchase", "meta": purchase}), 200, recorded},
			{"purchase again", "POST", bearer, with(m{"event": "purchase", "meta": purchase}), 200, ignored("duplicate_transaction")},
			{"refund", "POST", bearer, with(m{"event": "refund", "meta": refund}), 200, recorded},
			{"purchase under a refund's id", "POST", bearer, with(m{"event": "purchase", "meta": refund}), 200, ignored("duplicate_transaction")},
			{"refund under a purchase's id", "POST", bearer, with(m{"event": "refund", "meta": purchase}), 400, code("bad_event")},
			{"a bot", "POST", bearer, with(m{"user_agent": "Googlebot/2.1 (+http://www.google.com/bot.html)"}), 200, ignored("bot")},
			{"an excluded address", "POST", bearer, with(m{"ip": "192.0.2.7"}), 200, ignored("excluded_address")},
			{"IPv6", "POST", bearer, with(m{"ip": "2001:DB9::1"}), 200, recorded},
			{"a path that is none", "POST", bearer, with(m{"path": "about"}), 200, recorded},
		} {
			t.Run(test.name, func(t *testing.T) {
				if status, body := p.serverCall(test.method, test.authorization, test.body); status != test.status || body != test.want {
					t.Errorf("got %d %s, want %d %s", status, body, test.status, test.want)
				}
			})
		}

		p.Rejected(site, map[string]int64{"server bad_body": 2, "server bad_json": 3, "server visitor_required": 10, "server bad_event": 8,
			"server unknown_event": 2, "server duplicate_transaction": 3, "server bot": 1, "server excluded_address": 1, "server own_link": 1})

		for _, e := range p.Events(site) {
			if e.Path != "/" && e.Path != "/a" {
				t.Errorf("path %q, want the default / or the one sent", e.Path)
			}
			if e.Name == "outbound_click" && e.Properties != `{"host":"other.example"}` {
				t.Errorf("outbound click with %s, want the host only", e.Properties)
			}
		}
	})
}

// TestServerTiesToTheBrowsersVisit checks that an event joins the visit of the browser with the
// same address and user agent on that day (section 4).
func TestServerTiesToTheBrowsersVisit(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		bearer := "Bearer " + p.secret(site)
		p.View(site, "203.0.113.77", m{"u": m{"source": "newsletter", "medium": "email"}})

		for ip, same := range map[string]bool{"203.0.113.77": true, "::ffff:203.0.113.77": true, "203.0.113.78": false} {
			before := len(p.Events(site))

			if status, body := p.serverCall("POST", bearer, mustJSON(t, m{"event": "signup", "ip": ip, "user_agent": " " + chrome})); status != 200 {
				t.Fatalf("%s: %d %s", ip, status, body)
			}

			e := p.Events(site)[before]
			if got := e.Visit.ID() == p.Views(site)[0].Visit.ID(); got != same || (e.Channel == "email") != same {
				t.Errorf("%s: in the browser's visit %v, channel %s; want %v", ip, got, e.Channel, same)
			}
		}
	})
}

// TestServerPrivateAddress checks that an event with an address that no visitor has is recorded,
// and counted as a hint for the owner: a server behind a badly configured proxy sends the proxy's
// address for all visitors. Events that are not recorded are counted for their own reason only.
func TestServerPrivateAddress(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		bearer := "Bearer " + p.secret(site)
		private := strings.Fields("10.0.0.5 172.16.0.1 192.168.1.9 127.0.0.1 169.254.1.1 0.0.0.0 ::1 :: fe80::1 fd00::1 ::ffff:10.0.0.5")
		public := strings.Fields("203.0.113.9 172.32.0.1 100.64.0.1 2001:db9::1")

		for _, ip := range append(private, public...) {
			body := mustJSON(t, m{"event": "signup", "ip": ip, "user_agent": chrome})
			if status, answer := p.serverCall("POST", bearer, body); status != 200 || answer != `{"status":"recorded"}` {
				t.Errorf("%s: %d %s, want it recorded", ip, status, answer)
			}
		}
		for _, fields := range []m{{"event": "login"}, {"user_agent": "Googlebot/2.1 (+http://www.google.com/bot.html)"}} {
			all := m{"event": "signup", "ip": "10.0.0.5", "user_agent": chrome}
			maps.Copy(all, fields)
			p.serverCall("POST", bearer, mustJSON(t, all))
		}

		testkit.Equal(t, len(p.Events(site)), len(private)+len(public), "events")
		p.Rejected(site, map[string]int64{"server private_ip": int64(len(private)), "server unknown_event": 1, "server bot": 1})
	})
}

// TestServerUserIDInUpperCase checks that an id is the same one in upper case, in which some
// languages write hexadecimal numbers, and in lower case, in which the script sends it.
func TestServerUserIDInUpperCase(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		bearer, id := "Bearer "+p.secret(site), strings.Repeat("ab", 32)

		p.View(site, "203.0.113.77", m{"d": id})
		body := mustJSON(t, m{"event": "signup", "ip": "203.0.113.78", "user_agent": chrome, "user_id": strings.ToUpper(id)})
		if status, answer := p.serverCall("POST", bearer, body); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}

		if view, event := p.Views(site)[0], p.Events(site)[0]; len(event.UserID) == 0 || !bytes.Equal(event.UserID, view.UserID) {
			t.Errorf("user id %x of the server's event, %x of the browser's page view; want the same", event.UserID, view.UserID)
		}
	})
}

// TestServerSecretReplaced checks that a new key replaces the old one at once, and that a removed
// one is refused.
func TestServerSecretReplaced(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		body := mustJSON(t, m{"event": "signup", "ip": "203.0.113.1", "user_agent": chrome})
		status := func(secret string) int {
			status, _ := p.serverCall("POST", "Bearer "+secret, body)
			return status
		}

		old := p.secret(site)
		testkit.Require(t, status(old), 200, "the first key")

		fresh := p.secret(site)
		p.Await("the old key's end", func() bool { return status(old) == 401 })

		testkit.Equal(t, status(fresh), 200, "the new key")
		testkit.NoError(t, sites.New(p.DB).Sites.RevokeServerSecret(t.Context(), site.AccountID, site.ID))

		p.Await("the removed key's end", func() bool { return status(fresh) == 401 })
	})
}

// TestOldServerSecret checks that a replaced key is valid until exactly the chosen time, in a
// process that has it in its cache, and that at most one old key is.
func TestOldServerSecret(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		changing := dbtest.Open(t, databaseURL)

		// Another process serves. On SQLite it reads the changes from their table.
		p := newPlane(t, dbtest.Open(t, databaseURL))
		site := p.shop("shop.example")
		body := mustJSON(t, m{"event": "signup", "ip": "203.0.113.1", "user_agent": chrome})
		status := func(secret string) int {
			status, _ := p.serverCall("POST", "Bearer "+secret, body)
			return status
		}

		// rotate keeps the current key for a time.
		rotate := func(keep time.Duration) string {
			t.Helper()

			secret, until := model.NewSecret("svcs_"), model.Instant(0)
			if keep > 0 {
				until = model.At(p.Clock.Now().Add(keep))
			}

			_, err := sites.New(changing).Sites.ReplaceServerSecret(t.Context(), site.AccountID, site.ID, model.HashToken(secret),
				model.SecretHint(secret), until)
			testkit.NoError(t, err)

			return secret
		}

		first := rotate(24 * time.Hour)
		p.Await("the first key", func() bool { return status(first) == 200 })
		second := rotate(24 * time.Hour)
		p.Await("the second key", func() bool { return status(second) == 200 })
		testkit.Equal(t, status(first), 200, "the old key")

		// Both keys are in the cache when the old one expires.
		p.Clock.Set(noon.Add(24*time.Hour - time.Microsecond))
		testkit.Equal(t, [2]int{status(first), status(second)}, [2]int{200, 200}, "just before the end")
		p.Clock.Set(noon.Add(24 * time.Hour))
		testkit.Equal(t, [2]int{status(first), status(second)}, [2]int{401, 200}, "at the end")

		third := rotate(7 * 24 * time.Hour)
		p.Await("the third key", func() bool { return status(third) == 200 && status(second) == 200 })
		fourth := rotate(7 * 24 * time.Hour)
		p.Await("the second key's end", func() bool { return status(second) == 401 })
		testkit.Equal(t, [2]int{status(third), status(fourth)}, [2]int{200, 200}, "after another rotation")

		testkit.NoError(t, sites.New(changing).Sites.RevokeOldServerSecret(t.Context(), site.AccountID, site.ID))
		p.Await("the third key's end", func() bool { return status(third) == 401 })
		testkit.Equal(t, status(fourth), 200, "the current key")

		fifth := rotate(time.Hour)
		p.Await("the fifth key", func() bool { return status(fifth) == 200 })
		testkit.NoError(t, sites.New(changing).Sites.RevokeServerSecret(t.Context(), site.AccountID, site.ID))
		p.Await("the end of both keys", func() bool { return status(fourth) == 401 && status(fifth) == 401 })
	})
}

// TestServerQuota checks that server-side events count against the quota.
func TestServerQuota(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("example.com", 2)
		testkit.NoError(t, sites.New(p.DB).Sites.RegisterEvent(t.Context(), site.AccountID, site.ID, "signup"))

		bearer := "Bearer " + p.secret(site)
		body := mustJSON(t, m{"event": "signup", "ip": "203.0.113.1", "user_agent": chrome})
		for i, want := range []string{"200 recorded", "200 recorded", "429 quota_exceeded"} {
			status, answer := p.serverCall("POST", bearer, body)
			if got := fmt.Sprint(status); !strings.HasPrefix(want, got) || !strings.Contains(answer, want[4:]) {
				t.Errorf("call %d: %d %s, want %s", i+1, status, answer, want)
			}
		}
	})
}
