package test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// metric reads a metric at the address of a process; ok is false if the process does not have the
// metric.
func metric(t *testing.T, address, name string) (value float64, ok bool) {
	t.Helper()
	_, text := get(t, "http://"+address+"/metrics")
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
	if match == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(match[1], 64)
	return value, err == nil
}

// TestStorageMetrics: the metrics have the free space, the size, the last backup and the
// certificates, on each database. A process keeps the size and the backup for a minute after it has
// read them.
func TestStorageMetrics(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(proxy.Close)
	authorities, certificate := certificateFile(t, proxy), proxy.Certificate()

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		settings["TALLYGATE_SECRET"] = dbtest.ApplicationKey
		settings["TALLYGATE_METRICS_ADDR"], settings["TALLYGATE_HEALTH_ADDR"] = dbtest.FreeAddress(t), ""
		isPostgres := settings["TALLYGATE_DATABASE_URL"] != ""
		scrape := func(name string) (float64, bool) { return metric(t, settings["TALLYGATE_METRICS_ADDR"], name) }
		const backup, expiry = "tallygate_last_backup_timestamp_seconds", "tallygate_certificate_expiry_timestamp_seconds"

		p := start(t, settings, []string{"control", "data", "metrics"})
		if free, known := scrape("tallygate_disk_free_bytes"); known == isPostgres || known && free < 1<<20 {
			t.Errorf("%v bytes are free, known: %v", free, known)
		}
		if size, known := scrape("tallygate_database_size_bytes"); !known || size < 100_000 {
			t.Errorf("the size is %v, known: %v", size, known)
		}
		if at, known := scrape(backup); known == isPostgres || at != 0 {
			t.Errorf("before a backup: %v, known: %v", at, known)
		}
		p.kill()

		// A backup of SQLite records itself.
		before := time.Now()
		i := &installation{T: t, settings: settings}
		if isPostgres {
			i.wantCommand(0, "", "admin", "record-backup")
		} else {
			i.wantCommand(0, "and verified", "admin", "backup", filepath.Join(t.TempDir(), "backup.sqlite"))
		}

		// The proxy's certificate is trusted at one address, and has no name of the other one.
		_, port, err := net.SplitHostPort(strings.TrimPrefix(proxy.URL, "https://"))
		testkit.NoError(t, err)
		settings["SSL_CERT_FILE"] = authorities
		settings["TALLYGATE_BASE_URL"], settings["TALLYGATE_ANALYTICS_URL"] = proxy.URL, "https://localhost:"+port
		start(t, settings, []string{"control", "data", "metrics"})
		if at, known := scrape(backup); !known || at < float64(before.Unix())-60 || at > float64(time.Now().Unix())+60 {
			t.Errorf("the backup at %v is %v, known: %v", before.Unix(), at, known)
		}
		for setting, want := range map[string]float64{"TALLYGATE_BASE_URL": float64(certificate.NotAfter.Unix()), "TALLYGATE_ANALYTICS_URL": 0} {
			name := expiry + `{setting="` + setting + `"}`
			testkit.Await(t, name, func() bool { _, known := scrape(name); return known })
			if got, _ := scrape(name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}
