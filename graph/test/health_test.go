package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestInstallationHealth: operators see what waits of all accounts and whether a worker has trusted
// the clock. TestRoles checks who may read it.
func TestInstallationHealth(t *testing.T) {
	t.Parallel()
	const query = `{ installationHealth { version database pendingDeliveries dueDeliveries oldestDueAt dueMails dueReports
		workerSeenAt clockTrusted clockAheadMs } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) { s.graph.Configuration.Version = "v1.2.3 0f0f" })
		operator := a.owner("operator@example.com")
		a.owner("owner@example.com").siteOf("example.com")

		check := func(state string, want map[string]any) {
			t.Helper()
			got := operator.query(query).ok(t, "")
			for name, value := range want {
				if is := got.at("installationHealth." + name); is != value {
					t.Errorf("%s: %s is %v, want %v", state, name, is, value)
				}
			}
		}

		check("without work", map[string]any{"version": "v1.2.3 0f0f", "database": d.Dialect(), "pendingDeliveries": 0.0, "dueDeliveries": 0.0,
			"oldestDueAt": nil, "dueReports": 0.0, "workerSeenAt": nil, "clockTrusted": true})

		// One delivery is due and one follows in the year 2100; a day's report is due.
		for _, statement := range []string{
			`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
				VALUES (1, 1, 'conversion', 'lead', 'pending', 0, 1, 1000000, '{}'),
				(1, 2, 'conversion', 'lead', 'pending', 1, 1, 4102444800000000, '{}'), (1, 3, 'conversion', 'lead', 'failed', 5, 1, 1, '{}')`,
			`INSERT INTO report_days (site_id, day, state, version, due_at, built_at, visits, pageviews, events, checksum)
				VALUES (1, 1, 0, 1, 1, 0, 0, 0, 0, 0), (1, 2, 1, 1, NULL, 1, 0, 0, 0, 0)`,
			`INSERT INTO settings (name, value) VALUES ('trusted_clock', '2000000 3000000 3000000')`,
		} {
			if err := dbtest.Exec(d, statement); err != nil {
				t.Fatal(err)
			}
		}
		check("with work, after a jump of the clock", map[string]any{"pendingDeliveries": 2.0, "dueDeliveries": 1.0,
			"oldestDueAt": "1970-01-01T00:00:01Z", "dueReports": 1.0, "workerSeenAt": "1970-01-01T00:00:02Z", "clockTrusted": false})
	})
}

const (
	certificateFields = `{ certificates { host expiresAt failure { reason orders failedAt nextOrderAt } } }`
	certificatesQuery = `{ installationHealth ` + certificateFields + ` }`
)

// TestCertificates: operators see the hosts' certificates and why orders failed, over both paths, and other
// callers do not.
func TestCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		operator := a.owner("operator@example.com")
		owner := a.owner("owner@example.com")
		store := certificates.New(d)
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check := func(state, want string) {
			t.Helper()
			want = `{"certificates":[` + want + `]}`
			if got := operator.query(certificatesQuery).ok(t, ""); got.Body != `{"data":{"installationHealth":`+want+`}}` {
				t.Errorf("%s: %s, want %s", state, got.Body, want)
			}
			got := operator.query(`{ installation { health `+certificateFields+` } }`).ok(t, "")
			if got.Body != `{"data":{"installation":{"health":`+want+`}}}` {
				t.Errorf("%s, of the installation: %s, want %s", state, got.Body, want)
			}
		}

		check("without TLS", "")

		// A first order that is in progress, one that failed, and a renewal that failed after a success.
		now, minute := model.At(start), time.Minute
		do(store.See(t.Context(), []string{"new.example.com"}, now))
		do(store.Failed(t.Context(), "app.example.com", certificates.FailureDNS, now.Add(-minute)))
		do(store.Obtained(t.Context(), "stats.example.com", now, now.Add(90*24*time.Hour), now))
		for range 2 {
			do(store.Failed(t.Context(), "stats.example.com", certificates.FailureRateLimit, now))
		}
		app := `{"host":"app.example.com","expiresAt":null,"failure":{"reason":"DNS","orders":1,` +
			`"failedAt":"2026-11-20T09:29:00Z","nextOrderAt":"2026-11-20T09:34:00Z"}}`
		stats := `{"host":"stats.example.com","expiresAt":"2027-02-18T09:30:00Z","failure":`
		first := `{"host":"new.example.com","expiresAt":null,"failure":null}`
		check("with failures", app+`,`+stats+`{"reason":"RATE_LIMIT","orders":2,`+
			`"failedAt":"2026-11-20T09:30:00Z","nextOrderAt":"2026-11-20T10:30:00Z"}},`+first)

		for name, c := range map[string]*client{"FORBIDDEN": owner, "UNAUTHENTICATED": a.client()} {
			if got := c.query(certificatesQuery); got.codes() != name || strings.Contains(got.Body, "example.com") {
				t.Errorf("another caller gets %s, want %s", got.Body, name)
			}
			got := c.query(`{ installation { health ` + certificateFields + ` } }`)
			if got.Body != `{"data":{"installation":{"health":null}}}` {
				t.Errorf("another caller gets %s", got.Body)
			}
		}
		for _, c := range []*client{operator, owner} {
			token := c.createToken("READ", "WRITE", "EXPORT")
			if got := a.with(token.secret, certificatesQuery); got.codes() != "FORBIDDEN" || strings.Contains(got.Body, "example.com") {
				t.Errorf("a token gets %s", got.Body)
			}
		}

		// A success ends the failure.
		do(store.Obtained(t.Context(), "stats.example.com", now, now.Add(90*24*time.Hour), now))
		check("after a success", app+`,`+first+`,`+stats+`null}`)

		// Hosts that no process is configured with any more disappear after a day.
		a.clock.Add(24*time.Hour - minute)
		check("almost a day later", first+`,`+stats+`null}`)
		a.clock.Add(minute)
		check("a day later", "")
	})
}

// TestCertificatesAreBounded: the list has an end, one statement reads it, and only if it is asked for.
func TestCertificatesAreBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		operator := a.owner("operator@example.com")
		read := func(query string) (got *answer, list []string) {
			t.Helper()
			statements.Take()
			got = operator.query(query).ok(t, "")
			for _, statement := range statements.Take() {
				if strings.Contains(statement, "certificate_") {
					list = append(list, statement)
				}
			}
			return got, list
		}

		var hosts []string
		for i := range 25 {
			hosts = append(hosts, fmt.Sprintf("h%02d.example.com", i))
		}
		if err := certificates.New(d).See(t.Context(), hosts, model.At(start)); err != nil {
			t.Fatal(err)
		}

		got, list := read(certificatesQuery)
		shown, _ := got.at("installationHealth.certificates").([]any)
		if len(shown) != 20 || got.at("installationHealth.certificates.19.host") != "h19.example.com" || len(list) != 1 {
			t.Errorf("%d certificates by %q: %s", len(shown), list, got.Body)
		}
		if _, list := read(`{ installationHealth { version } }`); len(list) != 0 {
			t.Errorf("without the field, %q are sent", list)
		}
	})
}
