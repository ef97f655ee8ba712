package test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/countrytest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// operatorFiles are the paths of an operator's files by setting.
type operatorFiles map[string]string

// newOperatorFiles writes valid files. The database of countries was built at a time.
func newOperatorFiles(t *testing.T, built time.Time) operatorFiles {
	t.Helper()

	dir, files := t.TempDir(), make(operatorFiles)
	for setting, content := range map[string][]byte{
		"TALLYGATE_GEO_FILE":           countrytest.Countries(t, built, map[string]string{"198.51.100.0/24": "DE"}),
		"TALLYGATE_REFERRER_SPAM_FILE": []byte("spam.example\n"),
		"TALLYGATE_DATA_CENTRE_FILE":   []byte("192.0.2.0/24\n"),
	} {
		files[setting] = writeFile(t, dir, setting, string(content))
	}
	return files
}

// replace renames a new file into place.
func (f operatorFiles) replace(t *testing.T, setting string, content []byte) {
	t.Helper()
	next := f[setting] + ".new"
	testkit.NoError(t, os.WriteFile(next, content, 0o600))
	testkit.NoError(t, os.Rename(next, f[setting]))
}

// TestOperatorFilesAtStart checks that a start with a faulty file ends with one line that names the
// setting and the reason, and writes nothing. A process without the data role reads no file.
func TestOperatorFilesAtStart(t *testing.T) {
	t.Parallel()

	for _, test := range []struct{ setting, content, want string }{
		{"TALLYGATE_GEO_FILE", "no database", "not a database in MaxMind's format"},
		{"TALLYGATE_GEO_FILE", string(countrytest.Owners(t, time.Now())), "without countries"},
		{"TALLYGATE_REFERRER_SPAM_FILE", "spam.example\nno domain\n", `line 2: "no domain" is not a domain`},
		{"TALLYGATE_DATA_CENTRE_FILE", "0.0.0.0/0\n", `line 1: "0.0.0.0/0" is the network of all addresses`},
	} {
		t.Run(test.setting, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, "sqlite:")
			files := newOperatorFiles(t, time.Now())
			maps.Copy(settings, files)
			files.replace(t, test.setting, []byte(test.content))
			settings["TALLYGATE_LOG_FORMAT"] = "text"

			status, out, log := tallygate(t, settings, "serve")
			if status != 1 || out != "" || strings.Count(log, "\n") != 1 || !strings.Contains(log, test.want) ||
				!strings.HasPrefix(log, fmt.Sprintf("tallygate: %s: %s: ", test.setting, files[test.setting])) {
				t.Errorf("exit status %d, output %q, log %q; want 1 and a line with %q", status, out, log, test.want)
			}
			if entries, err := os.ReadDir(settings["TALLYGATE_DATA_DIR"]); err != nil || len(entries) > 0 {
				t.Errorf("the refused start wrote %v, %v", entries, err)
			}

			settings["TALLYGATE_ROLES"], settings["TALLYGATE_LOG_FORMAT"] = "control", "json"
			start(t, settings, []string{"control"}).signal(syscall.SIGTERM)
		})
	}
}

// TestOperatorFilesReload checks what a process shows of its files: at the start, after a faulty
// file and after a valid one.
func TestOperatorFilesReload(t *testing.T) {
	t.Parallel()

	built := time.Now().Add(-48 * time.Hour)
	files := newOperatorFiles(t, built)
	settings := settingsFor(t, "sqlite:")
	maps.Copy(settings, files)
	settings["TALLYGATE_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	settings["TALLYGATE_METRICS_ADDR"] = "127.0.0.1:0"
	p := start(t, settings, []string{"control", "data", "metrics"})

	ready := func() string {
		body, _ := awaitReady(t, p, http.StatusOK)
		return body
	}
	line := func(setting string, at time.Time) string {
		return fmt.Sprintf("file: %s of %s\n", setting, at.UTC().Format(time.DateOnly))
	}
	today := time.Now()
	want := "ok\n" + line("TALLYGATE_GEO_FILE", built) + line("TALLYGATE_REFERRER_SPAM_FILE", today) +
		line("TALLYGATE_DATA_CENTRE_FILE", today)
	testkit.Equal(t, ready(), want, "readyz")

	const age, failed = "tallygate_operator_file_age_seconds", "tallygate_operator_file_reload_failed"
	if got, most := p.fileMetric(age, "TALLYGATE_GEO_FILE"), time.Since(built).Seconds()+1; got < most-60 || got > most {
		t.Errorf("the age of the countries is %v seconds, want %v", got, most)
	}
	for setting := range files {
		testkit.Equal(t, p.fileMetric(failed, setting), 0, "%s failed", setting)
	}

	// A faulty file is a warning without its path, and the process remains ready.
	files.replace(t, "TALLYGATE_GEO_FILE", []byte("no database"))
	awaitLog(t, p, "a changed file is not valid")
	body := ready()
	if !strings.Contains(body, "\nwarning: the changed file of TALLYGATE_GEO_FILE is not valid, and the data of "+
		built.UTC().Format(time.DateOnly)+" stays in use") || strings.Contains(body, files["TALLYGATE_GEO_FILE"]) {
		t.Errorf("readyz is %q", body)
	}
	testkit.Equal(t, p.fileMetric(failed, "TALLYGATE_GEO_FILE"), 1, "the metric of the failure")
	testkit.Equal(t, p.fileMetric(failed, "TALLYGATE_DATA_CENTRE_FILE"), 0, "the metric of another file")

	newer := built.Add(24 * time.Hour)
	files.replace(t, "TALLYGATE_GEO_FILE", countrytest.Countries(t, newer, map[string]string{"198.51.100.0/24": "FR"}))
	awaitLog(t, p, "a changed file is in use")
	if body := ready(); strings.Contains(body, "warning:") || !strings.Contains(body, line("TALLYGATE_GEO_FILE", newer)) {
		t.Errorf("readyz is %q", body)
	}
	testkit.Equal(t, p.fileMetric(failed, "TALLYGATE_GEO_FILE"), 0, "the metric of the failure")

	// The doctor understands the lines of the running service.
	settings["TALLYGATE_DATA_ADDR"] = p.addr["data"]
	i := &installation{T: t, settings: settings}
	if findings, status := i.examine(); status != 0 {
		t.Errorf("status %d, findings %q", status, findings)
	}
}

// fileMetric returns a metric of one file.
func (p *process) fileMetric(name, setting string) (value float64) {
	p.t.Helper()
	_, text := get(p.t, "http://"+p.addr["metrics"]+"/metrics")
	prefix := fmt.Sprintf("%s{setting=%q} ", name, setting)
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, prefix); found {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				p.t.Fatal(err)
			}
			return value
		}
	}
	p.t.Fatalf("no metric %s", prefix)
	return 0
}

// TestDoctorFiles checks what the doctor finds in files that are missing, faulty or old.
func TestDoctorFiles(t *testing.T) {
	t.Parallel()

	days := func(n int) time.Time { return time.Now().Add(-time.Duration(n) * 24 * time.Hour) }
	for _, test := range []struct {
		name   string
		built  time.Time
		change func(*testing.T, operatorFiles)
		want   []string
	}{
		{"new", days(59), nil, nil},
		{"old countries", days(61), nil, []string{"warning geo-file-old"}},
		{"old lists", days(1), func(t *testing.T, f operatorFiles) {
			for _, setting := range []string{"TALLYGATE_REFERRER_SPAM_FILE", "TALLYGATE_DATA_CENTRE_FILE"} {
				testkit.NoError(t, os.Chtimes(f[setting], days(181), days(181)))
			}
		}, []string{"warning data-centre-file-old", "warning referrer-spam-file-old"}},
		{"faulty", days(1), func(t *testing.T, f operatorFiles) {
			f.replace(t, "TALLYGATE_GEO_FILE", countrytest.Owners(t, time.Now()))
			f.replace(t, "TALLYGATE_DATA_CENTRE_FILE", []byte("example.org\n"))
			testkit.NoError(t, os.Remove(f["TALLYGATE_REFERRER_SPAM_FILE"]))
		}, []string{"error data-centre-file", "error geo-file", "error referrer-spam-file"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := embedded(t)
			files := newOperatorFiles(t, test.built)
			if test.change != nil {
				test.change(t, files)
			}
			maps.Copy(i.settings, files)

			if findings, _ := i.examine(); !slices.Equal(findings, test.want) {
				t.Errorf("findings %q, want %q", findings, test.want)
			}
		})
	}
}
