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
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestInstallationHealth: operators see what waits of all accounts and whether a worker has trusted
// the clock. TestRoles checks who may read it.
func TestInstallationHealth(t *testing.T) {
	const query = `{ installationHealth { version database pendingDeliveries dueDeliveries oldestDueAt dueMails dueReports
		workerSeenAt clockTrusted clockAheadMs } }`

	eachAppWith(t, func(s *settings) { s.graph.Configuration.Version = "v1.2.3 0f0f" }, func(t *testing.T, a *app) {
		operator := a.owner("operator@example.com")
		a.owner("owner@example.com").siteOf("example.com")

		check := func(state string, want map[string]any) {
			t.Helper()
			got := operator.query(query).ok(t, "")
			for name, value := range want {
				equal(t, got.at("installationHealth."+name), value, "%s: %s", state, name)
			}
		}

		check("without work", map[string]any{"version": "v1.2.3 0f0f", "database": a.db.Dialect(), "pendingDeliveries": 0.0, "dueDeliveries": 0.0,
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
			must(t, dbtest.Exec(a.db, statement))
		}
		check("with work, after a jump of the clock", map[string]any{"pendingDeliveries": 2.0, "dueDeliveries": 1.0,
			"oldestDueAt": "1970-01-01T00:00:01Z", "dueReports": 1.0, "workerSeenAt": "1970-01-01T00:00:02Z", "clockTrusted": false})
	})
}

const (
	certificateFields = `{ certificates { host expiresAt late } }`
	certificatesQuery = `{ installationHealth ` + certificateFields + ` }`
)

// TestCertificates: operators see the hosts' certificates and which ones are late, over both paths,
// and other callers do not.
func TestCertificates(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		operator := a.owner("operator@example.com")
		owner := a.owner("owner@example.com")
		store := certificates.New(a.db)
		do := func(err error) {
			t.Helper()
			testkit.NoError(t, err)
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

		now, day := model.At(start), 24*time.Hour
		see := func(host string, left time.Duration) {
			t.Helper()
			do(store.See(t.Context(), certificates.Host{Host: host, IssuedAt: now.Add(left - 90*day), ExpiresAt: now.Add(left)}, now))
		}
		do(store.See(t.Context(), certificates.Host{Host: "new.example.com"}, now.Add(-time.Minute)))
		see("app.example.com", 90*day)
		see("stats.example.com", 13*day)
		first := `{"host":"new.example.com","expiresAt":null,"late":true}`
		app := `{"host":"app.example.com","expiresAt":"2027-02-18T09:30:00Z","late":false}`
		check("with late ones", first+`,{"host":"stats.example.com","expiresAt":"2026-12-03T09:30:00Z","late":true},`+app)

		for name, c := range map[string]*client{"FORBIDDEN": owner, "UNAUTHENTICATED": a.client()} {
			c.query(certificatesQuery).named("another caller gets").code(t, name).hides(t, "example.com")
			got := c.query(`{ installation { health ` + certificateFields + ` } }`)
			got.named("another caller gets").is(t, `{"data":{"installation":{"health":null}}}`)
		}
		for _, c := range []*client{operator, owner} {
			token := c.createToken("READ", "WRITE", "EXPORT")
			a.with(token.secret, certificatesQuery).named("a token gets").code(t, "FORBIDDEN").hides(t, "example.com")
		}

		// A renewal.
		see("stats.example.com", 89*day)
		stats := `{"host":"stats.example.com","expiresAt":"2027-02-17T09:30:00Z","late":false}`
		check("after a renewal", first+`,`+stats+`,`+app)

		// Hosts that no process is configured with any more disappear after a day.
		a.clock.Add(day - time.Minute)
		check("almost a day later", stats+`,`+app)
		a.clock.Add(time.Minute)
		check("a day later", "")
	})
}

// TestCertificatesAreBounded: the list has an end, one statement reads it, and only if it is asked
// for.
func TestCertificatesAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
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

		for i := range 25 {
			host := certificates.Host{Host: fmt.Sprintf("h%02d.example.com", i)}
			must(t, certificates.New(d).See(t.Context(), host, model.At(start)))
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
