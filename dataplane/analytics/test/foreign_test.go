package analytics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
	"github.com/tallygate/tallygate/web"
)

// collectionPaths are the collection paths of other products.
var collectionPaths = []string{"/api/event", "/api/send", "/api/batch", "/count", "/matomo.php", "/piwik.php"}

// umamiBody returns the body of Umami's code with members of its payload.
func umamiBody(site *model.Site, members m) m {
	payload := m{"website": site.SiteKey, "hostname": site.Domain, "title": "A title", "url": "/"}
	for key, value := range members {
		payload[key] = value
	}
	return m{"type": "event", "payload": payload}
}

// plausibleBody returns the body of Plausible's code for a page of the site, with further members.
func plausibleBody(site *model.Site, page string, members m) m {
	body := m{"n": "pageview", "d": site.Domain + "," + site.SiteKey, "u": "https://" + site.Domain + page}
	for key, value := range members {
		body[key] = value
	}
	return body
}

// foreignCall returns the call of another product's code on the site's pages.
func foreignCall(site *model.Site, path string, body any) call {
	return call{Path: path, Body: body, Origin: "https://" + site.Domain}
}

// TestForeignRows checks that a call of another product's code stores the row that the same call of
// /collect.php stores.
func TestForeignRows(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		ours, theirs := p.shop("ours.example"), p.shop("theirs.example")
		id := strings.Repeat("0f", 32)

		for _, test := range []struct {
			ours   m
			path   string
			body   any
			status int
			answer string
		}{
			{ours: m{"p": "/a", "r": "https://x.test/y", "w": 1920, "l": "de-DE", "d": id, "u": m{"source": "news", "gclid": "G"}},
				path: "/api/send", status: 200, answer: "{}",
				body: umamiBody(theirs, m{"url": "/a?utm_source=News&gclid=G&q=1#f", "referrer": "https://x.test/y?q#f", "screen": "1920x1080",
					"language": "de-DE", "id": id})},
			{ours: m{"p": "/b", "r": "https://x.test/y", "w": 390, "u": m{"medium": "email"}},
				path: "/api/event", status: 202, answer: "ok",
				body: plausibleBody(theirs, "/b?utm_medium=Email#f", m{"r": "https://x.test/y?q", "w": 390})},
			{ours: m{"p": "/route"}, path: "/api/event", status: 202, answer: "ok",
				body: plausibleBody(theirs, "/#/route?x", m{"h": 1})},
			{ours: m{"p": "/b", "t": "event", "e": "signup", "m": m{"plan": "pro"}}, path: "/api/send", status: 200, answer: "{}",
				body: umamiBody(theirs, m{"url": "/b?x", "name": "Signup", "data": m{"plan": "pro"}})},
			{ours: m{"p": "/b", "t": "event", "e": "signup", "m": m{"plan": "pro"}}, path: "/api/event", status: 202, answer: "ok",
				body: plausibleBody(theirs, "/b", m{"n": "Signup!", "p": `{"plan":"pro"}`})},
			{ours: m{"p": "/b", "t": "event", "e": "purchase", "m": m{"transaction_id": "T", "value": 1.5, "currency": "EUR"}},
				path: "/api/event", status: 202, answer: "ok",
				body: plausibleBody(theirs, "/b", m{"n": "purchase", "p": m{"transaction_id": "T"}, "$": m{"amount": "1.5", "currency": "EUR"}})},
			{ours: m{"p": "/b", "t": "event", "e": "outbound_click", "m": m{"host": "x.test"}}, path: "/api/event", status: 202, answer: "ok",
				body: plausibleBody(theirs, "/b", m{"n": "Outbound Link: Click", "p": m{"url": "https://x.test/y?q"}})},

			// A message of ours is handled as by /collect.php on each path.
			{ours: m{"p": "/c", "x": 1}, path: "/api/event", status: 204, body: m{"k": theirs.SiteKey, "t": "pageview", "p": "/c", "x": 1}},
			{ours: m{"p": "/d"}, path: "/api/send", status: 204, body: m{"k": theirs.SiteKey, "t": "pageview", "p": "/d"}},
			{ours: m{"p": "/e"}, path: "/api/batch", status: 204, body: m{"k": theirs.SiteKey, "t": "pageview", "p": "/e"}},
			{ours: m{"p": "/f"}, path: "/" + theirs.SiteKey + "/count", status: 204, body: m{"t": "pageview", "p": "/f"}},
			{ours: m{"p": "/g"}, path: "/matomo.php", status: 204, body: m{"k": theirs.SiteKey, "t": "pageview", "p": "/g"}},
			{ours: m{"p": "/h"}, path: "/" + theirs.SiteKey + "/piwik.php", status: 204, body: m{"k": "x", "t": "pageview", "p": "/h"}},
		} {
			p.Clock.Add(time.Minute)
			if status, code := p.Collect(viewCall(ours, "", test.ours)); status != 204 {
				t.Fatalf("%v: %d %s", test.ours, status, code)
			}
			response, answer := p.Send(foreignCall(theirs, test.path, test.body))
			if response.StatusCode != test.status || answer != test.answer {
				t.Errorf("%s %v: %d %s, want %d %s", test.path, test.body, response.StatusCode, answer, test.status, test.answer)
			}
			if allowed := response.Header.Get("Access-Control-Allow-Origin"); allowed != "https://theirs.example" {
				t.Errorf("%s: origin %q is allowed", test.path, allowed)
			}
		}

		views, events := p.Views(theirs), p.Events(theirs)
		if len(views) != 9 || len(events) != 4 {
			t.Fatalf("%d page views and %d events, want 9 and 4", len(views), len(events))
		}
		for i, want := range p.Views(ours) {
			views[i].At, views[i].ID, want.ID = want.At, 0, 0
			if !sameButForSite(&views[i].Visit, &want.Visit) || !reflect.DeepEqual(views[i], want) {
				t.Errorf("page view\n%+v\nwant\n%+v", views[i], want)
			}
		}
		for i, want := range p.Events(ours) {
			events[i].At, events[i].ID, want.ID = want.At, 0, 0
			if !sameButForSite(&events[i].Visit, &want.Visit) || !reflect.DeepEqual(events[i], want) {
				t.Errorf("event\n%+v\nwant\n%+v", events[i], want)
			}
		}
		p.Rejected(theirs, map[string]int64{})
	})
}

// sameButForSite makes equal what differs by site and by the time of a call. It reports whether both
// visits have a user id, or neither.
func sameButForSite(got, want *exports.Visit) bool {
	isSame := len(got.UserID) == len(want.UserID)
	got.Visitor, got.UserID, got.StartedAt, got.LastPageviewAt = want.Visitor, want.UserID, want.StartedAt, want.LastPageviewAt
	return isSame
}

// TestForeignErrors checks the answers to calls that store nothing, and their counters.
func TestForeignErrors(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		view, visit := umamiBody(site, nil), plausibleBody(site, "/", nil)
		anonymous := m{"n": "pageview", "u": "https://shop.example/", "d": "shop.example"}
		large := strings.Repeat("x", 9_000)
		noItem := umamiBody(site, m{"name": "view_item", "data": m{"item_id": ""}})
		noKind := m{"k": site.SiteKey, "t": "nope", "n": "pageview", "u": "https://shop.example/"}
		to := func(path string, body any) call { return foreignCall(site, path, body) }

		for name, test := range map[string]struct {
			call   call
			status int
			answer string
		}{
			"umami, another domain":     {call{Path: "/api/send", Body: view, Origin: "https://other.example"}, 403, `{"error":"domain_not_allowed"}`},
			"umami, a server":           {call{Path: "/api/send", Body: view}, 403, `{"error":"domain_not_allowed"}`},
			"umami, unknown key":        {to("/api/send", umamiBody(site, m{"website": model.NewSiteKey()})), 404, `{"error":"unknown_site_key"}`},
			"umami, another id":         {to("/api/send", umamiBody(site, m{"website": 7})), 404, `{"error":"unknown_site_key"}`},
			"umami, unknown event":      {to("/api/send", umamiBody(site, m{"name": "Secret Offer"})), 400, `{"error":"unknown_event"}`},
			"umami, bad purchase":       {to("/api/send", noItem), 400, `{"error":"bad_event","field":"item_id"}`},
			"umami, no path":            {to("/api/send", umamiBody(site, m{"url": nil})), 400, `{"error":"bad_path"}`},
			"umami, no kind":            {to("/api/send", m{"payload": view["payload"]}), 400, `{"error":"bad_json"}`},
			"umami, too large":          {to("/api/send", umamiBody(site, m{"title": large})), 400, `{"error":"bad_body"}`},
			"umami, empty":              {to("/api/send", ""), 400, `{"error":"bad_body"}`},
			"umami, identify":           {to("/api/send", m{"type": "identify", "payload": view["payload"]}), 200, `{}`},
			"umami, bot":                {call{Path: "/api/send", Body: view, Origin: "https://shop.example", Agent: "Googlebot/2.1"}, 200, `{"beep":"boop"}`},
			"umami, GET":                {call{Method: "GET", Path: "/api/send", Origin: "https://shop.example"}, 405, `{"error":"method_not_allowed"}`},
			"plausible, no key":         {to("/api/event", anonymous), 404, `{"error":"unknown_site_key"}`},
			"plausible, key in path":    {to("/"+site.SiteKey+"/api/event", anonymous), 202, "ok"},
			"plausible, other path key": {to("/"+model.NewSiteKey()+"/api/event", visit), 404, `{"error":"unknown_site_key"}`},
			"plausible, engagement":     {to("/api/event", plausibleBody(site, "/", m{"n": "engagement"})), 202, "ok"},
			"plausible, bot":            {call{Path: "/api/event", Body: visit, Origin: "https://shop.example", Agent: "Googlebot/2.1"}, 202, "ok"},
			"plausible, another domain": {call{Path: "/api/event", Body: visit, Origin: "https://other.example"}, 403, `{"error":"domain_not_allowed"}`},
			"plausible, ours, bad t":    {to("/api/event", noKind), 400, `{"error":"bad_json"}`},
			"goatcounter, theirs":       {to("/count", m{"p": "/x"}), 400, `{"error":"bad_json"}`},
			"goatcounter, pixel":        {call{Method: "GET", Path: "/count?p=/x", Origin: "https://shop.example"}, 405, `{"error":"method_not_allowed"}`},
			"matomo, theirs":            {to("/matomo.php", "idsite=1&url=https%3A%2F%2Fshop.example%2F"), 400, `{"error":"bad_json"}`},
			"a folder that is no key":   {to("/shop/api/event", visit), 404, `{"error":"not_found"}`},
			"a key in capitals":         {to("/ABCDEF"+site.SiteKey[6:]+"/api/event", visit), 404, `{"error":"not_found"}`},
			"a key and nothing":         {to("/"+site.SiteKey+"/collect.php", visit), 404, `{"error":"not_found"}`},
		} {
			response, answer := p.Send(test.call)
			if response.StatusCode != test.status || answer != test.answer {
				t.Errorf("%s: %d %s, want %d %s", name, response.StatusCode, answer, test.status, test.answer)
			}
		}

		if views := p.Views(site); len(views) != 1 || len(p.Events(site)) != 0 {
			t.Errorf("%d page views and events %+v", len(views), p.Events(site))
		}
		// Without a site key in a readable part of the body a call counts for no site.
		p.Rejected(site, map[string]int64{"collect domain_not_allowed": 3, "collect unknown_event": 1, "collect bad_event": 1, "collect bad_path": 1,
			"collect bad_json": 2, "collect bot": 2})
	})
}

// TestForeignQuota checks that page views of another product's code count, and are refused beyond
// the quota.
func TestForeignQuota(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.site("shop.example", 2)
		for i, want := range []int{200, 200, 429} {
			if response, answer := p.Send(foreignCall(site, "/api/send", umamiBody(site, nil))); response.StatusCode != want {
				t.Errorf("page view %d: %d %s, want %d", i, response.StatusCode, answer, want)
			}
		}
	})
}

// TestUmamiBatch checks that a refused message of a batch does not refuse the others.
func TestUmamiBatch(t *testing.T) {
	eachPlane(t, func(t *testing.T, p *plane) {
		site := p.shop("shop.example")
		unknown, signup := umamiBody(site, m{"name": "nope"}), umamiBody(site, m{"name": "signup"})

		response, answer := p.Send(foreignCall(site, "/api/batch", []any{umamiBody(site, m{"url": "/a?x"}), unknown, 7, signup}))
		const want = `{"size":4,"processed":2,"errors":2,"details":[` +
			`{"index":1,"response":{"error":"unknown_event"}},{"index":2,"response":{"error":"bad_json"}}]}`
		if response.StatusCode != 200 || answer != want {
			t.Errorf("%d %s, want 200 %s", response.StatusCode, answer, want)
		}

		for body, want := range map[string]string{
			mustJSON(t, []any{unknown, 7}): "unknown_event", mustJSON(t, []any{7, unknown}): "bad_json", "[]": "bad_json", "{}": "bad_json",
			mustJSON(t, []any{signup})[1:]: "bad_json", mustJSON(t, []any{signup, strings.Repeat("x", 9_000)}): "bad_body",
		} {
			if response, answer := p.Send(foreignCall(site, "/api/batch", body)); response.StatusCode != 400 || answer != `{"error":"`+want+`"}` {
				t.Errorf("%.60s: %d %s, want %s", body, response.StatusCode, answer, want)
			}
		}

		views, events := p.Views(site), p.Events(site)
		if len(views) != 1 || views[0].Path != "/a" || len(events) != 1 || events[0].Visit.N != views[0].Visit.N {
			t.Errorf("page views %+v, events %+v", views, events)
		}
	})
}

// TestForeignPreflight checks that the pages of every origin may send the header of Umami's code,
// without credentials.
func TestForeignPreflight(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	for _, folder := range []string{"", "/" + model.NewSiteKey()} {
		for _, path := range collectionPaths {
			response, _ := p.Send(call{Method: http.MethodOptions, Path: folder + path, Origin: "https://any.example",
				Header: http.Header{"Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type,x-umami-cache"}}})
			header := response.Header
			headers := "Content-Type"
			if strings.HasPrefix(path, "/api/") {
				headers = "Content-Type, X-Umami-Cache"
			}

			if response.StatusCode != 204 || header.Get("Access-Control-Allow-Origin") != "https://any.example" ||
				header.Get("Access-Control-Allow-Headers") != headers || header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s: %d %v", folder+path, response.StatusCode, header)
			}
		}
	}
}

// TestForeignSecrets checks that nothing of a query, a fragment or a title gets into rows, logs,
// counters or metrics.
func TestForeignSecrets(t *testing.T) {
	t.Parallel()
	const secret = "zq7secret"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		site := p.shop("shop.example")

		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		service, err := analytics.New(analytics.Options{Cell: dbtest.SitesCell(t, d), UserIDKey: planetest.UserIDKey,
			VisitorKey: planetest.VisitorKey, ClientAddr: web.NewClients(nil, logger, time.Now).Addr, Now: p.Clock.Now, Store: ingest.NewHitStore(dbtest.SitesCell(t, d)), Log: logger, Timeout: time.Minute})
		testkit.NoError(t, err)
		service.Start()

		registry, requests := prometheus.NewRegistry(), web.NewRequests()
		testkit.NoError(t, requests.Register(registry))
		testkit.NoError(t, service.Measure(registry))
		observer := web.Observer{Role: "data", Metrics: requests, Access: logger}
		handler := observer.Handler(dataplane.Handler(dataplane.Options{Analytics: service, Assets: http.NotFoundHandler(), Log: logger}))

		send := func(path string, body any) (answer string) {
			text := mustJSON(t, body)
			request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(text))
			request.Header.Set("Origin", "https://shop.example")
			request.Header.Set("User-Agent", chrome)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, request)
			return w.Body.String()
		}

		var answers strings.Builder
		for _, name := range []string{"", "signup", "nope", "File Download", "Outbound Link: Click", "scroll", "purchase"} {
			for _, path := range []string{"/api/send", "/" + site.SiteKey + "/api/send?" + secret} {
				answers.WriteString(send(path, umamiBody(site, m{"name": name, "title": secret, "url": "/a?token=" + secret + "#" + secret,
					"referrer": "https://x.test/b?" + secret + "#" + secret, "hostname": secret, "tag": secret, "id": secret,
					"screen": secret, "language": secret, "data": m{"url": "https://x.test/file.pdf?" + secret + "#" + secret}})))
			}

			for _, hash := range []int{0, 1} {
				if name == "" {
					name = "pageview"
				}
				answers.WriteString(send("/api/event", plausibleBody(site, "/a?utm_sauce="+secret+"#!/b?"+secret+"#"+secret, m{"n": name, "h": hash,
					"r": "https://x.test/b?" + secret, "title": secret, "p": m{"url": "https://x.test/file.pdf?" + secret + "#" + secret}})))
			}
		}
		identified := m{"website": site.SiteKey, "data": m{"mail": secret}, "url": "/?" + secret}
		answers.WriteString(send("/api/send", m{"type": "identify", "payload": identified}))
		answers.WriteString(send("/api/batch", []any{umamiBody(site, m{"url": "/?" + secret, "title": secret}), umamiBody(site, m{"url": secret})}))

		testkit.NoError(t, service.Stop(t.Context()))

		unknown, err := ingest.New(d).UnknownEventsOfSites(t.Context(), []model.SiteID{site.ID}, 0)
		testkit.NoError(t, err)
		refused, err := ingest.New(d).RejectionsOfSites(t.Context(), []model.SiteID{site.ID}, 0)
		testkit.NoError(t, err)
		metrics, err := registry.Gather()
		testkit.NoError(t, err)

		views, events := p.Views(site), p.Events(site)
		if len(views) == 0 || len(events) == 0 || len(unknown[site.ID]) == 0 || len(refused[site.ID]) == 0 || log.Len() == 0 {
			t.Fatalf("%d page views, %d events, %v, %v, log %q", len(views), len(events), unknown, refused, log.String())
		}

		// Properties of own events are stored as they were sent: the page has chosen them.
		for i := range events {
			if events[i].Name == "signup" {
				events[i].Properties = ""
			}
		}

		for what, text := range map[string]string{
			"rows": mustJSON(t, views) + mustJSON(t, events), "unknown events": fmt.Sprint(unknown), "counters": fmt.Sprint(refused),
			"log": log.String(), "metrics": fmt.Sprint(metrics), "answers": answers.String(),
		} {
			if strings.Contains(strings.ToLower(text), secret) {
				t.Errorf("the %s contain the secret: %s", what, text)
			}
			if what == "metrics" && strings.Contains(text, site.SiteKey) {
				t.Errorf("the metrics contain the site key: %s", text)
			}
		}
	})
}

// FuzzForeign sends any body to the paths of other products.
func FuzzForeign(f *testing.F) {
	p, site := fuzzPlane(f)

	for i, body := range []any{
		umamiBody(site, m{"url": "/a?utm_source=x#f", "screen": "1x1", "id": strings.Repeat("ab", 32)}),
		umamiBody(site, m{"name": "signup", "data": m{"a": 1}}),
		plausibleBody(site, "/a?b#/c", m{"h": 1, "w": 390, "r": nil}),
		plausibleBody(site, "/", m{"n": "purchase", "p": `{"transaction_id":7}`, "$": m{"amount": "1e2", "currency": "eur"}}),
		[]any{umamiBody(site, nil), 7, umamiBody(site, m{"name": "File Download", "data": m{"url": "x"}})},
		m{"t": "pageview", "p": "/a"},
	} {
		f.Add(uint8(i), mustJSON(f, body))
	}

	f.Fuzz(func(t *testing.T, n uint8, body string) {
		path := collectionPaths[int(n)%len(collectionPaths)]
		if n >= 128 {
			path = "/" + site.SiteKey + path
		}
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		request.Header.Set("Origin", "https://shop.example")
		request.Header.Set("User-Agent", chrome)
		response := httptest.NewRecorder()
		p.Handler.ServeHTTP(response, request)

		if response.Code == http.StatusOK || response.Code == http.StatusAccepted {
			var answer map[string]any
			if err := json.Unmarshal(response.Body.Bytes(), &answer); err != nil && response.Body.String() != "ok" {
				t.Errorf("%d with %q", response.Code, response.Body)
			}
			return
		}
		inContract(t, response)
	})
}
