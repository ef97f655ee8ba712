package importer_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestServices imports files as services and spreadsheets write them, with totals, notes, empty
// rows and words for missing values, next to an own page view of the same page.
func TestServices(t *testing.T) {
	const visitors = "date,visitors,pageviews,bounces,visits\n2026-02-01,6,7,0,6\n"
	for name, test := range map[string]struct {
		source model.ImportSource
		files  map[string]string
		by     scan.Dimension
		want   map[string]counts
		notes  []model.ImportNote
	}{
		"Plausible pages": {model.ImportPlausible, map[string]string{
			"imported_visitors.csv": visitors,
			"imported_pages.csv": "date,hostname,page,visits,visitors,pageviews\n2026-02-01,a.example,/café menu,6,6,7\n" +
				"2026-02-01,a.example,,1,1,1\n2026-02-01,a.example,NULL,1,1,1\n2026-02-01,a.example,https://a.example/plans?mail=x,2,2,2\n",
		}, scan.Page, map[string]counts{"/caf%C3%A9%20menu": {7, 7, 8, 0, 1, 0}, "/plans": {2, 2, 2, 0, 0, 0}},
			[]model.ImportNote{{Code: model.NoteEmptyRows, Count: 2, Column: "page"}}},
		"Plausible events": {model.ImportPlausible, map[string]string{
			"imported_visitors.csv": visitors,
			"imported_custom_events.csv": "date,name,link_url,path,visitors,events\n2026-02-01,Регистрация,,,3,4\n2026-02-01,Покупка,,,1,2\n" +
				"2026-02-01,Sign up,,,1,1\n2026-02-01,sign_up,,,1,1\n2026-02-01,(none),,,1,1\n",
		}, scan.Event, map[string]counts{
			"xn--80affnb7bdhj6b9f": {3, 0, 0, 0, 0, 4}, "xn--80ataoec1a": {1, 0, 0, 0, 0, 2},
			"sign_up": {2, 0, 0, 0, 0, 2},
		},
			[]model.ImportNote{
				{Code: model.NoteEmptyRows, Count: 1, Column: "name"},
				{
					Code: model.NoteEventNames, Count: 2,
					Events: []model.ImportedEvent{{Name: "Покупка", As: "xn--80ataoec1a"}, {Name: "Регистрация", As: "xn--80affnb7bdhj6b9f"}},
				},
			}},
		"Umami": {model.ImportUmami, map[string]string{
			"website_event.csv": "website_id,session_id,visit_id,url_path,url_query,referrer_domain,referrer_path,utm_source,utm_campaign,event_type,event_name,created_at,browser\n" +
				"w,s1,v1,https://shop.example/pricing?mail=x,NULL,NULL,NULL,NULL,NULL,1,NULL,2026-02-01 10:00:00,NULL\n" +
				`w,s2,v2,/pricing,\N,bücher.example,/regal 1,\N,\N,1,\N,2026-02-01 10:00:00,\N` + "\n" +
				"w,s3,v3,,,,,,,1,,2026-02-01 10:00:00,\nw,,v4,/,,,,,,1,,2026-02-01 10:00:00,\nw,s1,v1,/,,,,,,2,,2026-02-01 10:00:00,\n" +
				",,,,,,,,,,,,\nw,s1,v1,/,,,,,,2,'=Sale,2026-02-01 10:00:00,\n",
		}, scan.Referrer, map[string]counts{"": {2, 2, 2, 0, 0, 1}, "xn--bcher-kva.example/regal%201": {1, 1, 1, 1, 0, 0}},
			[]model.ImportNote{
				{Code: model.NoteEmptyRows, Count: 1, Column: "event_name"}, {Code: model.NoteEmptyRows, Count: 1, Column: "session_id"},
				{Code: model.NoteEmptyRows, Count: 1, Column: "url_path"},
				{Code: model.NoteEventNames, Count: 1, Events: []model.ImportedEvent{{Name: "=Sale", As: "xn--sale-ub0y"}}},
			}},
		"Umami sources": {model.ImportUmami, map[string]string{
			"website_event.csv": "session_id,url_path,referrer_domain,referrer_path,utm_source,event_type,created_at\n" +
				"s1,/,NULL,NULL,None,1,2026-02-01 10:00:00\ns2,/,(none),,null,1,2026-02-01 10:00:00\n",
		}, scan.Channel, map[string]counts{"direct": {3, 3, 3, 2, 0, 0}}, nil},
		"Google Analytics exploration": {model.ImportGA4, map[string]string{
			"explore.csv": "# ----------------------------------------\n# Free form 1\n# Account: Example, Inc.\n# 20260201-20260202\n" +
				"# ----------------------------------------\n\nDate,Total users,Sessions,Views\n,24,29,61,Grand total\n20260201,10,12,20\n20260202,14,17,41\n" +
				"   \n,,,\n\nDate,Event name,Total users,Event count,,\n,,9,9,,Grand total\n20260201,Total,4,5,,\n20260202,(not set),1,1,,\nTotals,,9,9,,\n,,9,9\n" +
				"# This report is sampled\nPage path,Date,Views\n/pricing,20260201,3\nGrand total,,3\n",
		}, scan.Event, map[string]counts{"total": {4, 0, 0, 0, 0, 5}}, []model.ImportNote{
			{Code: model.NoteEmptyRows, Count: 1, Column: "date"}, {Code: model.NoteEmptyRows, Count: 1, Column: "event name"},
		}},
		"Matomo": {model.ImportMatomo, map[string]string{
			"VisitsSummary.get.csv":    "date,nb_uniq_visitors,nb_visits,bounce_count\n2026-02-01,5,6,1\n",
			"Actions.get.csv":          "date,nb_pageviews\n2026-02-01,9\n",
			"Events.getAction.csv":     "date,label,nb_events,nb_uniq_visitors\n2026-02-01,'-50 percent,2,1\n2026-02-01,\"'+1\",3,2\n2026-02-01,,3,2\n",
			"Referrers.getSocials.csv": "No data available\n",
		}, scan.Event, map[string]counts{"-50_percent": {1, 0, 0, 0, 0, 2}, "xn--1-vn0i": {2, 0, 0, 0, 0, 3}}, []model.ImportNote{
			{Code: model.NoteEmptyRows, Count: 1, Column: "label"},
			{Code: model.NoteEventNames, Count: 1, Events: []model.ImportedEvent{{Name: "+1", As: "xn--1-vn0i"}}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
				f := newFixture(t, databaseURL)
				f.site = world.New(t, f.d).Site("a.example")
				own := day("2026-02-05").Start().Add(time.Hour)
				key := segment.VisitKey{Visitor: model.VisitorID{1}, N: 1}
				err := oracle.Store(t.Context(), f.d, int64(f.site.ID), segment.Rows{
					Day: own.Day(), Visits: []segment.Visit{{VisitKey: key, StartedAt: own, Channel: "direct"}},
					Views: []segment.View{{VisitKey: key, At: own, ID: 1, Path: "/caf%C3%A9%20menu", Width: model.UnknownWidth, EngagedMS: 20_000}},
				})
				testkit.NoError(t, err)

				var names []string
				for name, content := range test.files {
					names = append(names, file(t, name, content))
				}
				read := f.read(test.source, names...)
				if !reflect.DeepEqual(read.Notes, test.notes) {
					t.Errorf("notes\n%+v, want\n%+v", read.Notes, test.notes)
				}
				f.store(read)
				f.wantRows(f.report(query(test.by)), 0, test.want)
			})
		})
	}
}

// TestTables checks refusals of tables that are read in one form only, and of damaged rows among
// totals.
func TestTables(t *testing.T) {
	const ga4 = "Date,Total users,Sessions,Views\n,24,29,61,Grand total\n"
	for name, test := range map[string]struct {
		source     model.ImportSource
		file, text string
		want       model.ImportFault
		line       int
	}{
		"semicolons":        {model.ImportPlausible, "imported_visitors.csv", "date;visitors;pageviews\n2026-02-01;1;2\n", model.FaultSeparator, 0},
		"quoted semicolons": {model.ImportUmami, "u.csv", "\xef\xbb\xbf\"session_id\";\"url_path\"\n\"s\";\"/\"\n", model.FaultSeparator, 0},
		"tabs":              {model.ImportMatomo, "Actions.get.csv", "date\tnb_pageviews\n2026-02-01\t5\n", model.FaultSeparator, 0},
		"GA4 semicolons":    {model.ImportGA4, "a.csv", "# Free form, 1\n\nDate;Sessions\n", model.FaultSeparator, 0},
		"one column":        {model.ImportUmami, "u.csv", "session_id\ns\n", model.FaultMissingColumn, 1},
		"short row":         {model.ImportGA4, "a.csv", ga4 + "20260201,10,12\n", model.FaultFields, 3},
		"long row":          {model.ImportGA4, "a.csv", ga4 + "20260201,10,12,20,5\n", model.FaultFields, 3},
		"long day":          {model.ImportGA4, "a.csv", ga4 + "20260201,10,12,20,Grand total\n", model.FaultFields, 3},
		"word":              {model.ImportGA4, "a.csv", ga4 + "20260201,10,Grand total,20\n", model.FaultNumber, 3},
		"text":              {model.ImportGA4, "a.csv", ga4 + "Sampled data\n", model.FaultFields, 3},
		"day":               {model.ImportGA4, "a.csv", ga4 + "yesterday,10,12,20\n", model.FaultDay, 3},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := importer.Read(test.source, []string{file(t, test.file, test.text)}, everyDay)
			failure, ok := err.(*model.ImportFailure)
			if !ok || failure.Code != model.ImportDamaged || failure.Fault != test.want || failure.Line != test.line || failure.File != test.file {
				t.Errorf("error %#v, want %s", err, test.want)
			}
		})
	}
}

// TestManyNames checks that the note of event names lists 20 of them, and counts all.
func TestManyNames(t *testing.T) {
	rows := "date,visitors,pageviews,bounces,visits\n2026-02-01,6,7,0,6\n"
	events := "date,name,visitors,events\n"
	for i := range 30 {
		events += fmt.Sprintf("2026-02-01,Кнопка %02d %s,1,1\n", i, strings.Repeat("я", 200))
	}
	r, err := importer.Read(model.ImportPlausible, []string{
		file(t, "imported_visitors.csv", rows), file(t, "imported_custom_events.csv", events),
	}, everyDay)
	testkit.NoError(t, err)
	if len(r.Notes) != 1 || r.Notes[0].Count != 30 || len(r.Notes[0].Events) != model.MaxNoteEvents || len([]rune(r.Notes[0].Events[0].Name)) != 100 {
		t.Errorf("notes %+v", r.Notes)
	}
	testkit.Equal(t, r.Totals.Events, 30, "events")
}
