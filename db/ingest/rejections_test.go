package ingest_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestRejections(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("a.example"), world.New(t, d).Site("b.example")
		key := func(day model.Day, endpoint, code string) ingest.RejectionKey {
			return ingest.RejectionKey{SiteID: site.ID, Day: day, Endpoint: endpoint, Code: code}
		}

		deleted := ingest.RejectionKey{SiteID: other.ID + 1, Day: 2, Endpoint: "collect", Code: "bot"}
		elsewhere := ingest.RejectionKey{SiteID: other.ID, Day: 2, Endpoint: "collect", Code: "bot"}
		for _, counts := range []map[ingest.RejectionKey]int64{
			nil,
			{key(1, "collect", "bot"): 1, deleted: 5},
			{key(1, "collect", "bot"): 1 << 40, key(2, "server", "bot"): 2, key(2, "collect", "bot"): 3, elsewhere: 4},
			{key(2, "collect", "bad_path"): 5},
		} {
			testkit.NoError(t, ingest.New(d).AddRejections(t.Context(), counts))
		}

		all := []ingest.Rejection{
			{RejectionKey: key(2, "collect", "bad_path"), Count: 5},
			{RejectionKey: key(2, "collect", "bot"), Count: 3},
			{RejectionKey: key(2, "server", "bot"), Count: 2},
			{RejectionKey: key(1, "collect", "bot"), Count: 1<<40 + 1},
		}
		for _, test := range []struct {
			siteID model.SiteID
			from   model.Day
			want   []ingest.Rejection
		}{
			{site.ID, 0, all},
			{site.ID, 2, all[:3]},
			{site.ID, 3, nil},
			{other.ID, 0, []ingest.Rejection{{RejectionKey: elsewhere, Count: 4}}},
			{deleted.SiteID, 0, nil},
		} {
			counts, err := ingest.New(d).RejectionsOfSites(t.Context(), []model.SiteID{test.siteID}, test.from)
			got := counts[test.siteID]
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("site %d since day %d: %v, %v; want %v", test.siteID, test.from, got, err, test.want)
			}
		}
	})
}

// TestRejectionsAllOrNone checks that counts in several statements are added together or not at
// all.
func TestRejectionsAllOrNone(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		counts := make(map[ingest.RejectionKey]int64)
		for day := range model.Day(2_500) {
			counts[ingest.RejectionKey{SiteID: site.ID, Day: day, Endpoint: "collect", Code: "bot"}] = 1
		}

		// The last of three statements fails.
		err := dbtest.Exec(d, "CREATE UNIQUE INDEX fault ON rejections (site_id) WHERE day = 2499 OR day = 0")
		testkit.NoError(t, err)
		if err := ingest.New(d).AddRejections(t.Context(), counts); !db.IsUnique(err) {
			t.Errorf("error %v, want a unique violation", err)
		}
		dbtest.HasRows(t, d, "rejections", 0, "rows")
		testkit.NoError(t, dbtest.Exec(d, "DROP INDEX fault"))
		testkit.NoError(t, ingest.New(d).AddRejections(t.Context(), counts))
		dbtest.HasRows(t, d, "rejections", len(counts), "rows")
	})
}

const (
	rejectionsURLVariable     = "TALLYGATE_TEST_REJECTIONS_URL"
	rejectionsProcessVariable = "TALLYGATE_TEST_REJECTIONS_PROCESS"

	rejectionsProcesses, rejectionsFlushes, rejectionsKeys = 3, 4, 1_200
)

// rejectionsCode lists codes that databases may order differently.
var rejectionsCode = []string{"bot", "Bot", "bad_path", "badpath"}

// TestRejectionsOfProcesses checks that processes that add to the same rows at once neither
// deadlock nor lose a count.
func TestRejectionsOfProcesses(t *testing.T) {
	t.Parallel()
	if databaseURL := os.Getenv(rejectionsURLVariable); databaseURL != "" {
		flushRejections(t, databaseURL)
		return
	}

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		site := world.New(t, d).Site("example.com")
		done := make(chan error)

		for process := range rejectionsProcesses {
			go func() {
				command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRejectionsOfProcesses$", "-test.count=1")
				command.Env = append(os.Environ(), rejectionsURLVariable+"="+databaseURL,
					fmt.Sprintf("%s=%d of site %d", rejectionsProcessVariable, process, site.ID))

				out, err := command.CombinedOutput()
				if err != nil {
					err = fmt.Errorf("%w\n%s", err, out)
				}

				done <- err
			}()
		}

		for range rejectionsProcesses {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}

		counts, err := ingest.New(d).RejectionsOfSites(t.Context(), []model.SiteID{site.ID}, 0)
		rows := counts[site.ID]
		if err != nil || len(rows) != rejectionsKeys {
			t.Fatalf("%d rows, %v; want %d", len(rows), err, rejectionsKeys)
		}

		for _, row := range rows {
			want := int64(0)
			for process := range rejectionsProcesses {
				if flushesRejection(process, int(row.Day)*len(rejectionsCode)+slices.Index(rejectionsCode, row.Code)) {
					want += rejectionsFlushes
				}
			}

			testkit.Require(t, row.Count, want, "%v", row)
		}
	})
}

// flushesRejection reports whether a process adds to a key. Each process has more keys than fit in
// one statement, and a different set, so that their statements end at different keys.
func flushesRejection(process, key int) bool { return key%10 != process }

// flushRejections runs one of these processes.
func flushRejections(t *testing.T, databaseURL string) {
	d := dbtest.Open(t, databaseURL)
	var process int

	var siteID model.SiteID
	if _, err := fmt.Sscanf(os.Getenv(rejectionsProcessVariable), "%d of site %d", &process, &siteID); err != nil {
		t.Fatal(err)
	}

	for range rejectionsFlushes {
		counts := make(map[ingest.RejectionKey]int64)
		for i := range rejectionsKeys {
			if flushesRejection(process, i) {
				code := rejectionsCode[i%len(rejectionsCode)]
				counts[ingest.RejectionKey{SiteID: siteID, Day: model.Day(i / len(rejectionsCode)), Endpoint: "collect",
					Code: code}] = 1
			}
		}

		err := ingest.New(d).AddRejections(t.Context(), counts)

		// SQLite may not serve a process for long. Nothing is stored then, so try again.
		for range 10 {
			if err == nil || d.Dialect() != "sqlite" {
				break
			}

			err = ingest.New(d).AddRejections(t.Context(), counts)
		}

		testkit.NoError(t, err)
	}
}

// BenchmarkAddRejections measures one flush: one code for each of 100 sites.
func BenchmarkAddRejections(b *testing.B) {
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		w := world.New(b, d)
		account := w.Account("a")

		counts := make(map[ingest.RejectionKey]int64)
		for i := range 100 {
			site := w.Site(fmt.Sprintf("%d.example", i), world.Of(account))
			counts[ingest.RejectionKey{SiteID: site.ID, Day: 20777, Endpoint: "collect", Code: "bot"}] = 7
		}

		b.ReportAllocs()

		for b.Loop() {
			testkit.NoError(b, ingest.New(d).AddRejections(b.Context(), counts))
		}
	})
}
