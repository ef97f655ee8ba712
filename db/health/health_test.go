package health_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// find returns what the checks find as "level check: problem".
func find(t *testing.T, d *db.DB, clock func() time.Time, isRunning bool) (lines []string) {
	t.Helper()
	state, err := health.Read(t.Context(), d, "v1", clock)
	testkit.NoError(t, err)
	found, err := state.Findings(t.Context(), isRunning)
	testkit.NoError(t, err)
	for _, f := range found {
		if f.Action == "" {
			t.Errorf("%s has no action", f.Check)
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", f.Level, f.Check, f.Problem))
	}
	return lines
}

// TestFind plants each condition alone, at both sides of its threshold.
func TestFind(t *testing.T) {
	t.Parallel()
	const fields = "(site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body) VALUES (1, 1, 'conversion', 'lead'"
	const mail = "INSERT INTO mails (account_id, recipient, kind, data, state, attempts, created_at, next_attempt_at) VALUES (1, 'a', 'test', '{}', "

	// A month less one may be no month of a year, but it is another one.
	notice := func(month model.Month, percent, quota int) string {
		return fmt.Sprintf("INSERT INTO quota_notices (account_id, site_id, product, month, threshold, created_at, quota) "+
			"SELECT account_id, id, 'analytics', %d, %d, 1, %d FROM sites", month, percent, quota)
	}

	for _, test := range []struct {
		name  string
		ahead time.Duration // of this process's clock
		plant func(t *testing.T, d *db.DB, now model.Instant) string
		want  string // the beginning of the only finding; empty: none
	}{
		{name: "nothing"},
		{name: "a clock that differs a little", ahead: 50 * time.Second},
		{name: "a clock that differs", ahead: 90 * time.Second, want: "error clock-difference: the database's clock differs from this machine's by"},
		{name: "a clock that jumped", want: "warning clock-untrusted: the database's clock has jumped",
			plant: func(_ *testing.T, _ *db.DB, now model.Instant) string {
				return fmt.Sprintf("UPDATE settings SET value = '%d %d %d' WHERE name = 'trusted_clock'", now, now, now)
			}},
		{name: "a worker that was seen lately", plant: func(_ *testing.T, _ *db.DB, now model.Instant) string {
			return fmt.Sprintf("UPDATE settings SET value = '%d 0 0' WHERE name = 'trusted_clock'", now.Add(-4*time.Minute))
		}},
		{name: "no worker", want: "error worker-missing: no worker has run for 5m0s",
			plant: func(_ *testing.T, _ *db.DB, now model.Instant) string {
				return fmt.Sprintf("UPDATE settings SET value = '%d 0 0' WHERE name = 'trusted_clock'", now.Add(-6*time.Minute))
			}},
		{name: "a delivery that is due", plant: func(_ *testing.T, _ *db.DB, now model.Instant) string {
			return fmt.Sprintf("INSERT INTO deliveries "+fields+", 'pending', 0, 1, %d, '{}')", now.Add(-8*time.Minute))
		}},
		{name: "a late delivery", want: "error deliveries-late: 1 deliveries are due, the oldest for 12m0s",
			plant: func(_ *testing.T, _ *db.DB, now model.Instant) string {
				return fmt.Sprintf("INSERT INTO deliveries "+fields+", 'pending', 0, 1, %d, '{}')", now.Add(-12*time.Minute))
			}},
		{name: "a mail that was sent after a failed one", plant: func(*testing.T, *db.DB, model.Instant) string {
			return mail + "'failed', 8, 1, 0), (1, 'a', 'test', '{}', 'sent', 1, 2, 0)"
		}},
		{name: "a mail that was given up", want: "warning mails-failing: the newest mail that is not waiting was given up on 1970-01-01",
			plant: func(*testing.T, *db.DB, model.Instant) string { return mail + "'failed', 8, 1, 0)" }},
		{name: "a mail that is sent again", want: "warning mails-failing: 1 mails are sent again after a failed attempt",
			plant: func(*testing.T, *db.DB, model.Instant) string { return mail + "'pending', 1, 1, 4102444800000000)" }},
		{name: "a quota of last month", plant: func(_ *testing.T, _ *db.DB, now model.Instant) string {
			return notice(now.Month()-1, 100, 10_000)
		}},
		{name: "a quota of a former plan", plant: func(_ *testing.T, _ *db.DB, now model.Instant) string {
			return notice(now.Month(), 100, 5_000)
		}},
		{name: "a quota that is nearly used up", want: "warning quota-nearly-used: 1 monthly quotas are used to 80 % or more: shop.example (80 % of 10000)",
			plant: func(_ *testing.T, _ *db.DB, now model.Instant) string { return notice(now.Month(), 80, 10_000) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
				world.New(t, d).Site("shop.example")
				now, err := d.Now(t.Context())
				testkit.NoError(t, err)
				statements := []string{fmt.Sprintf("INSERT INTO settings (name, value) VALUES ('trusted_clock', '%d 0 0')", now)}
				if test.plant != nil {
					statements = append(statements, test.plant(t, d, now))
				}
				for _, statement := range statements {
					testkit.NoError(t, dbtest.Exec(d, statement))
				}

				clock := func() time.Time { return time.Now().Add(test.ahead) }
				found := find(t, d, clock, true)
				if test.want == "" && len(found) > 0 || test.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], test.want)) {
					t.Errorf("found %q, want %q", found, test.want)
				}

				// A service that does not run has no worker.
				if found := find(t, d, clock, false); len(found) > 0 && strings.Contains(found[0], "worker-missing") {
					t.Errorf("without a service, found %q", found)
				}
			})
		})
	}
}

// TestCertificates checks that certificates that are missing or have expired are errors, and late
// ones warnings.
func TestCertificates(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const day = 24 * time.Hour
		now, err := d.Now(t.Context())
		testkit.NoError(t, err)
		for _, h := range []certificates.Host{
			{Host: "none.example"},
			{Host: "over.example", IssuedAt: now.Add(-91 * day), ExpiresAt: now.Add(-day)},
			{Host: "soon.example", IssuedAt: now.Add(-77 * day), ExpiresAt: now.Add(13 * day)},
			{Host: "good.example", IssuedAt: now.Add(-day), ExpiresAt: now.Add(89 * day)},
		} {
			testkit.NoError(t, certificates.New(d).See(t.Context(), h, now))
		}
		want := []string{
			"error tls-certificate: no TLS certificate for none.example yet",
			"error tls-certificate: the TLS certificate for over.example has expired",
			"warning tls-certificate: the TLS certificate for soon.example expires at " + now.Add(13*day).Time().Format(time.RFC3339),
		}
		testkit.EqualSlices(t, find(t, d, time.Now, false), want, "found")
	})
}
