package jobs_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) {
	if fate := os.Getenv(fateVariable); fate != "" {
		// The test binary is a worker, which a test kills.
		work(fate)
	}

	// A default that the command line can change: these tests mostly wait.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}

	flag.Parse()
	code := dbtest.RunByTurns(m)
	if workerFolder != "" {
		_ = os.RemoveAll(workerFolder)
	}
	os.Exit(code)
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// patience bounds every wait for a task. A task runs within two seconds, or within a minute
// after an outage of the queue; a busy machine may take ten times longer.
const patience = 4 * time.Minute

func startWorker(t *testing.T, d *db.DB, redisURL string, now func() time.Time, log slog.Handler) *jobs.Worker {
	t.Helper()
	if log == nil {
		log = slog.NewTextHandler(t.Output(), nil)
	}
	return startWorkerWith(t, jobs.Options{DB: d, RedisURL: redisURL, Now: now, Log: slog.New(log)})
}

// startWorkerWith starts a worker. Its clock is also the database's.
func startWorkerWith(t *testing.T, o jobs.Options) *jobs.Worker {
	t.Helper()
	dbtest.SetClock(o.DB, o.Now)

	j, err := jobs.New(o)
	testkit.NoError(t, err)

	run(t, j)
	return j
}

// run starts a worker and stops it when the test ends.
func run(t *testing.T, j *jobs.Worker) {
	t.Helper()
	testkit.NoError(t, j.Start())

	t.Cleanup(func() {
		testkit.Succeeds(t, j.Stop(context.Background()), "stop the worker")
	})
}

// litter writes rows that housekeeping must delete at noon, and rows that it must keep.
func litter(t *testing.T, d *db.DB) {
	t.Helper()

	at := model.At(noon)
	user := world.New(t, d).User("owner@example.com")

	for _, statement := range []struct {
		text string
		args []any
	}{
		{
			text: "INSERT INTO sessions (id_hash, user_id, created_at, last_seen_at, expires_at) VALUES (?, ?, 0, 0, ?)",
			args: []any{[]byte("expired"), user.ID, at.Add(-time.Second)},
		},
		{
			text: "INSERT INTO sessions (id_hash, user_id, created_at, last_seen_at, expires_at) VALUES (?, ?, 0, 0, ?)",
			args: []any{[]byte("valid"), user.ID, at.Add(2 * time.Hour)},
		},
		{"INSERT INTO signin_failures (key, failures, last_at) VALUES (?, 9, ?)", []any{[]byte("old"), at.Add(-30 * 24 * time.Hour)}},
		{"INSERT INTO signin_failures (key, failures, last_at) VALUES (?, 9, ?)", []any{[]byte("recent"), at}},
	} {
		testkit.NoError(t, dbtest.Exec(d, statement.text, statement.args...))
	}

	for _, days := range []model.Day{0, 1, 2, 30} {
		if _, err := ingest.New(d).DaySalt(t.Context(), at.Day()-days); err != nil {
			t.Fatal(err)
		}
	}
}

// left counts the remaining sessions, sign-in failures and day salts.
func left(t *testing.T, d *db.DB) [3]int {
	t.Helper()

	var n [3]int
	for i, table := range []string{"sessions", "signin_failures"} {
		var err error
		if n[i], err = dbtest.Count(d, table); err != nil {
			t.Fatal(err)
		}
	}

	days, err := ingest.New(d).SaltDays(t.Context())
	testkit.NoError(t, err)

	n[2] = len(days)
	return n
}

// await waits until the remaining rows are as wanted.
func await(t *testing.T, d *db.DB, want [3]int) {
	t.Helper()
	awaitThat(t, func() (string, bool) {
		got := left(t, d)
		return fmt.Sprintf("sessions, sign-in failures, day salts left: %v, want %v", got, want), got == want
	})
}

// awaitThat waits until done reports true, or fails with its last message.
func awaitThat(t *testing.T, done func() (string, bool)) {
	t.Helper()

	deadline := time.After(patience)

	for {
		message, ok := done()
		if ok {
			return
		}

		select {
		case <-deadline:
			t.Fatal(message)
		case <-time.After(20 * time.Millisecond):
			// A change of rows is not notified.
		}
	}
}

// clean is what remains of the litter: the valid session, the recent failure, and the salts of
// today and yesterday.
var clean = [3]int{1, 1, 2}

func TestHousekeepingInMemory(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		litter(t, d)
		startWorker(t, d, "", testkit.NewClock(noon).Now, nil)
		await(t, d, clean)
	})
}

func TestHousekeepingRealRedis(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		litter(t, d)
		startWorker(t, d, redistest.New(t).URL(), testkit.NewClock(noon).Now, nil)
		await(t, d, clean)
	})
}

// TestRetention: the worker keeps as many whole months as configured, and everything by default.
func TestRetention(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		thisMonth := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		for id, at := range []time.Time{thisMonth.AddDate(-3, 0, 0), thisMonth.AddDate(0, -2, 0), thisMonth.AddDate(0, -1, 0), thisMonth} {
			err := dbtest.Exec(
				d,
				`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
				VALUES (1, ?, ?, 1, 1, 0, ?, '/')`,
				model.At(at),
				id,
				false,
			)
			testkit.NoError(t, err)
		}

		for _, step := range []struct{ months, want int }{{0, 4}, {12, 3}, {1, 2}} {
			// A usage row that is deleted in any case shows that the tasks ran.
			testkit.NoError(t, dbtest.Exec(d, "INSERT INTO site_usage (site_id, month, used) VALUES (1, 202001, 1)"))

			worker := startWorkerWith(t, jobs.Options{
				DB: d, Now: testkit.NewClock(noon).Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), RetentionMonths: step.months,
			})

			awaitThat(t, func() (string, bool) {
				usage, err := dbtest.Count(d, "site_usage")
				pageviews, err2 := dbtest.Count(d, "pageviews")
				testkit.NoError(t, errors.Join(err, err2))

				return fmt.Sprintf(
						"keeping %d months: %d old usage rows and %d page views left, want 0 and %d",
						step.months,
						usage,
						pageviews,
						step.want,
					),
					usage == 0 &&
						pageviews == step.want
			})

			testkit.NoError(t, worker.Stop(t.Context()))
		}
	})
}

// TestPartitionsAhead: the worker creates the coming months' partitions.
func TestPartitionsAhead(t *testing.T) {
	t.Parallel()

	d := dbtest.Open(t, dbtest.PostgresURL(t))
	startWorker(t, d, "", testkit.NewClock(noon.AddDate(0, 6, 0)).Now, nil)
	awaitThat(t, func() (string, bool) {
		_, err := dbtest.Count(d, "events_202707")
		return fmt.Sprintf("the partition of a month ahead: %v", err), err == nil
	})
}

// TestDaySaltIsDestroyedOnTime: a salt is destroyed 24 h after its day ended, and not before.
func TestDaySaltIsDestroyedOnTime(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		today := model.At(noon).Day()
		if _, err := ingest.New(d).DaySalt(t.Context(), today); err != nil {
			t.Fatal(err)
		}

		for _, test := range []struct {
			after time.Duration // after the day's end
			want  int64
		}{{24*time.Hour - time.Microsecond, 0}, {24 * time.Hour, 1}} {
			at := (today + 1).Start().Add(test.after)
			if n, err := ingest.New(d).DestroyDaySalts(t.Context(), at.Day()-1); err != nil || n != test.want {
				t.Errorf("%v after the day ended: %d destroyed, %v; want %d", test.after, n, err, test.want)
			}
		}
	})
}

// TestFlushRealRedis: a Redis that loses its data delays the work of a period at most until the
// next one.
func TestFlushRealRedis(t *testing.T) {
	dbtest.ParallelSQLite(t, func(t *testing.T, d *db.DB) {
		server := redistest.New(t)
		now := testkit.NewClock(noon.Add(-2 * time.Hour))
		startWorker(t, d, server.URL(), now.Now, nil)
		litter(t, d)

		testkit.NoError(t, server.Client().FlushAll(t.Context()).Err())

		now.Add(2 * time.Hour)
		await(t, d, clean)
	})
}

// TestStartWithoutRealRedis: a worker may start before its Redis does.
func TestStartWithoutRealRedis(t *testing.T) {
	dbtest.ParallelSQLite(t, func(t *testing.T, d *db.DB) {
		server := redistest.New(t)
		server.Kill()
		j := startWorker(t, d, server.URL(), testkit.NewClock(noon).Now, slog.DiscardHandler)
		litter(t, d)

		if err := j.Ping(t.Context()); err == nil {
			t.Error("Ping returns no error without a Redis")
		}

		server.Start()
		await(t, d, clean)

		// For a second go-redis may repeat the error of an earlier connection attempt.
		awaitThat(t, func() (string, bool) {
			err := j.Ping(t.Context())
			return fmt.Sprintf("Ping: %v", err), err == nil
		})
	})
}

// TestRestartRealRedis: the worker continues by itself when a Redis that was killed runs again, and
// logs both in one line each.
func TestRestartRealRedis(t *testing.T) {
	dbtest.ParallelSQLite(t, func(t *testing.T, d *db.DB) {
		server := redistest.New(t)
		logged := &countHandler{}
		litter(t, d)
		j := startWorker(t, d, server.URL(), testkit.NewClock(noon).Now, logged)
		await(t, d, clean)

		server.Kill()

		// Each ping takes up to two seconds, in which the worker's own commands fail as well.
		ping := func() {
			t.Helper()
			if err := j.Ping(t.Context()); err == nil {
				t.Fatal("Ping returns no error while Redis is unavailable")
			}
		}

		awaitThat(t, func() (string, bool) {
			ping()
			return "no log line about the outage", logged.of(
				"the queue is unavailable; workers take due work from the database",
			) > 0
		})

		for range 3 {
			ping()
		}

		// The library writes the second message. Housekeeping may log its deletions meanwhile.
		outages, others := logged.of("the queue is unavailable; workers take due work from the database"), logged.of("queue")
		if outages != 1 || others > 1 {
			t.Errorf("%d log lines about the outage and %d of the queue's library, want 1 and at most 1", outages, others)
		}

		testkit.NoError(t, dbtest.Exec(d, "INSERT INTO signin_failures (key, failures, last_at) VALUES (?, 9, 0)", []byte("another")))

		server.Start()
		await(t, d, clean)

		testkit.Equal(t, logged.of("the queue is available again"), 1, "log lines about the end of the outage")
	})
}

// TestTwoWorkersRealRedis: of two workers, one runs the task of a period.
func TestTwoWorkersRealRedis(t *testing.T) {
	t.Parallel()

	t.Run("postgres", func(t *testing.T) {
		databaseURL := dbtest.PostgresURL(t)
		d := dbtest.Open(t, databaseURL)
		litter(t, d)
		server := redistest.New(t)
		counted := &countHandler{}

		var workers []*jobs.Worker
		for range 2 {
			workers = append(
				workers,
				startWorker(t, dbtest.Open(t, databaseURL), server.URL(), testkit.NewClock(noon).Now, counted),
			)
		}

		await(t, d, clean)

		// A task is logged after its end. Stop waits for that.
		for _, j := range workers {
			testkit.NoError(t, j.Stop(t.Context()))
		}

		if n := counted.of("day salts destroyed"); n != 1 {
			t.Errorf("the day salts were destroyed %d times, want once", n)
		}
	})
}

// countHandler counts log lines by their message.
type countHandler struct {
	slog.Handler
	mu sync.Mutex
	n  map[string]int
}

func (c *countHandler) Enabled(context.Context, slog.Level) bool { return true }

func (c *countHandler) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[r.Message]++
	return nil
}

func (c *countHandler) of(message string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[message]
}

func TestStopTwiceAndWithoutStart(t *testing.T) {
	t.Parallel()

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	j, err := jobs.New(jobs.Options{DB: d, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	testkit.NoError(t, err)

	for range 2 {
		testkit.Succeeds(t, j.Stop(t.Context()), "Stop without Start")
	}

	started := startWorker(t, d, "", time.Now, nil)
	for range 2 {
		testkit.Succeeds(t, started.Stop(t.Context()), "Stop")
	}
}

// TestStopWithASilentRedis: a Redis that accepts connections and never answers does not keep a
// worker from stopping.
func TestStopWithASilentRedis(t *testing.T) {
	t.Parallel()

	// The kernel accepts connections, and nothing answers.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer silent.Close()

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	j, err := jobs.New(
		jobs.Options{DB: d, RedisURL: "redis://" + silent.Addr().String(), Now: time.Now, Log: slog.New(slog.DiscardHandler)},
	)
	testkit.NoError(t, err)
	testkit.NoError(t, j.Start())

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	testkit.Succeeds(t, j.Stop(ctx), "Stop")
}

func TestNewChecksOptions(t *testing.T) {
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	log := slog.New(slog.DiscardHandler)
	for _, test := range []struct {
		options jobs.Options
		want    string
	}{
		{
			options: jobs.Options{DB: d, Now: time.Now, Log: log, RedisURL: "memcached://user:hunter2@127.0.0.1"},
			want:    "the Redis URL must start with redis://, redis-sentinel:// or redis-cluster://, or with rediss for TLS",
		},
		{jobs.Options{DB: d, Now: time.Now, Log: log, RedisURL: "redis://user:hunter2@127.0.0.1:port"}, "the Redis URL cannot be read"},
		{jobs.Options{DB: d, Now: time.Now, Log: log, RedisURL: "redis://user:hunter2@127.0.0.1/zero"}, "the Redis URL cannot be read"},
		{jobs.Options{DB: d, Now: time.Now, Log: log, RedisURL: "redis-sentinel://:hunter2@127.0.0.1"},
			"the Redis URL must name the master that the sentinels watch: ?master=name"},
		{jobs.Options{DB: d, Now: time.Now, Log: log, RedisURL: "redis-sentinel://:hunter2@127.0.0.1,?master=m"}, "the Redis URL cannot be read"},
		{jobs.Options{DB: d, Now: time.Now, Log: log, RedisURL: "redis-cluster://:hunter2@127.0.0.1/1"},
			"the Redis URL names a database, and a cluster has only one"},
		{jobs.Options{Now: time.Now, Log: log}, "jobs: DB, Now and Log are required"},
		{jobs.Options{DB: d, Log: log}, "jobs: DB, Now and Log are required"},
		{jobs.Options{DB: d, Now: time.Now}, "jobs: DB, Now and Log are required"},
	} {
		if _, err := jobs.New(test.options); err == nil || err.Error() != test.want {
			t.Errorf("New with Redis %q: error %v, want %q", test.options.RedisURL, err, test.want)
		}
	}
}

// TestUserRealRedis: the worker authenticates as the user of its URL; with a wrong password it only
// waits.
func TestUserRealRedis(t *testing.T) {
	dbtest.ParallelSQLite(t, func(t *testing.T, d *db.DB) {
		server := redistest.New(t)
		testkit.NoError(t, server.Client().ACLSetUser(t.Context(), "worker", "on", ">letmein", "~*", "&*", "+@all").Err())

		as := func(user string) string { return strings.Replace(server.URL(), "://", "://"+user+"@", 1) }
		litter(t, d)

		refused := startWorker(t, d, as("worker:wrong"), testkit.NewClock(noon).Now, slog.DiscardHandler)
		if err := refused.Ping(t.Context()); err == nil {
			t.Error("Ping returns no error with a wrong password")
		}
		testkit.NoError(t, server.Client().ACLSetUser(t.Context(), "default", "off").Err())

		startWorker(t, d, as("worker:letmein"), testkit.NewClock(noon).Now, nil)
		await(t, d, clean)
	})
}
