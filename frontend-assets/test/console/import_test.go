package console_test

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// importData is the folder of exports. The importer's own tests have counted their figures.
const importData = "../../../cmd/tallygate/importer/testdata"

// absolute returns the absolute path of a file of importData.
func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(importData, name))
	testkit.NoError(t, err)
	return path
}

// plausibleArchive returns an archive as Plausible exports it.
func plausibleArchive(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(importData, "plausible/*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files, error %v", len(names), err)
	}
	return archiveOf(t, names...)
}

// umamiArchive returns page views and events with a file of their properties, which is not
// imported.
func umamiArchive(t *testing.T) string {
	t.Helper()
	properties := filepath.Join(t.TempDir(), "event_data.csv")
	testkit.NoError(t, os.WriteFile(properties, []byte("event_id,data_key,string_value\n"), 0o600))
	return archiveOf(t, absolute(t, "umami.csv"), properties)
}

// archiveOf returns a ZIP archive of files.
func archiveOf(t *testing.T, names ...string) string {
	t.Helper()
	archive, err := os.Create(filepath.Join(t.TempDir(), "example.com.zip"))
	testkit.NoError(t, err)
	defer archive.Close()

	w := zip.NewWriter(archive)
	for _, name := range names {
		content, err := os.ReadFile(name)
		testkit.NoError(t, err)
		entry, err := w.Create(filepath.Base(name))
		if err == nil {
			_, err = entry.Write(content)
		}
		testkit.NoError(t, err)
	}
	testkit.NoError(t, w.Close())
	return archive.Name()
}

// reported counts the calls of totals: an equal report within 10 seconds would get the same answer.
var reported atomic.Int64

// totals returns visitors, visits, page views and events of February.
func (s *service) totals(siteID string) string {
	s.TB.Helper()
	until := time.Date(2026, 2, 8+int(reported.Add(1))%40, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	var data struct {
		Site struct {
			Report struct {
				Totals struct{ Visitors, Visits, Pageviews, Events int64 }
			}
		}
	}
	s.Do(`query($id: ID!, $until: Date!) { site(id: $id) { report(period: {from: "2026-02-01", to: $until}) {
		totals { visitors visits pageviews events } } } }`, map[string]any{"id": siteID, "until": until}, &data)
	t := data.Site.Report.Totals
	return fmt.Sprint(t.Visitors, t.Visits, t.Pageviews, t.Events)
}

// startImport fills the form of a new import and sends it.
func (p *tab) startImport(product string, files ...string) {
	p.t.Helper()
	p.fill("Service", product)
	p.WaitFor(labelled("Files"))
	p.Do(chromedp.SetUploadFiles("input[type=file]", files, chromedp.ByQuery))
	p.fill("Last day", "2026-02-05")
	p.press("Upload and check")
}

// TestImportChromium imports exports of three products, compares the figures with those that the
// importer's tests have counted, and undoes the imports.
func TestImportChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("example.com", "Example")
	p := s.openSignedIn("/sites/" + id)
	p.press("Settings")
	p.press("Import")
	p.see("This site has no imports.")
	p.look("import")
	p.Do(chromedp.EmulateViewport(320, 800))
	p.WaitFor("document.documentElement.scrollWidth <= 320")
	p.Do(chromedp.EmulateViewport(1280, 800))

	for _, test := range []struct{ product, name, file, want string }{
		{"PLAUSIBLE", "Plausible", plausibleArchive(t), "20 23 39 5"},
		{"UMAMI", "Umami", umamiArchive(t), "3 4 5 1"},
	} {
		p.startImport(test.product, test.file)
		p.see("will be imported.")
		figures := `[...document.querySelectorAll('[aria-label=Figures] td')].map(e => e.textContent).join(' ')`
		testkit.Equal(t, p.Text(figures), test.want, "the preview of %s", test.name)
		testkit.Equal(t, s.totals(id), "0 0 0 0", "before the confirmation of %s", test.name)
		if test.product == "UMAMI" {
			p.see("Not imported: properties of events")
			p.WaitFor(`(cells => cells.length === 4 && cells.every(e => getComputedStyle(e).textAlign === 'right' &&
				Math.abs(e.offsetWidth - cells[0].offsetWidth) < 2))([...document.querySelectorAll('[aria-label=Figures] td')])`)
			p.look("import-preview")

			p.Eval("localStorage.setItem('tallygate.language', 'de')", nil)
			p.Goto(p.Text("location.href"))
			p.see("Nicht importiert: Eigenschaften von Ereignissen")
			p.look("import-preview-german")
			p.Eval("localStorage.clear()", nil)
			p.Goto(p.Text("location.href"))
		}

		p.press("Import these figures")
		p.WaitFor(fmt.Sprintf(`document.querySelector('[aria-label=Imports] tbody')?.innerText.includes(%q)`, test.name))
		p.see(ownerEmail)
		testkit.Equal(t, s.totals(id), test.want, "the report after %s", test.name)
		if test.product == "PLAUSIBLE" {
			p.look("import-done")
		}

		p.press("Undo the import")
		p.fill("To confirm, type "+test.name, test.name)
		p.press("Undo the import")
		p.see("This site has no imports.")
		testkit.Equal(t, s.totals(id), "0 0 0 0", "after undoing %s", test.name)
	}
	p.clean(s)
}

// TestImportFailureChromium shows a damaged file with its line, errors at their fields, and
// discards a preview.
func TestImportFailureChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("example.com", "Example")
	damaged := filepath.Join(t.TempDir(), "imported_visitors.csv")
	const content = "date,visitors,pageviews,bounces,visits\n2026-02-01,1,2,0,1\n2026-02-02,x,2,0,1\n"
	testkit.NoError(t, os.WriteFile(damaged, []byte(content), 0o600))

	p := s.openSignedIn("/sites/" + id + "/import")
	p.startImport("PLAUSIBLE", damaged)
	p.see("The import from Plausible has failed, and nothing was stored.")
	p.see("imported_visitors.csv, line 3")
	p.look("import-failed")

	p.fill("Service", "GOATCOUNTER_API")
	p.fill("Address of GoatCounter", "http://stats.example.com")
	p.fill("API token", "secret")
	p.press("Read and check")
	p.WaitFor("document.activeElement.name === 'address' && document.activeElement.ariaInvalid === 'true'")

	// A page that is loaded again finds the job; an upload goes on with the same files.
	p.fill("Service", "UMAMI")
	p.WaitFor("document.querySelector('[name=firstDay]').value === '' && document.querySelector('[name=lastDay]').value === '2026-02-05'")
	p.Eval(`(fetched => {
		window.fetch = (address, options) => String(address).includes('import.php') ? new Promise(() => {}) : fetched(address, options);
	})(window.fetch)`, nil)
	p.startImport("UMAMI", absolute(t, "umami.csv"))
	p.see("are uploaded (0%)")
	p.WaitFor(`document.querySelector('progress[aria-label]').value === 0`)
	p.Goto(s.Origin + "/sites/" + id + "/import")
	p.see("The same files again")
	p.Do(chromedp.SetUploadFiles("input[type=file]", []string{damaged}, chromedp.ByQuery))
	p.press("Continue the upload")
	p.see("These are other files. Choose umami.csv.")
	p.Do(chromedp.SetUploadFiles("input[type=file]", []string{absolute(t, "umami.csv")}, chromedp.ByQuery))
	p.press("Continue the upload")
	p.see("will be imported.")
	p.press("Discard")
	p.see("New import")
	testkit.Equal(t, s.totals(id), "0 0 0 0", "after the discarded import")
	for _, m := range p.Console() {
		if strings.Contains(m.Text, "Uncaught") {
			t.Errorf("the console shows %s", m.Text)
		}
	}
}

// TestImportRefusalChromium reads in German why the days of an import are refused, and chooses
// other days in the form, which keeps the service and the file.
func TestImportRefusalChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("example.com", "Example")
	s.importPlausible(key)
	p := s.openSignedIn("/sites/" + id + "/import")
	p.see("on the server")
	p.startImport("UMAMI", absolute(t, "umami.csv"))
	p.see("The import from Plausible already has Feb 1, 2026 to Feb 4, 2026. Undo it, or choose other days below.")

	p.Eval("localStorage.setItem('tallygate.language', 'de')", nil)
	p.Goto(p.Text("location.href"))
	const refusal = "Der Import aus Plausible hat die Tage 01.02.2026 bis 04.02.2026 schon. " +
		"Machen Sie ihn rückgängig, oder wählen Sie unten andere Tage."
	p.see(refusal)
	p.see("auf dem Server")
	p.WaitFor(`document.querySelector('[name=source]').value === 'UMAMI'`)

	// The form is the same one after a refusal, and nothing is announced in addition to the box.
	p.WaitFor(labelled("Dateien"))
	p.Do(chromedp.SetUploadFiles("input[type=file]", []string{absolute(t, "umami.csv")}, chromedp.ByQuery))
	p.Eval(`document.querySelector('.notice.bad').classList.add('before')`, nil)
	p.press("Hochladen und prüfen")
	p.WaitFor(`!document.querySelector('.notice.bad.before') && document.querySelector('.notice.bad')?.innerText.includes('die Tage 01.02.2026')`)
	p.WaitFor(`document.querySelector('[name=files]').files[0]?.name === 'umami.csv' && document.querySelector('[name=source]').value === 'UMAMI'`)
	if text := p.Text("document.body.innerText"); strings.Contains(text, "Der Import ist gescheitert.") || strings.Contains(text, "--since") {
		t.Errorf("the page has %s", text)
	}
	p.look("import-refused-german")

	// An import of an unknown member has no author.
	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	testkit.NoError(t, dbtest.Exec(d, "UPDATE report_imports SET created_by = 1000000"))
	p.Goto(p.Text("location.href"))
	p.see("Importiert")
	p.WaitFor(`document.querySelector('[aria-label=Importe] tbody') && !document.body.innerText.includes('auf dem Server')`)
	p.clean(s)
}
