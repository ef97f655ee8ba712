package doctor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// checks returns the names of the findings.
func (e *examination) checks() (names []string) {
	for _, f := range e.report.Findings {
		names = append(names, f.Check)
	}
	return names
}

// TestReadingComesLast checks that reading a large file is announced, takes no time from the other
// checks of the database, and is not limited by theirs.
func TestReadingComesLast(t *testing.T) {
	largeFile = 0 // no other test of this package reads a file

	dir := t.TempDir()
	c := &config.Config{DataDir: dir, Roles: []config.Role{config.RoleControl}, ControlAddr: "0.0.0.0:8080", Signups: model.SignupsOpen}
	d := dbtest.Open(t, db.EmbeddedURL(dir))
	testkit.NoError(t, migrations.Apply(t.Context(), d))

	ctx, cancel := context.WithCancel(t.Context())
	var announced []string
	e := &examination{c: c, Options: Options{Now: time.Now, Progress: func(text string) {
		announced = append(announced, text)
		cancel() // what the area's end would do
	}}}
	if !e.checkDatabase(ctx) || !slices.Equal(e.checks(), []string{"account-missing"}) || ctx.Err() == nil {
		t.Errorf("findings %+v", e.report.Findings)
	}
	if len(announced) != 1 || !strings.HasPrefix(announced[0], "Reading the database file of ") {
		t.Errorf("announced %q", announced)
	}

	// Findings in a damaged file are not reported.
	path := filepath.Join(dir, "tallygate.sqlite")
	testkit.NoError(t, d.Close())
	file, err := os.ReadFile(path)
	testkit.NoError(t, err)
	for i := len(file) / 2; i < len(file); i++ {
		file[i] = 'x'
	}
	testkit.NoError(t, os.WriteFile(path, file, 0o600))
	e = &examination{c: c, Options: Options{Now: time.Now}}
	if e.checkDatabase(t.Context()); !slices.Equal(e.checks(), []string{"database-damaged"}) {
		t.Errorf("of a damaged file: %+v", e.report.Findings)
	}
}

// TestPortsOfTheService checks that ports which the running service holds are no finding, and
// others are.
func TestPortsOfTheService(t *testing.T) {
	t.Parallel()

	held, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer held.Close()
	for isRunning, want := range map[bool]int{true: 0, false: 1} {
		e := &examination{isRunning: isRunning}
		if e.checkPort(t.Context(), "TALLYGATE_TLS_ADDR", config.Address(held.Addr().String())); len(e.report.Findings) != want {
			t.Errorf("running %t: findings %+v, want %d", isRunning, e.report.Findings, want)
		}
	}
}

// TestOriginsWithoutProxy checks that no advice speaks of a proxy where the program terminates TLS,
// and that nothing is asked before its start.
func TestOriginsWithoutProxy(t *testing.T) {
	t.Parallel()

	c := &config.Config{BaseURL: "https://localhost:1", Roles: []config.Role{config.RoleControl}, TLS: config.TLSAuto}
	for isRunning, want := range map[bool][]string{true: {"origin-unreachable"}, false: nil} {
		e := &examination{c: c, Options: Options{Now: time.Now}, isRunning: isRunning}
		e.checkOrigins(t.Context())
		testkit.EqualSlices(t, e.checks(), want, "running %t: findings %+v", isRunning, e.report.Findings)
		for _, f := range e.report.Findings {
			if strings.Contains(f.Problem+f.Action, "proxy") {
				t.Errorf("advice of a proxy: %+v", f)
			}
		}
	}
}

// TestRedisClock: a clock that differs from Redis's by more than a minute is found.
func TestRedisClock(t *testing.T) {
	t.Parallel()

	c := &config.Config{RedisURL: config.RedisURL(redistest.URL(t))}
	for difference, want := range map[time.Duration]int{0: 0, 50 * time.Second: 0, 5 * time.Minute: 1, -5 * time.Minute: 1} {
		e := &examination{Options: Options{Now: func() time.Time { return time.Now().Add(difference) }}, c: c}
		if !e.checkRedis(t.Context()) || len(e.report.Findings) != want || want == 1 && e.report.Findings[0].Check != "redis-clock" {
			t.Errorf("a difference of %v: findings %+v, want %d", difference, e.report.Findings, want)
		}
	}
}

// TestVersions: versions are compared as numbers.
func TestVersions(t *testing.T) {
	t.Parallel()

	for version, want := range map[string]bool{
		"6.2.0": true, "6.2": true, "6.10.1": true, "7.0.15": true, "10.0": true, "8": true,
		"6.0.16": false, "5.0.14": false, "": false, "x.y": false,
	} {
		testkit.Equal(t, atLeast(version, 6, 2), want, "%q is 6.2 or newer", version)
	}
}
