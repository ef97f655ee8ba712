package retention_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func day(year int, month time.Month, day int) model.Instant {
	return model.At(time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

// storeAt stores one visit, page view, report and event of the given time.
func storeAt(t *testing.T, d *db.DB, siteID model.SiteID, at model.Instant) {
	t.Helper()
	for statement, args := range map[string][]any{
		"INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) VALUES (?, ?, ?, 1, ?, ?, 1, 1)": {siteID, at, at.Day(), at, at},
		"INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (?, ?, 1, ?, 1, 0, false, '/')":            {siteID, at, at},
		"INSERT INTO engagement (site_id, day, id, ms, scroll) VALUES (?, ?, ?, 5, 5)":                                                    {siteID, at.Day(), at},
		"INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (?, ?, 1, ?, 1, 'a', '/')":                                   {siteID, at, at},
	} {
		if err := dbtest.Exec(d, statement, args...); err != nil {
			t.Fatalf("%v: %v", at.Time(), err)
		}
	}
}

var partitionedTables = []string{"visits", "pageviews", "engagement", "events"}

// wantRows compares the number of rows in a partition of each partitioned table.
func wantRows(t *testing.T, d *db.DB, partition string, want int) {
	t.Helper()
	for _, table := range partitionedTables {
		dbtest.HasRows(t, d, table+partition, want, "%s%s: rows", table, partition)
	}
}

const partNames = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relkind = 'r' ORDER BY 1"

func TestPartitionsOfSeveralProcessesAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		now := day(2026, time.December, 31)

		testkit.NoError(t, migrations.Apply(t.Context(), dbtest.Open(t, databaseURL)))

		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			d := dbtest.Open(t, databaseURL)
			wg.Go(func() {
				errs[i] = errors.Join(retention.New(d).EnsurePartitions(t.Context(), now), retention.New(d).EnsurePartitions(t.Context(), now))
			})
		}

		wg.Wait()

		testkit.NoError(t, errors.Join(errs...))
		if strings.HasPrefix(databaseURL, "sqlite:") {
			return
		}

		var want []string

		for _, table := range []string{"engagement", "events", "pageviews", "visits"} {
			for _, partition := range []string{"202611", "202612", "202701", "202702", "default"} {
				want = append(want, table+"_"+partition)
			}
		}

		if got := dbtest.PgStrings(t, databaseURL, partNames); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("partitions\n%v, want\n%v", got, want)
		}

		options := dbtest.PgStrings(t, databaseURL,
			"SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE relname IN ('visits_202612', 'pageviews_202612', 'engagement_202612', 'events_202612') ORDER BY relname")
		for i, fill := range []string{"fillfactor=90 ", "fillfactor=100 ", "fillfactor=100 ", "fillfactor=95 "} {
			if !strings.HasPrefix(options[i], fill) || !strings.Contains(options[i], "autovacuum_") {
				t.Errorf("storage options %q, want %s first", options[i], fill)
			}
		}
	})
}

func TestRowsLandInThePartitionOfTheirMonth(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.PostgresURL(t))
	site := world.New(t, d).Site("example.com")
	for _, at := range []model.Instant{
		day(2026, time.October, 1), day(2026, time.November, 1) - 1,
		day(2026, time.November, 1),
		day(2026, time.December, 1), day(2026, time.December, 31), day(2027, time.January, 1) - 1,
	} {
		storeAt(t, d, site.ID, at)
	}

	for partition, want := range map[string]int{"_202610": 2, "_202611": 1, "_202612": 3, "_202701": 0, "_default": 0} {
		wantRows(t, d, partition, want)
	}
}

// TestStrayRowsMoveIntoTheirPartition checks that rows of a month without a partition are kept, and
// moved when it gets one.
func TestStrayRowsMoveIntoTheirPartition(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.PostgresURL(t))
	site := world.New(t, d).Site("example.com")

	// A row of the following year, as if no partition was created for long.
	for month := time.March; month <= time.September; month++ {
		storeAt(t, d, site.ID, day(2027, month, 1))
	}

	wantRows(t, d, "_default", 7)

	testkit.NoError(t, retention.New(d).EnsurePartitions(t.Context(), day(2027, time.February, 1)))

	wantRows(t, d, "_default", 5)
	wantRows(t, d, "_202703", 1)

	testkit.NoError(t, retention.New(d).EnsurePartitions(t.Context(), day(2027, time.September, 1)))

	wantRows(t, d, "_default", 0)

	// A row older than last month.
	wantRows(t, d, "_202705", 1)
	wantRows(t, d, "", 7)
}

// TestPartitionsWaitForABusyTableWithoutBlockingIt checks that a long reader of the table does not
// make hits wait for a new partition.
func TestPartitionsWaitForABusyTableWithoutBlockingIt(t *testing.T) {
	t.Parallel()
	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	site := world.New(t, d).Site("example.com")

	reader, err := pgx.Connect(t.Context(), databaseURL)
	testkit.NoError(t, err)
	defer reader.Close(context.Background())

	for _, statement := range []string{"BEGIN", "SELECT * FROM visits_default, pageviews_default, engagement_default, events_default"} {
		if _, err := reader.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}

	made := make(chan error, 1)
	go func() { made <- retention.New(d).EnsurePartitions(t.Context(), day(2027, time.January, 1)) }()

	waiting := "SELECT 'yes' FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
	testkit.Await(t, "a lock that is not granted", func() bool { return len(dbtest.PgStrings(t, databaseURL, waiting)) > 0 })

	begin := time.Now()

	// The row goes to the default partition, which the change locks.
	storeAt(t, d, site.ID, day(2027, time.March, 1))

	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("a hit waited %v", took)
	}
	if _, err := reader.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, <-made)

	wantRows(t, d, "_202703", 1)
}

// TestReadersMissNoMovedRow reads a row while it moves from the default partition into a new one:
// in a statement of its own, in a snapshot that begins meanwhile, in a snapshot that began before,
// and in an export.
func TestReadersMissNoMovedRow(t *testing.T) {
	t.Parallel()
	const attach = `ALTER TABLE "visits" ATTACH PARTITION "visits_202703"`
	const firstRead = "SELECT 'the snapshot has begun'"
	month := day(2027, time.March, 1)

	count := func(ctx context.Context, d bun.IDB) error {
		n, err := d.NewSelect().Table("visits").Where("day = ?", month.Day()).Count(ctx)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d visits, want 1", n)
		}
		return err
	}
	inSnapshot := func(ctx context.Context, d *db.DB, site model.SiteID) error {
		in, err := d.OfSite(ctx, site)
		if err != nil {
			return err
		}
		return in.Snapshot(ctx, nil, func(ctx context.Context, tx bun.Tx, _ bun.Conn) error {
			if _, err := tx.ExecContext(ctx, firstRead); err != nil {
				return err
			}
			return count(ctx, tx)
		})
	}

	for name, c := range map[string]struct {
		read       func(ctx context.Context, d *db.DB, site model.SiteID) error
		readsFirst bool
	}{
		"a statement": {read: func(ctx context.Context, d *db.DB, site model.SiteID) error {
			in, err := d.OfSite(ctx, site)
			if err != nil {
				return err
			}
			return count(ctx, in.Read)
		}},
		"a snapshot that begins during the move": {read: inSnapshot},
		"a snapshot that began before the move":  {read: inSnapshot, readsFirst: true},
		"an export": {read: func(ctx context.Context, d *db.DB, site model.SiteID) error {
			var channels []model.Channel
			err := exports.New(d).ExportPageviews(ctx, exports.Range{SiteID: site, From: month, To: month.Add(time.Hour), Limit: 10},
				func(p *exports.Pageview) error {
					channels = append(channels, p.Visit.Channel)
					return nil
				})
			if err == nil && (len(channels) != 1 || channels[0] != model.ChannelOf(1)) {
				err = fmt.Errorf("exported page views with channels %v, want one with its visit's", channels)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.Open(t, dbtest.PostgresURL(t))
			site := world.New(t, d).Site("example.com")
			storeAt(t, d, site.ID, month)

			move := func() error { return retention.New(d).EnsurePartitions(t.Context(), day(2027, time.February, 1)) }
			read := func() error { return c.read(t.Context(), d, site.ID) }
			at, first, second := attach, move, read
			if c.readsFirst {
				at, first, second = `FROM "visits"`, read, move
			}

			if err, err2 := dbtest.Race(t, d, at, first, second); err != nil || err2 != nil {
				t.Errorf("errors %v, %v", err, err2)
			}
			wantRows(t, d, "_202703", 1)
		})
	}
}
