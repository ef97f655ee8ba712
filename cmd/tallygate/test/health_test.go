package test

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// awaitReady waits until /readyz has the status, and returns its body and the time that this took.
func awaitReady(t *testing.T, p *process, status int) (body string, took time.Duration) {
	t.Helper()
	began := time.Now()
	body = p.awaitReadyz("data", func(got int, _ string) bool { return got == status })
	return body, time.Since(began)
}

// TestReadinessReadsSettings checks that a data node that cannot read the settings of sites, or of
// sitekeys, is not ready, and is ready again when it can.
func TestReadinessReadsSettings(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		p := start(t, settings, []string{"control", "data"})
		newOwner(t, p).signUp("crash.localhost")
		awaitReady(t, p, http.StatusOK)

		d := dbtest.Open(t, databaseOf(settings))
		for _, table := range []string{"site_domains", "sitekeys"} {
			rename := func(from, to string) {
				t.Helper()
				testkit.NoError(t, dbtest.Exec(d, "ALTER TABLE "+from+" RENAME TO "+to))
			}

			rename(table, "away")
			body, _ := awaitReady(t, p, http.StatusServiceUnavailable)
			if !strings.HasPrefix(body, "settings of sites not readable\ncheck: database\nsince: ") {
				t.Errorf("without the table %s, readyz is %q", table, body)
			}

			rename("away", table)
			awaitReady(t, p, http.StatusOK)
		}
	})
}

// notWritable is how the answer of /readyz begins for a database that cannot be written.
const notWritable = "database not writable\ncheck: database\nsince: "

// TestReadyOnFullDisk checks that a full disk is noticed within seconds, and so is free space.
func TestReadyOnFullDisk(t *testing.T) {
	t.Parallel()

	disk := t.TempDir()

	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		testkit.Missing(t, "only root on Linux can mount a small disk")
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		testkit.Missing(t, "a small disk cannot be mounted: "+err.Error())
	}

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_DATA_DIR"] = filepath.Join(disk, "data")
	p := start(t, settings, []string{"control", "data"})

	// This cleanup runs before that of start, so the process must stop here.
	t.Cleanup(func() {
		p.kill()
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})

	awaitReady(t, p, http.StatusOK)

	filler := filepath.Join(disk, "filler")
	fill(t, filler)

	body, took := awaitReady(t, p, http.StatusServiceUnavailable)
	if !strings.HasPrefix(body, notWritable) {
		t.Errorf("readyz: %q", body)
	}

	awaitLog(t, p, `"msg":"not ready","reason":"database not writable"`)
	t.Logf("a full disk was noticed after %v", took)

	testkit.NoError(t, os.Remove(filler))

	awaitReady(t, p, http.StatusOK)
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()

	file, err := os.Create(name)
	testkit.NoError(t, err)
	defer file.Close()

	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// TestReadyOnReadOnlyServer checks that a read-only PostgreSQL server is noticed.
func TestReadyOnReadOnlyServer(t *testing.T) {
	t.Parallel()
	testkit.SkipLong(t, "faults of processes")

	t.Run("postgres", func(t *testing.T) {
		databaseURL := dbtest.PostgresURL(t)
		p := start(t, settingsFor(t, databaseURL), []string{"control", "data"})
		awaitReady(t, p, http.StatusOK)

		d := dbtest.Open(t, databaseURL)
		for _, statement := range []string{
			`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`,
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
		} {
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		// The connections that were cut can be noticed first.
		p.awaitReadyz("data", func(status int, body string) bool {
			return status == http.StatusServiceUnavailable && strings.HasPrefix(body, notWritable)
		})
	})
}

// TestDrainDelay checks that after the signal the process is not ready but continues to serve,
// until the delay has passed or a second signal arrives.
func TestDrainDelay(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		name, delay string
		hurry       bool
	}{{"the delay ends", "2s", false}, {"a second signal", "60s", true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			settings := settingsFor(t, "sqlite:")
			settings["TALLYGATE_DRAIN_DELAY"] = test.delay
			p := start(t, settings, []string{"control", "data"})
			site := newOwner(t, p).signUp("crash.localhost")
			signalled := time.Now()

			testkit.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))

			for _, role := range []string{"control", "data"} {
				p.awaitReadyz(role, func(status int, body string) bool {
					return status == http.StatusServiceUnavailable && strings.HasPrefix(body, "draining\ncheck: drain\nsince: ")
				})
			}

			if status, err := sendPageview(http.DefaultClient, p.addr["data"], site.SiteKey, "/late"); err != nil ||
				status != http.StatusNoContent {
				t.Errorf("a page view during the delay: %d, %v", status, err)
			}

			if response, _ := exchange(t, http.DefaultClient, "GET", "http://"+p.addr["data"]+"/svc.js", "", nil); !response.Close {
				t.Errorf("an answer during the delay keeps its connection open: %+v", response)
			}

			if test.hurry {
				p.signal(syscall.SIGTERM)
			}

			p.awaitEnd()
			p.wantCleanStop()
			if took := time.Since(signalled); !test.hurry && took < 2*time.Second {
				t.Errorf("the process ended after %v, before its delay", took)
			}
		})
	}
}
