package operatorfile

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/countrytest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// fixture is a file on disk with the log of its reader.
type fixture struct {
	testing.TB
	path string
	now  time.Time
	log  bytes.Buffer
	age  int // grows with each write, so that the times of modification differ
}

// newFixture returns a fixture without a file.
func newFixture(tb testing.TB, name string) *fixture {
	return &fixture{TB: tb, path: filepath.Join(tb.TempDir(), name), now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}
}

func (f *fixture) source() Source {
	return Source{Setting: "TALLYGATE_TEST_FILE", Path: f.path, Now: func() time.Time { return f.now },
		Log: slog.New(slog.NewTextHandler(&f.log, nil))}
}

// write overwrites the file in place.
func (f *fixture) write(data []byte) {
	f.Helper()
	testkit.NoError(f, os.WriteFile(f.path, data, 0o600))
	f.touch()
}

// rename replaces the file by another one.
func (f *fixture) rename(data []byte) {
	f.Helper()
	next := f.path + ".new"
	testkit.NoError(f, os.WriteFile(next, data, 0o600))
	testkit.NoError(f, os.Rename(next, f.path))
	f.touch()
}

// touch gives the file a time of modification of its own: two writes in a row may have the same
// time.
func (f *fixture) touch() {
	f.Helper()
	f.age++
	at := f.now.Add(time.Duration(f.age-100) * time.Hour)
	testkit.NoError(f, os.Chtimes(f.path, at, at))
}

// warnings returns how many warnings were logged.
func (f *fixture) warnings() int { return strings.Count(f.log.String(), "level=WARN") }

var (
	built = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

	inGermany = netip.MustParseAddr("198.51.100.7")
	inJapan   = netip.MustParseAddr("2001:db8:1::7")
)

// germanyAndJapan returns a database of two countries.
func germanyAndJapan(tb testing.TB) []byte {
	return countrytest.Countries(tb, built, map[string]string{"198.51.100.0/24": "DE", "2001:db8:1::/48": "JP"})
}

// TestReload follows a file from a valid one over faulty ones to a valid one again.
func TestReload(t *testing.T) {
	f := newFixture(t, "country.mmdb")
	f.write(germanyAndJapan(t))
	file, err := OpenCountries(f.source())
	testkit.NoError(t, err)

	// check checks the file, and what is in use afterwards.
	check := func(step, country, wantError string, warnings int) {
		t.Helper()
		f.now = f.now.Add(CheckEvery)
		file.Check()
		file.Check() // a second check changes nothing

		state := file.State()
		testkit.Equal(t, file.Value().Country(inGermany), country, "%s: the country", step)
		if wantError == "" && state.Err != nil || wantError != "" && (state.Err == nil || !strings.Contains(state.Err.Error(), wantError)) {
			t.Errorf("%s: the error is %v, want %q", step, state.Err, wantError)
		}
		if wantError != "" && state.Failed.IsZero() || wantError == "" && !state.Failed.IsZero() {
			t.Errorf("%s: failed at %v", step, state.Failed)
		}
		if got := f.warnings(); got != warnings {
			t.Errorf("%s: %d warnings, want %d:\n%s", step, got, warnings, &f.log)
		}
	}

	loaded := file.State().Loaded
	check("unchanged", "DE", "", 0)
	if state := file.State(); !state.Loaded.Equal(loaded) || !state.Built.Equal(built) || state.Setting != "TALLYGATE_TEST_FILE" ||
		state.Path != f.path {
		t.Errorf("state: %+v", state)
	}

	f.rename([]byte("no database"))
	check("another format", "DE", "not a database in MaxMind's format", 1)
	f.rename(countrytest.Owners(t, built))
	check("foreign database", "DE", `of the type "GeoLite2-ASN" without countries`, 2)
	f.write(germanyAndJapan(t)[:400])
	check("truncated in place", "DE", "truncated", 3)
	f.write(nil)
	check("empty", "DE", "not a database", 4)

	testkit.NoError(t, os.Remove(f.path))
	check("missing", "DE", "no such file", 5)
	check("still missing", "DE", "no such file", 5)

	testkit.NoError(t, os.Mkdir(f.path, 0o700))
	check("folder", "DE", "not a regular file", 6)
	testkit.NoError(t, os.Remove(f.path))

	newer := built.Add(31 * 24 * time.Hour)
	f.rename(countrytest.Countries(t, newer, map[string]string{"198.51.100.0/24": "FR"}))
	check("valid again", "FR", "", 6)
	if state := file.State(); !state.Built.Equal(newer) || !state.Loaded.After(loaded) {
		t.Errorf("state after the reload: %+v", state)
	}

	// A file of the same size and time is noticed by its identity.
	before, err := os.Stat(f.path)
	testkit.NoError(t, err)
	f.rename(countrytest.Countries(t, newer, map[string]string{"198.51.100.0/24": "IT"}))
	testkit.NoError(t, os.Chtimes(f.path, before.ModTime(), before.ModTime()))
	check("same size and time", "IT", "", 6)
}

// TestOpenRefuses checks what is refused at the start.
func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(*fixture)
		want    string
	}{
		{"missing", func(*fixture) {}, "no such file"},
		{"folder", func(f *fixture) { _ = os.Mkdir(f.path, 0o700) }, "not a regular file"},
		{"too large", func(f *fixture) {
			f.write(nil)
			testkit.NoError(f, os.Truncate(f.path, maxSize+1))
		}, "take the country edition"},
		{"text", func(f *fixture) { f.write([]byte("192.0.2.0/24,DE\n")) }, "not a database in MaxMind's format"},
		{"owners", func(f *fixture) { f.write(countrytest.Owners(f, built)) }, "without countries"},
		{"no countries that exist", func(f *fixture) {
			f.write(countrytest.Countries(f, built, map[string]string{"192.0.2.0/24": "ZZ"}))
		}, "without countries"},
		{"without its end", func(f *fixture) { f.write(germanyAndJapan(f)[:300]) }, "truncated"},
		{"without its beginning", func(f *fixture) { f.write(germanyAndJapan(f)[200:]) }, ""},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, "country.mmdb")
			test.prepare(f)

			if _, err := OpenCountries(f.source()); err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), f.path) {
				t.Errorf("the error is %v, want %q with the path", err, test.want)
			}
			if f.log.Len() > 0 {
				t.Errorf("logged: %s", &f.log)
			}
		})
	}
}

// TestReplacedWhileUsed replaces and truncates the file while lookups run. Each lookup finds the
// country of one of the valid files.
func TestReplacedWhileUsed(t *testing.T) {
	f := newFixture(t, "country.mmdb")
	germany := germanyAndJapan(t)
	france := countrytest.Countries(t, built, map[string]string{"198.51.100.0/24": "FR"})
	f.write(germany)
	file, err := OpenCountries(f.source())
	testkit.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	var lookups sync.WaitGroup
	for range 4 {
		lookups.Go(func() {
			for ctx.Err() == nil {
				if country := file.Value().Country(inGermany); country != "DE" && country != "FR" {
					t.Errorf("the country is %q", country)
					return
				}
				_ = file.State()
			}
		})
	}

	ticks := make(chan time.Time)
	watched := make(chan struct{})
	go func() { Watch(ctx, ticks, file); close(watched) }()
	for i := range 100 {
		switch i % 4 {
		case 0:
			f.write(france)
		case 1:
			f.write(germany[:len(germany)/2])
		case 2:
			f.write(germany)
		case 3:
			f.write(nil)
		}
		ticks <- f.now
	}

	cancel()
	<-watched
	lookups.Wait()
}

// TestDeviceIsRefused checks that no device or named pipe is opened, which could block the start.
func TestDeviceIsRefused(t *testing.T) {
	if _, _, err := read(os.DevNull); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a device: %v", err)
	}
}
