package plain

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestQuestions checks what reaches GraphQL for an address, and that the query fits the schema.
func TestQuestions(t *testing.T) {
	last28 := map[string]any{"preset": "LAST_28_DAYS"}
	for _, test := range []struct {
		query string
		want  map[string]any // of the variables but for filters, which have their own field
		f     []map[string]any
	}{
		{query: "", want: map[string]any{"period": last28}},
		{query: "period=7d", want: map[string]any{"period": map[string]any{"preset": "LAST_7_DAYS"}}},
		{query: "from=2026-11-01&to=2026-11-02", want: map[string]any{"period": map[string]any{"from": "2026-11-01", "to": "2026-11-02"}}},
		{query: "compare=previous", want: map[string]any{
			"period": last28, "compare": map[string]any{"kind": "PREVIOUS_PERIOD", "matchDayOfWeek": true},
		}},
		{query: "compare=2026-10-01&dates=1", want: map[string]any{
			"period": last28, "compare": map[string]any{"from": "2026-10-01", "matchDayOfWeek": false},
		}},
		{query: "interval=day", want: map[string]any{"period": last28, "interval": "DAY"}},
		{query: "by=page&first=3&order=viewsPerVisit.asc", want: map[string]any{
			"period": last28, "by": "PAGE", "first": 3, "orderBy": map[string]any{"metric": "VIEWS_PER_VISIT", "direction": "ASC"},
		}},
		{query: "by=property&property=plan&event=signup&search=pro", want: map[string]any{
			"period": last28, "by": "PROPERTY", "property": "plan", "event": "signup", "search": "pro", "first": 10,
			"orderBy": map[string]any{"metric": "VISITORS"},
		}},
		{query: `f=page:is:/a,/b%5C,c&f=property:plan:signup:is_not:pro`, want: map[string]any{"period": last28}, f: []map[string]any{
			{"dimension": "PAGE", "operator": "IS", "values": []string{"/a", "/b,c"}},
			{"dimension": "PROPERTY", "property": "plan", "event": "signup", "operator": "IS_NOT", "values": []string{"pro"}},
		}},
	} {
		q, err := parse(test.query, "json")
		if err != nil {
			t.Errorf("%q: %v", test.query, err)
			continue
		}

		want := test.want
		if want["filters"] = test.f; test.f == nil {
			want["filters"] = []map[string]any{}
		}
		testkit.DeepEqual(t, q.variables, want, "%q: variables", test.query)
		for _, site := range []string{"site_1", "shop.example"} {
			for _, isLink := range []bool{false, true} {
				text, _ := q.query(site, isLink)
				if _, err := gqlparser.LoadQueryWithRules(schema(), text, nil); err != nil {
					t.Errorf("%q: %v in %s", test.query, err, text)
				}
			}
		}
	}
}

// TestWrongQuestions checks the errors of addresses: each names what exists.
func TestWrongQuestions(t *testing.T) {
	for _, test := range []struct{ query, ending, want string }{
		{"token=tga_secret", "json", "There is an unknown parameter. These exist: period, from, to, "},
		{"periode=7d", "json", "A token belongs into the header Authorization."},
		{"period=7d&period=28d", "json", "The parameter period is given twice."},
		{"period=8d", "json", "The parameter period is one of: 12m, 28d, 30d, 7d, 91d, all, "},
		{"period=7d&from=2026-11-01&to=2026-11-02", "json", "Give either period, or from and to."},
		{"from=2026-11-01", "json", "The parameters from and to are days"},
		{"from=2026-11-31&to=2026-12-01", "json", "The parameters from and to are days"},
		{"compare=never", "json", "The parameter compare is one of: previous, year, a day"},
		{"f=page", "json", "A filter f has the form dimension:operator:value"},
		{"f=page:is", "json", "A filter f has the form"},
		{"f=page:was:/", "json", "A filter f has the form"},
		{"f=property::x:is:/", "json", "A filter f has the form"},
		{strings.Repeat("f=page:is:/&", 11), "json", "There are more than 10 filters."},
		{"interval=year", "json", "The parameter interval is one of: hour, day, "},
		{"by=colour", "json", "The parameter by is one of: page, "},
		{"first=5", "json", "The parameter first needs the parameter by."},
		{"by=page&first=1001", "json", "The parameter first is a number from 1 to 1000."},
		{"by=page&order=size", "json", "The parameter order is one of: visitors, "},
		{"by=page&order=visits.up", "json", "The parameter order is one of: visitors, "},
		{"metric=size", "svg", "The parameter metric is one of: visitors, "},
		{"by=page&interval=day", "csv", "A CSV file has one table"},
		{"interval=day", "prom", "A .prom file has no series"},
		{"by=page", "svg", "a badge has no rows"},
		{"period=%zz", "json", "The query string is not encoded correctly."},
	} {
		_, err := parse(test.query, test.ending)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s of %q: %v, want %q", test.ending, test.query, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "tga_secret") {
			t.Errorf("%q: the error repeats the token: %v", test.query, err)
		}
	}
}

// FuzzParse checks that every question that is read makes a query that fits the schema, and that
// what a client wrote is in its variables alone.
func FuzzParse(f *testing.F) {
	for _, query := range []string{
		"", "period=7d&compare=year&by=page&f=page:is:/a", `f=property:a\:b:c:matches:x\,y`, "by=property&property=%22%7D", "f=%5C",
	} {
		f.Add(query)
	}
	names := strings.NewReplacer("period", "", "previous", "", "by", "", "page", "")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := parse(query, "json")
		if err != nil {
			return
		}
		text, variables := q.query("site_1", false)
		if _, err := gqlparser.LoadQueryWithRules(schema(), text, nil); err != nil {
			t.Fatalf("%q: %v in %s", query, err, text)
		}
		if _, err := json.Marshal(variables); err != nil {
			t.Fatalf("%q: %v", query, err)
		}
		if strings.ContainsAny(names.Replace(text), "\\\"%&") {
			t.Fatalf("%q is in the query %s", query, text)
		}
	})
}

// sample returns an answer with rows that visitors wrote.
func sample(t *testing.T, query string) *answer {
	t.Helper()
	q, err := parse(query, "json")
	if err != nil {
		t.Fatal(err)
	}

	var found siteFigures
	const text = `{"domain": "shop.example", "timeZone": "UTC", "live": {"visitors": 3}, "report": {
		"from": "2026-11-01", "to": "2026-11-28", "asOf": "2026-11-29T10:00:00Z",
		"totals": {"visitors": 1234, "visits": 1500, "pageviews": 1234567, "viewsPerVisit": 2.5, "bounceRate": null, "engagementTime": 12.25,
			"timeOnPage": 1, "scrollDepth": 50, "events": 7, "conversions": 0, "conversionRate": 0,
			"revenue": [{"currency": "EUR", "net": "1249.90"}], "comparison": {"visitors": 9, "revenue": []}},
		"series": [{"start": "2026-11-01T00:00:00Z", "metrics": {"visitors": 5}}],
		"breakdown": {"totalCount": 9, "nodes": [{"value": "=1+1\"<b>\n", "metrics": {"visitors": 2}}]}}}`
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	if !q.series {
		found.Report.Series = nil
	}
	if q.by == "" {
		found.Report.Breakdown = nil
	}
	return newAnswer(q, &found, false)
}

// TestFormats checks what each format shows of figures, and that texts of visitors stay texts.
func TestFormats(t *testing.T) {
	file := func(name, query string) string {
		body, err := formats[name].write(sample(t, query))
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}

	var object map[string]any
	text := file("json", "by=page&interval=day&compare=previous")
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for name, want := range map[string]any{
		"site": "shop.example", "from": "2026-11-01", "asOf": "2026-11-29T10:00:00Z", "live": 3.0, "visitors": 1234.0, "bounceRate": nil,
		"revenueEUR": 1249.9, "previousVisitors": 9.0, "previousVisits": nil, "rowCount": 9.0,
	} {
		if got, ok := object[name]; !ok || got != want {
			t.Errorf("JSON: %s is %v, want %v", name, got, want)
		}
	}
	if !strings.Contains(text, `"revenueEUR":1249.90`) {
		t.Errorf("JSON: revenue is not exact: %s", text)
	}
	if rows, _ := object["rows"].([]any); len(rows) != 1 || rows[0].(map[string]any)["value"] != "=1+1\"<b>\n" {
		t.Errorf("JSON: rows %v", object["rows"])
	}

	lines, err := csv.NewReader(strings.NewReader(file("csv", "by=page"))).ReadAll()
	if err != nil || len(lines) != 2 || lines[0][0] != "value" || lines[1][0] != "'=1+1\"<b>\n" || lines[1][1] != "2" {
		t.Errorf("CSV: %v, %q", err, lines)
	}
	if got := file("csv", ""); !strings.HasPrefix(got, "site,live,visitors,") || !strings.Contains(got, "\nshop.example,3,1234,1500,") {
		t.Errorf("CSV of totals: %s", got)
	}

	gauges := file("prom", "")
	for _, want := range []string{
		"# TYPE tallygate_site_views_per_visit gauge\ntallygate_site_views_per_visit{site=\"shop.example\",period=\"28d\"} 2.5\n",
		"tallygate_site_live{site=\"shop.example\",period=\"28d\"} 3\n",
		"tallygate_site_revenue{site=\"shop.example\",period=\"28d\",currency=\"EUR\"} 1249.90\n",
	} {
		if !strings.Contains(gauges, want) {
			t.Errorf("Prometheus: %s\nlacks %s", gauges, want)
		}
	}
	if strings.Contains(gauges, "null") {
		t.Errorf("Prometheus: %s", gauges)
	}
	if got, want := file("prom", "by=page"), `,page="=1+1\"<b>\n"} 2`; !strings.Contains(got, want) {
		t.Errorf("Prometheus: %s\nlacks %s", got, want)
	}

	badge := file("svg", "metric=viewsPerVisit")
	for decoder := xml.NewDecoder(strings.NewReader(badge)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, badge)
		}
	}
	if !strings.Contains(badge, "<title>views per visit: 2.5</title>") {
		t.Errorf("badge: %s", badge)
	}
}

// TestShortNumbers checks the numbers of badges.
func TestShortNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "999": "999", "1000": "1.0k", "1234": "1.2k", "9949": "9.9k", "9951": "10k", "34567": "35k", "999499": "999k",
		"999500": "1.0M", "5600000": "5.6M", "12345678901": "12G", "2.5": "2.5", "null": "–", "": "–",
	} {
		testkit.Equal(t, short(text), want, "short(%q)", text)
	}
}
