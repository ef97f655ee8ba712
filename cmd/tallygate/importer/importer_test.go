package importer_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/tools/testkit"
)

// everyDay are options that import all days up to 2026.
var everyDay = importer.Options{Domains: []string{"example.com"}, Until: day("2030-01-01"), BeforeLocal: day("2026-03-01"),
	BeforeUTC: day("2026-03-01")}

func day(text string) model.Day {
	d, err := model.ParseDay(text)
	if err != nil {
		panic(err)
	}
	return d
}

// file writes a file of an export.
func file(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	testkit.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// fixtures returns the files of a folder of testdata, or one file.
func fixtures(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	return names
}

// zipped returns an archive of files.
func zipped(t testing.TB, names ...string) string {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range names {
		content, err := os.ReadFile(name)
		testkit.NoError(t, err)
		entry, err := w.Create("export/" + filepath.Base(name))
		if err == nil {
			_, err = entry.Write(content)
		}
		testkit.NoError(t, err)
	}
	testkit.NoError(t, w.Close())
	return file(t, "export.zip", archive.String())
}

// compressed returns a file compressed with gzip.
func compressed(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	testkit.NoError(t, err)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, w.Close())
	return file(t, filepath.Base(name)+".gz", packed.String())
}

// TestDamaged checks that a damaged export is refused with the name of the file, the line and the
// fault.
func TestDamaged(t *testing.T) {
	const (
		visitors = "imported_visitors.csv"
		pages    = "imported_pages_20260201_20260204.csv"
		header   = "date,visitors,pageviews,bounces,visits\n"
		umami    = "website_id,session_id,url_path,event_type,created_at\n"
	)
	for name, test := range map[string]struct {
		source        model.ImportSource
		file, content string
		want          string
	}{
		"number": {
			source: model.ImportPlausible, file: visitors, content: header + "2026-02-01,1,2,0,1\n2026-02-02,x,2,0,1\n",
			want: visitors + `, line 3: visitors is not a number from 0 to 1099511627776: "x"`,
		},
		"negative":  {model.ImportPlausible, visitors, header + "2026-02-01,-1,2,0,1\n", "line 2: visitors is not"},
		"too large": {model.ImportPlausible, visitors, header + "2026-02-01,9223372036854775807,2,0,1\n", "line 2: visitors is not"},
		"large sum": {
			source: model.ImportPlausible, file: visitors,
			content: header + strings.Repeat("2026-02-01,1,1099511627776,0,1\n", 2),
			want:    "line 3: the sum of 2026-02-01 is larger",
		},
		"day":          {model.ImportPlausible, visitors, header + "2026-02-30,1,2,0,1\n", "line 2: not a day from 1995 on"},
		"old day":      {model.ImportPlausible, visitors, header + "1994-12-31,1,2,0,1\n", "line 2: not a day from 1995 on"},
		"fields":       {model.ImportPlausible, visitors, header + "2026-02-01,1,2\n", "line 2: 3 fields instead of 5"},
		"quote":        {model.ImportPlausible, visitors, header + "2026-02-01,1,\"2,0,1\n", "line 2: extraneous or missing"},
		"column":       {model.ImportPlausible, visitors, "date,visitors,pageviews,bounces\n", `line 1: there is no column "visits"`},
		"column twice": {model.ImportPlausible, visitors, "date,date\n", `line 1: the column "date" comes twice`},
		"bounces": {
			source: model.ImportPlausible, file: visitors, content: header + "2026-02-01,1,2,1,1\n2026-02-02,3,5,5,3\n",
			want: "line 3: 2026-02-02 has more bounces, 5, than visits, 3",
		},
		"name":          {model.ImportPlausible, "visitors.csv", header, "visitors.csv: not a file of Plausible's export"},
		"unknown table": {model.ImportPlausible, "imported_cats.csv", header, "imported_cats.csv: imported_cats is no table"},
		"empty":         {model.ImportPlausible, visitors, "", visitors + ": the file is empty"},
		"no rows":       {model.ImportPlausible, visitors, header, "nothing to import: the files have no rows"},
		"no totals":     {model.ImportPlausible, pages, "date,page,visitors,pageviews\n2026-02-01,/,1,1\n", "rows of 2026-02-01 and no totals"},
		"late":          {model.ImportPlausible, visitors, header + "2026-03-01,1,2,0,1\n", "1 rows are of days from 2026-03-01 on"},
		"not text":      {model.ImportPlausible, visitors, "\x00\x01", visitors + ": not a CSV file"},
		"UTF-16":        {model.ImportPlausible, visitors, "\xff\xfed\x00a\x00", visitors + ": not a CSV file"},
		"not UTF-8":     {model.ImportPlausible, pages, "date,page,visitors,pageviews\n2026-02-01,/\xff,1,1\n", "line 2: not UTF-8"},
		"archive":       {model.ImportPlausible, "export.zip", "PK\x03\x04 cut off", "export.zip: zip: not a valid zip file"},
		"gzip":          {model.ImportUmami, "umami.csv.gz", "\x1f\x8bcut off", "umami.csv.gz: "},
		"umami sums":    {model.ImportUmami, "pages.csv", "x,y\n/,4\n", "pages.csv, line 1: sums of a whole period"},
		"umami archive": {model.ImportUmami, "export.json", `{"zip": "UEs="}`, "export.json: not a CSV file"},
		"umami time":    {model.ImportUmami, "u.csv", umami + "w,s,/,1,yesterday\n", "line 2: created_at is not a time"},
		"umami type":    {model.ImportUmami, "u.csv", umami + "w,s,/,a,2026-02-01 10:00:00\n", "line 2: event_type is not"},
		"umami website": {
			source: model.ImportUmami, file: "u.csv",
			content: umami + "w,s,/,1,2026-02-01 10:00:00\nv,s,/,1,2026-02-01 10:00:00\n",
			want:    "line 3: a second website",
		},
		"Matomo name": {
			source: model.ImportMatomo, file: "pages.csv", content: "",
			want: "pages.csv: not a file of Matomo's export: their names are such as Actions.getPageUrls.csv",
		},
		"Matomo method": {model.ImportMatomo, "Goals.get.csv", "", "Goals.get.csv: Goals.get is no table"},
		"Matomo UTF-16": {model.ImportMatomo, "Actions.get.csv", "\xff\xfed\x00a\x00", "Actions.get.csv: not a CSV file in UTF-8"},
		"Matomo error": {
			source: model.ImportMatomo, file: "Actions.get.csv",
			content: "Error: You can't access this resource, as it requires 'view' access\n",
			want:    "line 1: the answer of Matomo is \"Error: You can't access this resource, as",
		},
		"Matomo period": {model.ImportMatomo, "Actions.get.csv", "nb_pageviews\n5\n", `line 1: there is no column "date"`},
		"Matomo column": {model.ImportMatomo, "Actions.get.csv", "date,nb_actions\n", `line 1: there is no column "nb_pageviews"`},
		"Matomo week": {
			source: model.ImportMatomo, file: "Actions.get.csv",
			content: "date,nb_pageviews\n\"2026-02-02,2026-02-08\",5\n", want: "line 2: not a day from 1995 on",
		},
		"Matomo number": {
			source: model.ImportMatomo, file: "Actions.get.csv",
			content: "date,nb_pageviews\n2026-02-01,5\n2026-02-02,5.5\n", want: "line 3: nb_pageviews is not a number",
		},
		"Matomo fields": {model.ImportMatomo, "Actions.get.csv", "date,nb_pageviews\n2026-02-01,5,6\n", "line 2: 3 fields instead of 2"},
		"Matomo bounces": {
			source: model.ImportMatomo, file: "VisitsSummary.get.csv",
			content: "date,nb_uniq_visitors,nb_visits,bounce_count\n2026-02-01,5,6,7\n",
			want:    "line 2: 2026-02-01 has more bounces, 7, than visits, 6",
		},
		"Matomo totals": {
			source: model.ImportMatomo, file: "Actions.get.csv", content: "date,nb_pageviews\n2026-02-01,5\n",
			want: "the totals are missing: import VisitsSummary.get.csv",
		},
		"Matomo nothing": {model.ImportMatomo, "Actions.get.csv", "No data available", "nothing to import: the files have no rows"},
		"GA4 dimension":  {model.ImportGA4, "a.csv", "Date,City,Sessions\n", `line 1: the column "city" cannot be imported`},
		"GA4 two":        {model.ImportGA4, "a.csv", "Date,Event name,Page path,Sessions\n", "line 1: a table with two dimensions"},
		"GA4 period": {
			source: model.ImportGA4, file: "a.csv",
			content: "# Start date: 20260201\n# End date: 20260203\nSessions,Views\n",
			want:    "line 3: the table has neither a column Date",
		},
		"GA4 no metric":     {model.ImportGA4, "a.csv", "Date,Event name\n", "line 1: the table has none of the metrics"},
		"GA4 start":         {model.ImportGA4, "a.csv", "Nth day,Active users\n0000,5\n", "line 1: days are counted from a start"},
		"GA4 totals":        {model.ImportGA4, "a.csv", "Date,Sessions\n20260201,5\n", "the totals are missing"},
		"GA4 number":        {model.ImportGA4, "a.csv", "Date,Sessions\n20260201,5.5\n", "line 2: sessions is not a number"},
		"GA4 engaged":       {model.ImportGA4, "a.csv", "Date,Sessions,Engaged sessions\n20260201,5,6\n", "line 2: more engaged sessions"},
		"GA4 fields":        {model.ImportGA4, "a.csv", "Date,Sessions\n20260201,5,6\n", "line 2: 3 fields instead of 2"},
		"GA4 without table": {model.ImportGA4, "a.csv", "# a comment\n", "a.csv, line 1: the file has no table"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := importer.Read(test.source, []string{file(t, test.file, test.content)}, everyDay)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// TestTwiceInFiles checks that two files with the same days are not added up.
func TestTwiceInFiles(t *testing.T) {
	const content = "date,visitors,pageviews,bounces,visits\n2026-02-01,1,2,0,1\n"
	_, err := importer.Read(model.ImportPlausible, []string{
		file(t, "imported_visitors_20260101_20260201.csv", content), file(t, "imported_visitors.csv", content),
	}, everyDay)
	if err == nil || !strings.Contains(err.Error(),
		"imported_visitors.csv, line 2: imported_visitors_20260101_20260201.csv has visitors on 2026-02-01") {
		t.Error(err)
	}

	const totals = "Date,Sessions,Views,Total users\n20260201,5,6,7\n"
	_, err = importer.Read(model.ImportGA4, []string{file(t, "a.csv", totals), file(t, "b.csv", totals)}, everyDay)
	if err == nil || !strings.Contains(err.Error(), "b.csv, line 2: a.csv has") {
		t.Error(err)
	}
}

// TestSameRows checks that a file named twice, or files with rows of the same time, are not added
// up, and that a file can begin where another one ends.
func TestSameRows(t *testing.T) {
	const (
		visitors = "date,visitors,pageviews,bounces,visits\n2026-02-01,1,2,0,1\n"
		totals   = "Date,Sessions,Views,Total users\n20260201,5,6,7\n"
		umami    = "session_id,url_path,event_type,created_at\n"
		session  = "s,/,1,2026-02-0% 10:00:00\n"
	)
	days := func(header, row, days string) string {
		for _, day := range days {
			header += strings.ReplaceAll(row, "%", string(day))
		}
		return header
	}
	for name, test := range map[string]struct {
		source        model.ImportSource
		file          string
		first, second string // second is "" for the first file again
		want          string // "": no error
	}{
		"matomo": {
			source: model.ImportMatomo, file: "Actions.get.csv", first: "date,nb_pageviews\n2026-02-01,5\n", second: "",
			want: "Actions.get.csv, line 2: Actions.get.csv has Actions.get on 2026-02-01 as well",
		},
		"plausible": {
			source: model.ImportPlausible, file: "imported_visitors.csv", first: visitors, second: "",
			want: "imported_visitors.csv, line 2: imported_visitors.csv has visitors on 2026-02-01 as well",
		},
		"GA4":        {model.ImportGA4, "a.csv", totals, "", "a.csv, line 2: a.csv has "},
		"umami":      {model.ImportUmami, "u.csv", days(umami, session, "12"), "", "u.csv: u.csv has rows from 2026-02-01"},
		"umami next": {model.ImportUmami, "u.csv", days(umami, session, "23"), days(umami, session, "1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			names := []string{file(t, test.file, test.first)}
			if test.second == "" {
				names = append(names, names[0])
			} else {
				names = append(names, file(t, test.file, test.second))
			}
			_, err := importer.Read(test.source, names, everyDay)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// endless is a file that never ends.
type endless struct{}

func (endless) Read(to []byte) (int, error) {
	for i := range to {
		to[i] = 'a'
	}
	return len(to), nil
}

// TestLongRows checks that a row without end is given up, in an archive that is small.
func TestLongRows(t *testing.T) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	entry, err := w.Create("imported_visitors.csv")
	testkit.NoError(t, err)
	if _, err := io.CopyN(entry, io.MultiReader(strings.NewReader("date,visitors,pageviews,bounces,visits\n\""), endless{}), 64<<20); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, w.Close())

	_, err = importer.Read(model.ImportPlausible, []string{file(t, "export.zip", archive.String())}, everyDay)
	if err == nil || !strings.Contains(err.Error(), "a row of more than 1048576 bytes") {
		t.Error(err)
	}
}

// TestLargeFiles checks that what all files have together is bounded, whatever their compressed
// size.
func TestLargeFiles(t *testing.T) {
	importer.SetMaxBytes(t, 1<<20)
	const header = "date,visitors,pageviews,bounces,visits\n"
	content := header + strings.Repeat("2026-02-01,1,1,1,1\n", 100_000)
	_, err := importer.Read(model.ImportPlausible, []string{zipped(t, file(t, "imported_visitors.csv", content))}, everyDay)
	if err == nil || !strings.Contains(err.Error(), "imported_visitors.csv, line 5") || !strings.Contains(err.Error(), "more than 2 GB") {
		t.Error(err)
	}
}

// TestManyFiles checks that an archive of more files than an export has is refused.
func TestManyFiles(t *testing.T) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for range 1_001 {
		entry, err := w.Create("imported_browsers.csv")
		if err == nil {
			_, err = io.WriteString(entry, "date,browser,visitors,visits\n")
		}
		testkit.NoError(t, err)
	}
	testkit.NoError(t, w.Close())
	_, err := importer.Read(model.ImportPlausible, []string{file(t, "export.zip", archive.String())}, everyDay)
	if err == nil || !strings.Contains(err.Error(), "more than 1000 files") {
		t.Error(err)
	}
}

// FuzzRead checks that no file makes the parsers panic, and that accepted figures are consistent.
func FuzzRead(f *testing.F) {
	for i, pattern := range []string{"plausible/imported_visitors*", "umami.csv", "ga4/totals.csv"} {
		for _, name := range fixtures(f, pattern) {
			content, err := os.ReadFile(name)
			testkit.NoError(f, err)
			f.Add(i, filepath.Base(name), content)
		}
	}
	for pattern, source := range map[string]int{"plausible/*": 0, "ga4/*": 2, "matomo/*": 3} {
		for _, name := range fixtures(f, pattern) {
			content, err := os.ReadFile(name)
			testkit.NoError(f, err)
			f.Add(source, filepath.Base(name), content)
		}
	}

	f.Fuzz(func(t *testing.T, source int, name string, content []byte) {
		if name != filepath.Base(name) || strings.ContainsAny(name, "/\x00") || len(name) > 100 || name == "." || name == ".." || name == "" {
			name = "file.csv"
		}
		names := []string{file(t, name, string(content))}
		r, err := importer.Read(importer.Sources[uint(source)%uint(len(importer.Sources))], names, everyDay)
		if err != nil {
			return
		}

		if r.Days == 0 || r.First > r.Last || r.Last >= everyDay.BeforeLocal || (len(r.Figures) > 0) == (len(r.Visits) > 0) {
			t.Errorf("accepted %+v", r)
		}
		for i := range r.Figures {
			wantFigure(t, &r.Figures[i])
		}
	})
}

// wantFigure checks that a sum can be stored.
func wantFigure(t *testing.T, one *reports.ImportFigure) {
	t.Helper()
	if one.Visitors < 0 || one.Visits < 0 || one.Pageviews < 0 || !model.IsStorable(one.Value) {
		t.Errorf("accepted %+v", one)
	}

	known := one.Value == ""
	switch one.Dimension {
	case model.DimensionCountry:
		known = known || model.IsCountry(one.Value)
	case model.DimensionBrowser:
		known = known || slices.Contains(model.Browsers, model.Browser(one.Value))
	case model.DimensionSystem:
		known = known || slices.Contains(model.Systems, model.System(one.Value))
	case model.DimensionDevice:
		known = known || slices.Contains(model.Devices, model.Device(one.Value))
	default:
		known = true
	}
	if !known {
		t.Errorf("accepted %+v", one)
	}
}
