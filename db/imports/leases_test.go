package imports_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// TestDue checks that Due returns each kind of job for which Lease finds one, and no other kind.
func TestDue(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := imports.New(d)
		now := dbtest.Noon
		check := func(when string, want ...bool) {
			t.Helper()
			got, err := store.Due(t.Context(), now)
			slices.SortFunc(got, func(a, _ bool) int {
				if a {
					return 1
				}
				return -1
			})
			if !slices.Equal(got, want) || err != nil {
				t.Errorf("%s: due are %v, %v; want %v", when, got, err, want)
			}
		}
		lease := func(api bool) {
			t.Helper()
			if job, err := store.Lease(t.Context(), api, "lease", now, time.Minute); job == nil || err != nil {
				t.Fatalf("lease a job, api %v: %v, %v", api, job, err)
			}
		}
		add := func(domain, address string, state int) {
			t.Helper()
			site := world.New(t, d).Site(domain)
			_, err := d.Write.ExecContext(t.Context(), `INSERT INTO import_jobs
(site_id, source, state, created_at, expires_at, actor, files, size, address, first_day, last_day)
VALUES (?, 'umami', ?, ?, ?, '{}', '[]', 0, ?, 0, 0)`, site.ID, state, now, now.Add(time.Hour), address)
			testkit.NoError(t, err)
		}

		check("without jobs")
		add("uploading.example.com", "", 0)
		add("complete.example.com", "", 4)
		add("failed.example.com", "https://api.example.com", 5)
		check("jobs that no worker runs")

		add("stored.example.com", "https://api.example.com", 3)
		check("one that reads an API", true)
		add("read.example.com", "", 1)
		add("next.example.com", "", 1)
		check("both kinds", false, true)

		lease(true)
		check("the API is read", false)
		lease(false)
		check("one of two with files is read", false)
		lease(false)
		check("all are read")

		now = model.Instant(int64(now) + time.Minute.Microseconds())
		check("the leases have expired", false, true)
	})
}

// TestTurnsByTime checks that the account is next whose jobs ran for the shortest time within a
// day, and that a lease, a renewal and the end record how long a job ran.
func TestTurnsByTime(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := imports.New(d)
		now := dbtest.Noon
		at := func(ago time.Duration) model.Instant { return now.Add(-ago) }
		add := func(siteID model.SiteID, state model.ImportJobState, address string, ran time.Duration, claimed model.Instant) {
			t.Helper()
			_, err := d.Write.ExecContext(t.Context(), `INSERT INTO import_jobs
(site_id, source, state, created_at, expires_at, actor, files, size, address, first_day, last_day, ran, claimed_at)
VALUES (?, 'umami', ?, ?, ?, '{}', '[]', 0, ?, 0, 0, ?, ?)`, siteID, state, now, now.Add(time.Hour), address, ran.Microseconds(), claimed)
			testkit.NoError(t, err)
		}
		sites := make(map[string]model.SiteID)
		for _, name := range []string{"long", "short", "early", "api"} {
			site := world.New(t, d).Site(name + ".example.com")
			sites[name] = site.ID
			add(world.New(t, d).Site("due."+name+".example.com", world.Of(site.AccountID)).ID, model.JobReading, "", 0, 0)
		}

		// One long job weighs more than three short ones, one of yesterday nothing, and waiting for
		// an API nothing.
		add(sites["long"], model.JobComplete, "", 40*time.Minute, at(23*time.Hour))
		for range 3 {
			add(sites["short"], model.JobFailed, "", 10*time.Minute, at(time.Minute))
		}
		add(sites["early"], model.JobComplete, "", 50*time.Minute, at(25*time.Hour))
		add(sites["api"], model.JobComplete, "https://api.example.com", time.Hour, at(2*time.Hour))

		for _, want := range []string{"early", "api", "short", "long"} {
			job, err := store.Lease(t.Context(), false, "lease", now, time.Minute)
			if err != nil || job == nil || job.Site.Domain != "due."+want+".example.com" {
				t.Fatalf("leased %+v, error %v, want a job of %s", job, err, want)
			}
			if want != "long" {
				continue
			}

			job.Read.Store(5)
			testkit.NoError(t, store.Renew(t.Context(), job, 1, now.Add(2*time.Second), time.Minute))
			testkit.NoError(t, store.Later(t.Context(), job, now.Add(3*time.Second), time.Second))
			again, err := store.Lease(t.Context(), false, "lease", now.Add(10*time.Second), time.Minute)
			if err != nil || again == nil || again.Ran != (3*time.Second).Microseconds() || again.BytesRead != 5 {
				t.Fatalf("leased %+v, error %v, want 3 s and 5 bytes", again, err)
			}
			testkit.NoError(t, store.Release(t.Context(), again, now.Add(14*time.Second)))
			if rows, err := dbtest.Rows[int64](d, "SELECT ran FROM import_jobs WHERE id = ?", again.ID); err != nil || rows[0] != 7_000_000 {
				t.Errorf("the job ran %v µs, error %v, want 7 s", rows, err)
			}
		}
	})
}
