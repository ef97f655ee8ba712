package test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/cmd/tallygate/secret"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestFileModes checks that only the owner can read the database's files, with any umask and after
// an upgrade, and that a readable folder is reported.
func TestFileModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)

	for _, test := range []struct {
		name   string
		folder os.FileMode // 0: created by the program
		file   os.FileMode // of an existing database; 0: none
		warned bool
	}{{"new folder", 0, 0, false}, {"new file", 0o755, 0, true}, {"older file", 0o700, 0o644, false}} {
		t.Run(test.name, func(t *testing.T) {
			settings := settingsFor(t, "sqlite:")
			dir := filepath.Join(t.TempDir(), "data")
			settings["TALLYGATE_DATA_DIR"] = dir
			names := []string{"tallygate.sqlite", "tallygate.sqlite-wal", "tallygate.sqlite-shm", "secret", "lock"}

			if test.folder != 0 {
				testkit.NoError(t, os.Mkdir(dir, test.folder))
			}

			// Leave the files as a killed earlier version does.
			if test.file != 0 {
				p := start(t, settings, []string{"control", "data"})
				newOwner(t, p).signUp("crash.localhost")
				p.kill()

				for _, name := range names[:3] {
					testkit.NoError(t, os.Chmod(filepath.Join(dir, name), test.file))
				}
			}

			p := start(t, settings, []string{"control", "data"})

			for _, name := range names {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: %v, %v; want mode 0600", name, info, err)
				}
			}

			const warning = "other users of this machine can read the data folder"

			if test.warned {
				awaitLog(t, p, warning)
			}

			p.signal(syscall.SIGTERM)

			if strings.Contains(p.logged(), warning) != test.warned {
				t.Errorf("warned the wrong way:\n%s", p.logged())
			}
		})
	}
}

// crashed is an installation whose process was killed under load.
type crashed struct {
	settings     map[string]string
	database     string // file
	site         testSite
	acknowledged []string
	older        []byte // copy of the log from the middle of the load
}

// crash kills a process under load.
func crash(t *testing.T) *crashed {
	t.Helper()

	c := &crashed{settings: settingsFor(t, "sqlite:")}
	c.database = filepath.Join(c.settings["TALLYGATE_DATA_DIR"], "tallygate.sqlite")
	p := start(t, c.settings, []string{"control", "data"})
	c.site = newOwner(t, p).signUp("crash.localhost")

	count, finished := startLoad(t, p, c.site.SiteKey, "x")
	awaitResponses(t, p, count, 50)

	var err error
	if c.older, err = os.ReadFile(c.database + "-wal"); err != nil {
		t.Fatal(err)
	}

	killUnderLoad(t, p, count, 100*time.Millisecond)
	c.acknowledged = <-finished
	awaitFreeFolder(t, c.settings["TALLYGATE_DATA_DIR"])
	return c
}

// awaitFreeFolder waits until the last of several killed processes has released the data folder.
// The log of a child ends before that.
func awaitFreeFolder(t *testing.T, dir string) {
	t.Helper()
	lock, err := os.Open(filepath.Join(dir, "lock"))
	testkit.NoError(t, err)
	defer lock.Close()
	testkit.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
}

// isUncopied reports whether the log holds commits that are missing in the database file.
func (c *crashed) isUncopied(t *testing.T) bool {
	t.Helper()
	index, err := os.ReadFile(c.database + "-shm")
	testkit.NoError(t, err)
	// The two numbers are the last frame and the last copied frame.
	return string(index[16:20]) != string(index[96:100])
}

// TestLostLog checks that a log that was removed or replaced after a kill stops the start without
// changes, that nothing is lost with the right log, and that an accepted loss is logged.
func TestLostLog(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		name   string
		tamper func(c *crashed) error
		want   string
	}{
		{"removed", func(c *crashed) error { return os.Remove(c.database + "-wal") }, database.LogLost},
		{"an older copy", func(c *crashed) error { return os.WriteFile(c.database+"-wal", c.older, 0o600) },
			database.LogStale},
		{"emptied", func(c *crashed) error { return os.Truncate(c.database+"-wal", 0) }, database.LogLost},
		{"cut off", func(c *crashed) error { return os.Truncate(c.database+"-wal", 32+24+100) }, database.LogStale},
		{"changed in the middle", func(c *crashed) error { return flip(c.database+"-wal", 32+24+4096+24+50) },
			database.LogStale},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			c := uncopied(t)
			log, err := os.ReadFile(c.database + "-wal")
			testkit.NoError(t, err)
			testkit.NoError(t, test.tamper(c))

			// A refusal must leave the files unchanged.
			for range 2 {
				status, text := c.refused(t)
				if status != 4 || !strings.Contains(text, test.want) || !strings.Contains(text, `"level":"ERROR"`) ||
					!strings.Contains(text, "TALLYGATE_ACCEPT_LOST_LOG") {
					t.Fatalf("exit status %d, want 4 and %q:\n%s", status, test.want, text)
				}
			}

			// Restore the right file.
			if test.name == "cut off" {
				testkit.NoError(t, os.WriteFile(c.database+"-wal", log, 0o600))

				compareAfterStart(t, c.settings, c.site, c.acknowledged)
				return
			}

			c.settings["TALLYGATE_ACCEPT_LOST_LOG"] = "true"

			// This start accepts the loss. It may find the file damaged.
			status, _, text := tallygate(t, c.settings, "migrate")
			if status == 4 && strings.Contains(text, "restore a backup") {
				t.Logf("the database is damaged without its log, which was reported: %s", text)
				return
			}

			if status != 0 || !strings.Contains(text, test.want+"; continuing without them") {
				t.Fatalf("exit status %d:\n%s", status, text)
			}
			if aside, _ := filepath.Glob(c.database + "-wal.unused-*"); (len(aside) == 1) != (test.name != "removed") {
				t.Errorf("%v were set aside", aside)
			}

			newOwner(t, start(t, c.settings, []string{"control", "data"})).signIn("crash.localhost")
		})
	}
}

// refused starts a process that must terminate by itself, and returns its exit status and log.
func (c *crashed) refused(t *testing.T) (status int, log string) {
	t.Helper()

	var stderr bytes.Buffer
	cmd := newCommand(c.settings, "serve")
	cmd.Stderr = &stderr
	testkit.NoError(t, cmd.Start())

	// A timeout shows as status -1.
	serves := time.AfterFunc(patience/4, func() { cmd.Process.Kill() })
	defer serves.Stop()

	// The exit status contains the same information.
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), stderr.String()
}

func flip(name string, at int64) error {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()

	var b [1]byte
	if _, err := file.ReadAt(b[:], at); err != nil {
		return err
	}

	b[0] ^= 1
	_, err = file.WriteAt(b[:], at)
	return err
}

// TestAcceptedLossIsShown checks that a start without the lost commits is reported in the log and
// by /readyz.
func TestAcceptedLossIsShown(t *testing.T) {
	t.Parallel()

	c := wholeWithoutLog(t, uncopied)
	testkit.NoError(t, os.Remove(c.database+"-wal"))

	c.settings["TALLYGATE_ACCEPT_LOST_LOG"] = "true"
	p := start(t, c.settings, []string{"control", "data"})
	awaitLog(t, p, `"level":"ERROR","msg":"`+database.LogLost)

	if status, body := get(t, "http://"+p.addr["data"]+"/readyz"); status != http.StatusOK ||
		body != "ok\nwarning: "+database.LogLost+"\n" {
		t.Errorf("readyz: %d %q", status, body)
	}

	p.signal(syscall.SIGTERM)
	p = start(t, c.settings, []string{"control", "data"})
	if status, body := get(t, "http://"+p.addr["data"]+"/readyz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("readyz after a clean stop: %d %q", status, body)
	}
}

// uncopied repeats crash until the log alone holds commits.
func uncopied(t *testing.T) *crashed {
	t.Helper()
	for range 20 {
		if c := crash(t); c.isUncopied(t) {
			return c
		}
	}

	t.Fatal("each kill met a log that was copied as a whole")
	return nil
}

// TestNoFalseAlarm checks that kills, clean stops, several processes and restored backups alone are
// no loss.
func TestNoFalseAlarm(t *testing.T) {
	t.Parallel()

	c := crash(t)
	quiet := func(what string, settings map[string]string) *process {
		t.Helper()
		p := start(t, settings, []string{"control", "data"})
		if status, body := get(t, "http://"+p.addr["data"]+"/readyz"); status != http.StatusOK || body != "ok\n" ||
			strings.Contains(p.logged(), "SQLite log") {
			t.Errorf("%s: readyz %d %q\n%s", what, status, body, p.logged())
		}
		return p
	}

	p := quiet("after a kill", c.settings)
	p.kill()
	p = quiet("after a kill without a write", c.settings)
	second := quiet("next to another process", c.settings)
	p.kill()
	third := quiet("after one of two was killed", c.settings)
	second.signal(syscall.SIGTERM)
	third.kill()
	p = quiet("after a stop and a kill", c.settings)
	second = quiet("next to another process", c.settings)
	p.signal(syscall.SIGTERM)
	second.signal(syscall.SIGTERM)

	// Remove the log and -shm; -salts remains.
	if files, _ := filepath.Glob(c.database + "-[^s]*"); len(files) != 0 {
		t.Errorf("clean stops leave %v", files)
	}

	p = quiet("after clean stops", c.settings)

	backup := filepath.Join(t.TempDir(), "tallygate.sqlite")
	testkit.NoError(t, dbtest.Exec(dbtest.Open(t, "sqlite:"+c.database), fmt.Sprintf("VACUUM INTO '%s'", backup)))

	p.kill()
	restored := maps.Clone(c.settings)
	restored["TALLYGATE_DATA_DIR"] = filepath.Dir(backup)
	writeFile(t, filepath.Dir(backup), secret.File, readFile(t, filepath.Join(c.settings["TALLYGATE_DATA_DIR"], secret.File)))

	p = quiet("a restored backup", restored)
	o := newOwner(t, p)
	o.signIn("crash.localhost")
	compare(t, o, c.site, c.acknowledged)
}

// TestLogAndIndexMissing checks that the start warns if both files are missing after a kill. Either
// sqlite3 or a loss may be the cause.
func TestLogAndIndexMissing(t *testing.T) {
	t.Parallel()

	c := wholeWithoutLog(t, crash)
	for _, name := range []string{"-wal", "-shm"} {
		testkit.NoError(t, os.Remove(c.database+name))
	}

	p := start(t, c.settings, []string{"control", "data"})
	awaitLog(t, p, `"level":"WARN","msg":"`+database.LogAbsent)

	if status, body := get(t, "http://"+p.addr["data"]+"/readyz"); status != http.StatusOK ||
		!strings.Contains(body, "warning: "+database.LogAbsent) {
		t.Errorf("readyz: %d %q", status, body)
	}
}

// wholeWithoutLog crashes until the database file is consistent by itself. It is damaged if a part
// of the log had been copied to it.
func wholeWithoutLog(t *testing.T, crash func(*testing.T) *crashed) *crashed {
	t.Helper()

	c := crash(t)
	for range 20 {
		if c.isWholeWithoutLog(t) {
			break
		}
		c = crash(t)
	}
	return c
}

// isWholeWithoutLog reports whether the database file is consistent by itself.
func (c *crashed) isWholeWithoutLog(t *testing.T) bool {
	t.Helper()

	alone := writeFile(t, t.TempDir(), "alone.sqlite", readFile(t, c.database))
	checked, err := dbtest.Rows[string](dbtest.Open(t, "sqlite:"+alone), "PRAGMA quick_check")
	return err == nil && len(checked) == 1 && checked[0] == "ok"
}
