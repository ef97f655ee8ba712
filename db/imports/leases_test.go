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
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// TestDue checks that Due returns each kind of job for which Lease finds one, and no other kind.
func TestDue(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
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
			site := dbtest.NewOwnSite(t, d, domain)
			_, err := d.Write.ExecContext(t.Context(), `INSERT INTO import_jobs
(site_id, source, state, created_at, expires_at, actor, files, size, address, first_day, last_day)
VALUES (?, 'umami', ?, ?, ?, '{}', '[]', 0, ?, 0, 0)`, site.ID, state, now, now.Add(time.Hour), address)
			if err != nil {
				t.Fatal(err)
			}
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
