package importer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const goatToken = "token-of-a-test"

// goatServer is a GoatCounter site that repeats answers that GoatCounter 2.7.0 has given, by path
// and query, without the days of zeros. The lists of browsers, systems and locations are written in
// the form of its source code. change changes an answer, or returns a status other than 200; it may
// be nil.
func goatServer(t *testing.T, change func(r *http.Request, answer string) (string, int)) *httptest.Server {
	t.Helper()
	recorded, err := os.ReadFile("testdata/goatcounter-api.json")
	testkit.NoError(t, err)
	var answers map[string]json.RawMessage
	testkit.NoError(t, json.Unmarshal(recorded, &answers))

	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 2 && change == nil {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answer, status := string(answers[r.URL.RequestURI()]), http.StatusOK
		switch {
		case r.Header.Get("Authorization") != "Bearer "+goatToken:
			answer, status = `{"error":"unknown token"}`, http.StatusUnauthorized
		case change != nil:
			answer, status = change(r, answer)
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server
}

// goatOptions are options that import the four days of the fixture.
func goatOptions() importer.Options {
	o := everyDay
	o.BeforeLocal = day("2026-02-05")
	return o
}

// TestGoatCounterSums imports the sums of a GoatCounter site, compares them with GoatCounter's
// tables, and undoes the import.
func TestGoatCounterSums(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newFixture(t, databaseURL)
		before := f.report(query(scan.Page))
		read, err := importer.FetchGoatCounter(t.Context(), goatServer(t, nil).URL, goatToken, time.UTC, goatOptions())
		testkit.NoError(t, err)
		stored := f.store(read)

		r := f.report(query(scan.Page, scan.Source, scan.Channel, scan.Event, scan.Referrer, scan.UTMSource, scan.EntryPage))
		f.wantTotals(r, counts{1, 1, 26, 0, 0, 10}, 0, 0, 0, 0, 1)
		if want := (scan.Unknown{ViewTime: 25, Visit: 25}); r.Totals.UnknownOf() != want || r.Totals.Conversions != 8 {
			t.Errorf("%d conversions, unknown are %+v, want 8 and %+v", r.Totals.Conversions, r.Totals.UnknownOf(), want)
		}
		f.wantRows(r, 0, map[string]counts{
			"/": {10, 1, 10, 0, 1, 0}, "/docs": {9, 0, 9, 0, 0, 0}, "/pricing": {7, 0, 7, 0, 0, 0},
		})
		f.wantRows(r, 1, map[string]counts{
			"": {3, 1, 1, 0, 0, 0}, "blog.example.org": {4, 0, 0, 0, 0, 0}, "www.google.com": {2, 0, 0, 0, 0, 0},
			"newsletter": {1, 0, 0, 0, 0, 0}, "news.ycombinator.com": {2, 0, 0, 0, 0, 0},
		})
		f.wantRows(r, 2, map[string]counts{
			"direct": {3, 1, 1, 0, 0, 0}, "referral": {4, 0, 0, 0, 0, 0}, "organic search": {2, 0, 0, 0, 0, 0},
			"unassigned": {1, 0, 0, 0, 0, 0}, "organic social": {2, 0, 0, 0, 0, 0},
		})
		f.wantRows(r, 3, map[string]counts{"sign_up": {8, 0, 0, 0, 0, 8}, "click_pdf": {2, 0, 0, 0, 0, 2}})
		f.wantRows(r, 4, map[string]counts{
			"": {4, 1, 1, 0, 0, 0}, "blog.example.org/post/7": {4, 0, 0, 0, 0, 0}, "www.google.com": {2, 0, 0, 0, 0, 0},
			"news.ycombinator.com/item": {2, 0, 0, 0, 0, 0},
		})
		f.wantRows(r, 5, map[string]counts{"": {11, 1, 1, 0, 0, 0}, "newsletter": {1, 0, 0, 0, 0, 0}})
		f.wantStates(r, scan.ImportIncluded, scan.ImportIncluded, scan.ImportNoValues)
		wantGoatCounterSumsClients(f)

		second := f.report(scanDay("2026-02-02", scan.Page))
		f.wantRows(second, 0, map[string]counts{"/": {2, 0, 2, 0, 0, 0}, "/docs": {1, 0, 1, 0, 0, 0}, "/pricing": {1, 0, 1, 0, 0, 0}})

		f.undo(stored.ID)
		f.equal(before)
		f.wantEmpty()
	})
}

// wantGoatCounterSumsClients checks the counts of page views: of all hits, less the events.
func wantGoatCounterSumsClients(f *fixture) {
	f.t.Helper()
	f.wantClients(
		map[string]counts{"NL": {14, 0, 0, 0, 0, 0}, "DE": {4, 0, 0, 0, 0, 0}, "US": {4, 0, 0, 0, 0, 0}, "": {4, 1, 1, 0, 0, 0}},
		map[string]counts{
			"Firefox": {7, 0, 0, 0, 0, 0}, "Chrome": {14, 0, 0, 0, 0, 0}, "Safari": {1, 0, 0, 0, 0, 0}, "Opera": {2, 0, 0, 0, 0, 0},
			"": {2, 1, 1, 0, 0, 0},
		},
		map[string]counts{
			"Windows": {9, 0, 0, 0, 0, 0}, "Linux": {4, 0, 0, 0, 0, 0}, "macOS": {3, 0, 0, 0, 0, 0}, "iOS": {9, 0, 0, 0, 0, 0},
			"": ownVisit,
		},
		nil, nil,
		map[string]counts{
			"": {3, 1, 1, 0, 0, 0}, "search": {2, 0, 0, 0, 0, 0}, "social": {2, 0, 0, 0, 0, 0}, "other": {5, 0, 0, 0, 0, 0},
		},
	)
}

// scanDay asks for a single day.
func scanDay(text string, by scan.Dimension) *scan.Query {
	date := scan.DateOfNumber(day(text))
	return &scan.Query{Zone: time.UTC, From: date, To: date, Breakdowns: []scan.Breakdown{{By: by}}}
}

// goatFake is a GoatCounter site with a view of / by a session from r1.example in each hour of 1
// and 2 February 2026 in UTC. It lists at most most referrers of a call, and each hour has a
// referrer of its own.
func goatFake(t *testing.T, most int) *httptest.Server {
	t.Helper()
	hours := strings.Repeat("1,", 23) + "1"
	stats := fmt.Sprintf(`[{"day":"2026-02-01","hourly":[%s]},{"day":"2026-02-02","hourly":[%[1]s]}]`, hours)
	return goatServer(t, func(r *http.Request, _ string) (string, int) {
		switch r.URL.Path {
		case "/api/v0/me":
			return `{"user":{"settings":{"timezone":"GB.Etc/UTC"}}}`, http.StatusOK
		case "/api/v0/stats/total":
			return `{"total":48,"stats":` + stats + `}`, http.StatusOK
		case "/api/v0/paths":
			return `{"paths":[{"id":7}]}`, http.StatusOK
		case "/api/v0/stats/hits":
			return `{"hits":[{"path_id":7,"path":"/","stats":` + stats + `}]}`, http.StatusOK
		case "/api/v0/stats/browsers", "/api/v0/stats/systems", "/api/v0/stats/locations":
			return goatFakeClients(t, r), http.StatusOK
		}
		from, err := time.Parse(time.RFC3339, r.URL.Query().Get("start"))
		if err != nil {
			t.Error(err)
		}
		until, err := time.Parse(time.RFC3339, r.URL.Query().Get("end"))
		if err != nil {
			t.Error(err)
		}
		var refs []string
		for at := from.Truncate(time.Hour); !at.After(until) && len(refs) <= most; at = at.Add(time.Hour) {
			if !at.Before(from) && !at.Before(day("2026-02-01").Start().Time()) && at.Before(day("2026-02-03").Start().Time()) {
				refs = append(refs, fmt.Sprintf(`{"name":"https://r%d.example/","count":1,"ref_scheme":"o"}`, at.Hour()))
			}
		}
		more := len(refs) > most
		return fmt.Sprintf(`{"stats":[%s],"more":%v}`, strings.Join(refs[:min(len(refs), most)], ","), more), http.StatusOK
	})
}

// goatFakeClients answers with 24 views of one browser on each of the two days, in two pages of
// which the second one repeats the first one's row. The API knows whole UTC days only.
func goatFakeClients(t *testing.T, r *http.Request) string {
	t.Helper()
	query := r.URL.Query()
	testkit.Equal(t, query.Get("start")[:10], query.Get("end")[:10], "%s asks for more than a day", r.URL)
	switch day := query.Get("start")[:10]; {
	case day != "2026-02-01" && day != "2026-02-02":
		return `{"stats":[]}`
	case query.Get("offset") == "":
		return `{"more":true,"stats":[{"id":"DE","name":"Germany","count":20}]}`
	case query.Get("offset") != "1":
		t.Errorf("%s begins at another row", r.URL)
	}
	return `{"stats":[{"id":"DE","name":"Germany","count":20},{"id":"FR","name":"France","count":4}]}`
}

// TestGoatCounterClientDays checks the days of countries in time zones, and that a UTC day is left
// out that ends after the site's own first day begins.
func TestGoatCounterClientDays(t *testing.T) {
	for zone, want := range map[string]string{
		"UTC":              "2026-02-01 DE 20, 2026-02-01 FR 4, 2026-02-02 DE 20, 2026-02-02 FR 4, ",
		"America/New_York": "2026-02-01 DE 20, 2026-02-01 FR 4, 2026-02-02 DE 20, 2026-02-02 FR 4, ",
		"Asia/Kolkata":     "2026-02-01 DE 20, 2026-02-01 FR 4, ",
	} {
		location, err := time.LoadLocation(zone)
		testkit.NoError(t, err)
		o := goatOptions()
		o.BeforeLocal = day("2026-02-03")
		r, err := importer.FetchGoatCounter(t.Context(), goatFake(t, 100).URL, goatToken, location, o)
		if err != nil {
			t.Errorf("%s: %v", zone, err)
			continue
		}

		var got strings.Builder
		for i := range r.Figures {
			if f := &r.Figures[i]; f.Dimension == model.DimensionCountry {
				fmt.Fprintf(&got, "%v %s %d, ", f.Day, f.Value, f.Visitors)
			}
		}
		if got.String() != want {
			t.Errorf("%s: %s\nwant %s", zone, got.String(), want)
		}
	}
}

// TestGoatCounterZones checks that hours belong to the days of the site's time zone, and that a day
// with many referrers is read in parts.
func TestGoatCounterZones(t *testing.T) {
	for zone, want := range map[string]string{
		"UTC":              "2026-02-01 24 24, 2026-02-02 24 24, ",
		"America/New_York": "2026-01-31 5 5, 2026-02-01 24 24, 2026-02-02 19 19, ",
		"Asia/Kolkata":     "2026-02-01 19 19, 2026-02-02 24 24, 2026-02-03 5 5, ",
	} {
		location, err := time.LoadLocation(zone)
		testkit.NoError(t, err)
		r, err := importer.FetchGoatCounter(t.Context(), goatFake(t, 5).URL, goatToken, location, goatOptions())
		if err != nil {
			t.Errorf("%s: %v", zone, err)
			continue
		}

		views, visitors := make(map[string]int64), make(map[string]int64)
		for i := range r.Figures {
			switch f := &r.Figures[i]; f.Dimension {
			case "":
				views[f.Day.String()] += f.Pageviews
			case "REFERRER":
				visitors[f.Day.String()] += f.Visitors
			}
		}
		var got strings.Builder
		for _, day := range slices.Sorted(maps.Keys(views)) {
			fmt.Fprintf(&got, "%s %d %d, ", day, views[day], visitors[day])
		}
		if got.String() != want {
			t.Errorf("%s: days, views and visitors of referrers %s\nwant %s", zone, got.String(), want)
		}
	}
}

// TestGoatCounterFaults checks that answers that are wrong or incomplete are refused with the
// cause.
func TestGoatCounterFaults(t *testing.T) {
	replace := func(path, old, by string) func(*http.Request, string) (string, int) {
		return func(r *http.Request, answer string) (string, int) {
			if r.URL.Path == "/api/v0/"+path {
				answer = strings.ReplaceAll(answer, old, by)
			}
			return answer, http.StatusOK
		}
	}
	instead := func(path, by string) func(*http.Request, string) (string, int) {
		return func(r *http.Request, answer string) (string, int) {
			if r.URL.Path == "/api/v0/"+path {
				answer = by
			}
			return answer, http.StatusOK
		}
	}
	all := func(answer string, status int) func(*http.Request, string) (string, int) {
		return func(*http.Request, string) (string, int) { return answer, status }
	}
	for name, test := range map[string]struct {
		change func(*http.Request, string) (string, int)
		want   string
	}{
		"time zone": {replace("me", ".UTC", "DE.Europe/Berlin"), `the token's user has the time zone "DE.Europe/Berlin"`},
		"permission": {
			change: all(`{"error":"requires 'stats' permissions"}`, http.StatusForbidden),
			want:   `api/v0/me: status 403: "{\"error\":\"requires 'stats'`,
		},
		"redirect":     {all("", http.StatusFound), "api/v0/me: status 302"},
		"no JSON":      {all("<html>", http.StatusOK), "api/v0/me: not an answer of GoatCounter's API: invalid character"},
		"rate limit":   {all("", http.StatusTooManyRequests), "api/v0/me: GoatCounter refuses calls for its rate limit"},
		"old version":  {replace("stats/total", `"stats":`, `"other":`), "needs GoatCounter 2.7.0"},
		"hours":        {replace("stats/total", "[0,", "["), "has 23 hours instead of 24"},
		"negative":     {replace("stats/hits", "[0,1", "[0,-1"), `the path "/": the count of 2026-02-01 is not a number from 0 to 1099511627776: -1`},
		"day":          {replace("stats/hits", "2026-02-01", "2026-02-30"), "not a day from 1995 on"},
		"paths":        {instead("paths", `{"paths":[{"id":7}],"more":true}`), "GoatCounter lists paths twice"},
		"unknown path": {replace("stats/hits", `"path_id":170`, `"path_id":1`), `GoatCounter lists the path "/" without being asked`},
		"more paths":   {instead("stats/hits", `{"hits":[],"more":true}`), "GoatCounter lists paths that it does not return"},
		"scheme":       {replace("stats/toprefs", `"ref_scheme":"o"`, `"ref_scheme":"z"`), `referrer scheme cannot be "z"`},
		"browsers":     {replace("stats/browsers", `"count":`, `"count":-`), `the count of "Firefox" in browsers of 2026-02-01 is not a number`},
		"more places":  {instead("stats/locations", `{"stats":[],"more":true}`), "GoatCounter lists more than 0 locations on 2026-02-01"},
		"no events": {
			change: replace("stats/toprefs", `"count":4,`, `"count":0,`),
			want:   `more events than hits have the referrer "https://blog.example.org/post/7"`,
		},
		"many":    {replace("stats/toprefs", `"more":false`, `"more":true`), "stats/toprefs?"},
		"no days": {replace("stats/total", "2026-02-", "2026-03-"), "nothing to import: 4 rows are of days from 2026-02-05 on"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := importer.FetchGoatCounter(t.Context(), goatServer(t, test.change).URL, goatToken, time.UTC, goatOptions())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}

	for _, test := range []struct{ address, token, want string }{
		{"export.csv", goatToken, `not the address of a GoatCounter site, such as https://stats.example.com: "export.csv"`},
		{"https://stats.example.com", "", "the token of GoatCounter's API is missing"},
		{goatServer(t, nil).URL, "other", `status 401: "{\"error\":\"unknown token\"}"`},
		{goatFake(t, 0).URL, goatToken, "the hour 2026-02-01 00:00:00 has more than 0 referrers"},
	} {
		if _, err := importer.FetchGoatCounter(t.Context(), test.address, test.token, time.UTC, goatOptions()); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

// TestGoatCounterDays checks that --since and the site's own days limit the sums.
func TestGoatCounterDays(t *testing.T) {
	o := goatOptions()
	o.Since = day("2026-02-02")
	r, err := importer.FetchGoatCounter(t.Context(), goatFake(t, 100).URL, goatToken, time.UTC, o)
	if err != nil || r.First != o.Since || r.Days != 1 || r.Other != 1 || r.Totals.Pageviews != 24 {
		t.Errorf("read %+v, error %v", r, err)
	}

	o = goatOptions()
	o.BeforeLocal = day("2026-02-02")
	r, err = importer.FetchGoatCounter(t.Context(), goatFake(t, 100).URL, goatToken, time.UTC, o)
	if err != nil || r.Last != day("2026-02-01") || r.Days != 1 || r.Late != 1 || r.Totals.Pageviews != 24 {
		t.Errorf("read %+v, error %v", r, err)
	}
}

// FuzzGoatCounter checks that no answer makes the import panic, and that accepted sums are
// consistent.
func FuzzGoatCounter(f *testing.F) {
	f.Add("stats/hits", `"hourly"`, `"hourly":[1]`)
	f.Add("stats/toprefs", `"count":1`, `"count":9`)
	f.Add("stats/total", "2026-02-01", "2026-02-04")
	f.Fuzz(func(t *testing.T, path, old, by string) {
		server := goatServer(t, func(r *http.Request, answer string) (string, int) {
			if old != "" && strings.HasSuffix(r.URL.Path, path) {
				answer = strings.Replace(answer, old, by, 1)
			}
			return answer, http.StatusOK
		})
		r, err := importer.FetchGoatCounter(t.Context(), server.URL, goatToken, time.UTC, goatOptions())
		if err != nil {
			return
		}
		if r.Days == 0 || r.First > r.Last || r.Last >= goatOptions().BeforeLocal {
			t.Errorf("accepted %+v", r.Import)
		}
		for i := range r.Figures {
			wantFigure(t, &r.Figures[i])
		}
	})
}
