package test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// umamiExport returns rows of Umami's table, each a page view of a session of its own, spread over
// days from a day on.
func umamiExport(rows, days int) []byte {
	first := time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	b.WriteString("website_id,session_id,visit_id,url_path,referrer_domain,event_type,created_at\n")
	for i := range rows {
		at := first.AddDate(0, 0, i*days/rows).Add(time.Duration(i%86_000) * time.Second)
		fmt.Fprintf(&b, "w,%08x-1111-4222-8333-%012x,%08x-5555-4666-8777-%012x,/articles/%d,ref%d.example.org,1,%s\n",
			i, i, i, i, i%5_000, i%50, at.Format(time.DateTime))
	}
	return b.Bytes()
}

// importer is an owner with an import job.
type importer struct {
	*testOwner
	site, job string
}

// importJob is a job as the owner reads it.
type importJob struct {
	State    string
	Progress float64
	Preview  *struct{ Pageviews, Visitors, Days int }
	Error    *struct{ Code, Message string }
}

// read returns the job, and the page views of the site's imports.
func (o *importer) read() (importJob, []int) {
	o.t.Helper()
	var data struct {
		Site struct {
			ImportJobs []importJob
			Imports    []struct{ Pageviews int }
		}
	}
	o.do(`{ site(id: "`+o.site+`") { imports { pageviews } importJobs { state progress preview { pageviews visitors days } error { code message } } } }`, &data)
	var imported []int
	for _, one := range data.Site.Imports {
		imported = append(imported, one.Pageviews)
	}
	return data.Site.ImportJobs[0], imported
}

// await waits until the job has a state.
func (o *importer) await(state string, limit time.Duration) importJob {
	o.t.Helper()
	// An import takes longer than other waits, and more frequent questions exceed the rate limit.
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		job, _ := o.read()
		if job.State == state {
			return job
		}
		if job.State == "FAILED" || time.Now().After(end) {
			o.t.Fatalf("the job is %+v, error %+v, want %s", job, job.Error, state)
		}
	}
}

// The rows of a database while a worker reads an export, and while it stores one.
const (
	whileReading = "SELECT id FROM import_jobs WHERE state = 1 AND lease <> ''"
	whileStoring = "SELECT id FROM report_imports WHERE state = 0"
)

// awaitRow waits until a query has a row.
func (o *importer) awaitRow(d *db.DB, query string) {
	o.t.Helper()
	testkit.Await(o.t, "a row of "+query, func() bool {
		rows, err := dbtest.Rows[int64](d, query)
		testkit.NoError(o.t, err)
		return len(rows) > 0
	})
}

// startImport starts a job and uploads a file.
func (o *importer) startImport(content []byte) {
	o.t.Helper()
	var data struct {
		StartImport struct {
			ImportJob  *struct{ ID string }
			UserErrors []struct{ Code, Message string }
		}
	}
	o.do(fmt.Sprintf(`mutation { startImport(input: {siteId: "%s", source: UMAMI, files: [{name: "umami.csv", size: %d}]}) {
		importJob { id } userErrors { code message } } }`, o.site, len(content)), &data)
	if data.StartImport.ImportJob == nil {
		o.t.Fatalf("startImport: %+v", data.StartImport.UserErrors)
	}
	o.job = data.StartImport.ImportJob.ID

	for at := 0; at < len(content); at += model.ImportChunk {
		piece := content[at:min(len(content), at+model.ImportChunk)]
		address := fmt.Sprintf("%s/products/analytics/api/import.php?job_id=%s&offset=%d", o.Origin, o.job, at)
		if response, answer := exchange(o.t, o.HTTP, http.MethodPut, address, string(piece), nil); response.StatusCode != 200 {
			o.t.Fatalf("upload of piece %d: %s %s", at, response.Status, answer)
		}
	}
}

func (o *importer) confirm() {
	o.t.Helper()
	got := o.data(`mutation { confirmImport(input: {importJobId: "` + o.job + `"}) { userErrors { code } } }`)
	if got != `{"confirmImport":{"userErrors":[]}}` {
		o.t.Fatal(got)
	}
}

// importFleet is a control process and a worker. On SQLite one process is both.
type importFleet struct {
	t        *testing.T
	settings map[string]string
	apart    bool
	control  *process
	worker   *process
}

func newImportFleet(t *testing.T, databaseURL string) *importFleet {
	t.Helper()
	f := &importFleet{t: t, settings: settingsFor(t, databaseURL), apart: strings.HasPrefix(databaseURL, "postgres")}
	f.start()
	return f
}

func (f *importFleet) start() {
	f.t.Helper()
	if !f.apart {
		f.control = start(f.t, f.settings, []string{"control", "data"}, "serve")
		f.worker = f.control
		return
	}
	role := func(roles string) map[string]string {
		settings := maps.Clone(f.settings)
		settings["TALLYGATE_ROLES"] = roles
		return settings
	}
	if f.control == nil {
		f.control = start(f.t, role("control,data"), []string{"control", "data"}, "serve")
	}
	f.worker = start(f.t, role("worker"), nil, "serve")
}

// restart kills the worker, and starts another one.
func (f *importFleet) restart(o *importer) {
	f.t.Helper()
	f.worker.kill()
	f.start()
	o.Origin = "http://" + f.control.addr["control"]
}

// TestImportSurvivesKill kills the worker while it reads an export and while it stores one. Another
// worker runs the job again, with the same result, and nothing is visible before the end.
func TestImportSurvivesKill(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	const rows = 120_000
	content := umamiExport(rows, 1_200)
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		f := newImportFleet(t, databaseURL)
		o := &importer{testOwner: newOwner(t, f.control)}
		o.site = o.signUp("imports.localhost").ID
		o.startImport(content)
		d := dbtest.Open(t, databaseOf(f.settings))
		o.awaitRow(d, whileReading)
		f.restart(o)
		if job, _ := o.read(); job.State != "READING" {
			t.Errorf("after the kill the job is %+v", job)
		}
		job := o.await("READY", 4*time.Minute)
		if job.Preview == nil || job.Preview.Pageviews != rows || job.Preview.Visitors != rows || job.Preview.Days != 1_200 {
			t.Errorf("the preview is %+v", job.Preview)
		}

		o.confirm()
		o.awaitRow(d, whileStoring)
		f.restart(o)
		if job, imported := o.read(); job.State != "STORING" || len(imported) != 0 {
			t.Errorf("after the kill the job is %+v, and imports have %v", job, imported)
		}
		o.await("COMPLETE", 4*time.Minute)
		if _, imported := o.read(); len(imported) != 1 || imported[0] != rows {
			t.Errorf("the imports have %v page views, want %d", imported, rows)
		}

		const period = `{from: "2018-01-01", to: "2021-12-31"}`
		report := o.data(`{ site(id: "` + o.site + `") { report(period: ` + period + `) { totals { pageviews visits } } } }`)
		if !strings.Contains(report, fmt.Sprintf(`{"pageviews":%d,"visits":%[1]d}`, rows)) {
			t.Errorf("the report is %s, want %d", report, rows)
		}
	})
}

// TestLargeImport imports eight years, and logs how long each step takes and the memory of the
// process, which must stay below the limit of a worker in deploy/. With TALLYGATE_TEST_WORST=all
// the export takes all memory that it may, else a third.
func TestLargeImport(t *testing.T) {
	testkit.SkipLong(t, "a large import")

	views := 118_000
	if os.Getenv("TALLYGATE_TEST_WORST") == "all" {
		views *= 3
	}
	content := umamiExport(views, 2922)
	f := newImportFleet(t, dbtest.SQLiteURL(t))
	o := &importer{testOwner: newOwner(t, f.control)}
	o.HTTP.Timeout = time.Minute
	o.site = o.signUp("imports.localhost").ID
	t.Logf("%d bytes, idle RSS %d MB", len(content), f.memory("VmRSS"))

	step := func(name string, run func()) {
		began := time.Now()
		run()
		t.Logf("%s: %.1f s, RSS at most %d MB", name, time.Since(began).Seconds(), f.memory("VmHWM"))
	}
	step("upload", func() { o.startImport(content) })
	step("read", func() { o.await("READY", 20*time.Minute) })
	o.confirm()
	step("store", func() { o.await("COMPLETE", 20*time.Minute) })
	t.Logf("RSS after the import: %d MB", f.memory("VmRSS"))
	if most := f.memory("VmHWM"); most > 1_000 {
		t.Errorf("the import took %d MB", most)
	}
}

// memory returns a figure of /proc/PID/status in MB.
func (f *importFleet) memory(name string) int {
	f.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.worker.cmd.Process.Pid))
	testkit.NoError(f.t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			var kb int
			if _, err := fmt.Sscan(value, &kb); err != nil {
				f.t.Fatal(err)
			}
			return kb >> 10
		}
	}
	f.t.Fatalf("no %s", name)
	return 0
}
