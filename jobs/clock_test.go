package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// live stores rows that are valid at a time and look old to a clock that is ahead.
func live(t *testing.T, d *db.DB, now model.Instant) {
	t.Helper()

	testkit.NoError(t, retention.New(d).EnsurePartitions(t.Context(), now))

	user := world.New(t, d).User("owner@example.com")

	for _, statement := range []struct {
		text string
		args []any
	}{
		{
			text: "INSERT INTO sessions (id_hash, user_id, created_at, last_seen_at, expires_at) VALUES (?, ?, 0, 0, ?)",
			args: []any{[]byte("s"), user.ID, now.Add(30 * time.Minute)},
		},
		{"INSERT INTO signin_failures (key, failures, last_at) VALUES (?, 9, ?)", []any{[]byte("k"), now}},
		{"INSERT INTO password_resets (token_hash, user_id, expires_at) VALUES (?, ?, ?)", []any{[]byte("r"), user.ID, now.Add(30 * time.Minute)}},
		{
			text: "INSERT INTO captcha_spent (account_id, issued_at, id) VALUES (?, ?, ?)",
			args: []any{user.AccountID, now.Add(-10 * time.Minute), []byte("0123456789abcdef")},
		},
		{"INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (1, ?, 'collect', 'bot', 1)", []any{now.Day()}},
		{"INSERT INTO deleted_sites (site_id, deleted_at) VALUES (7, ?)", []any{now}},
		{"INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (1, ?, 1, 1, 1, 0, false, '/')", []any{now}},
		{
			text: "INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (1, ?, 2, 1, 1, 0, false, '/')",
			args: []any{now.Add(-60 * 24 * time.Hour)},
		},
		{
			text: "INSERT INTO mails (account_id, recipient, kind, data, state, attempts, created_at, next_attempt_at) VALUES (1, 'a', 'test', '{}', 'sent', 1, ?, ?)",
			args: []any{now, now},
		},
	} {
		testkit.NoError(t, dbtest.Exec(d, statement.text, statement.args...))
	}

	if _, err := ingest.New(d).DaySalt(t.Context(), now.Day()); err != nil {
		t.Fatal(err)
	}

	site := newSite(t, d, "shop.example", "", "")
	testkit.NoError(t, sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, "https://example.com/day",
		model.ChangedBy{At: now}))
}

// wantLive fails unless all rows of live exist.
func wantLive(t *testing.T, d *db.DB) {
	t.Helper()

	for table, want := range map[string]int{"sessions": 1, "signin_failures": 1, "password_resets": 1, "captcha_spent": 1, "rejections": 1,
		"deleted_sites": 1, "pageviews": 2, "mails": 1, "deliveries": 0} {
		dbtest.HasRows(t, d, table, want, "%s: rows", table)
	}

	today, err := dbtest.Rows[struct{ N int }](
		d,
		"SELECT count(*) AS n FROM sites JOIN rejections ON day = daily_export_day",
	)
	if err != nil || today[0].N != 1 {
		t.Errorf("the next day to export is not today, %v", err)
	}
	if days, err := ingest.New(d).SaltDays(t.Context()); err != nil || len(days) != 1 {
		t.Errorf("day salts of %v, error %v; want today's", days, err)
	}
}

// runAll runs all tasks of the schedule.
func runAll(t *testing.T, j *jobs.Worker) {
	t.Helper()
	testkit.NoError(t, j.RunSchedule(t.Context()))
}

// metric returns a metric's line.
func metric(t *testing.T, j *jobs.Worker, name string) string {
	t.Helper()

	var b strings.Builder

	testkit.NoError(t, j.WriteMetrics(&b))

	for line := range strings.Lines(b.String()) {
		if strings.HasPrefix(line, name+" ") {
			return strings.TrimSpace(line)
		}
	}

	t.Fatalf("no %s in\n%s", name, b.String())
	return ""
}

// TestWrongWorkerClockDeletesNothing checks that a worker deletes nothing, and reports that, while
// its clock differs from the database's. The database has the real time here.
func TestWrongWorkerClockDeletesNothing(t *testing.T) {
	t.Parallel()

	for _, wrong := range []time.Duration{425 * 24 * time.Hour, 55 * time.Minute, 61 * time.Second, -425 * 24 * time.Hour} {
		t.Run(wrong.String(), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				live(t, d, model.At(time.Now()))
				log := &lastHandler{}
				j, err := jobs.New(
					jobs.Options{
						DB:              d,
						Now:             func() time.Time { return time.Now().Add(wrong) },
						Log:             slog.New(log),
						RetentionMonths: 6,
					},
				)
				testkit.NoError(t, err)

				runAll(t, j)
				wantLive(t, d)

				want := fmt.Sprintf("worker clock differs from the database's by %.0f s; nothing is deleted", wrong.Seconds())
				testkit.Equal(t, j.ClockWarning(), want, "warning")
				if log.level != slog.LevelError || log.message != want || log.n != 1 {
					t.Errorf("logged %d times, last %v %q; want once %q as an error", log.n, log.level, log.message, want)
				}
				if got := metric(t, j, "tallygate_deletions_held"); got != "tallygate_deletions_held 1" {
					t.Error(got)
				}

				var seconds float64
				got := metric(t, j, "tallygate_clock_difference_seconds")
				if _, err := fmt.Sscanf(got, "tallygate_clock_difference_seconds %g", &seconds); err != nil ||
					seconds < wrong.Seconds()-1 ||
					seconds > wrong.Seconds()+1 {
					t.Errorf("%s, %v; want %g", got, err, wrong.Seconds())
				}
			})
		})
	}
}

// TestWrongDatabaseClockDeletesNothing checks that nothing is deleted after a jump of the database
// server's clock, or, with SQLite, of the machine's clock.
func TestWrongDatabaseClockDeletesNothing(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		jump  time.Duration
		level slog.Level
	}{{425 * 24 * time.Hour, slog.LevelError}, {55 * time.Minute, slog.LevelWarn}, {-425 * 24 * time.Hour, slog.LevelError}} {
		t.Run(test.jump.String(), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				clock := testkit.NewClock(noon)
				dbtest.SetClocks(d, clock.Now, func() time.Duration { return 0 })
				log := &lastHandler{}
				j, err := jobs.New(jobs.Options{DB: d, Now: clock.Now, Log: slog.New(log), RetentionMonths: 6})
				testkit.NoError(t, err)

				// Now the clock is trusted.
				runAll(t, j)
				live(t, d, model.At(noon))

				clock.Add(test.jump)
				runAll(t, j)
				wantLive(t, d)

				if got := j.ClockWarning(); !strings.HasPrefix(got, "the database's clock jumped by ") ||
					!strings.HasSuffix(got, "nothing is deleted") {
					t.Errorf("warning %q", got)
				}

				if log.level != test.level || log.n != 1 {
					t.Errorf("logged %d times, last %v %q; want once as %v", log.n, log.level, log.message, test.level)
				}
				if got, want := metric(t, j, "tallygate_clock_jump_seconds"), fmt.Sprintf("tallygate_clock_jump_seconds %g", test.jump.Seconds()); got != want {
					t.Errorf("%s, want %s", got, want)
				}

				// The clock is corrected.
				clock.Add(-test.jump)
				runAll(t, j)
				wantLive(t, d)

				if got := j.ClockWarning(); got != "" {
					t.Errorf("warning %q after the clock was corrected", got)
				}
			})
		})
	}
}

// TestConsumedStaysConsumed: a token that was consumed before the clock jumped ahead by 55 minutes
// is refused also after the clock was corrected.
func TestConsumedStaysConsumed(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		clock := testkit.NewClock(noon)
		dbtest.SetClocks(d, clock.Now, func() time.Duration { return 0 })

		j, err := jobs.New(jobs.Options{DB: d, Now: clock.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		testkit.NoError(t, err)

		runAll(t, j)
		account := world.New(t, d).Account("a")
		token := model.ConsumedKey{AccountID: account, IssuedAt: model.At(noon.Add(-6 * time.Minute)), ID: [16]byte{1}}
		claim := func() (first bool) {
			store := ingest.NewClaimStore(dbtest.SitesCell(t, d))
			defer store.Close()

			err := store.Update(
				t.Context(),
				ingest.ClaimKeys{Consumed: []model.ConsumedKey{token}},
				func(s *ingest.ClaimState) *ingest.ClaimChanges {
					first = s.Claimed[token]
					return &ingest.ClaimChanges{}
				},
			)
			testkit.NoError(t, err)

			return first
		}
		if !claim() {
			t.Fatal("the token was consumed before")
		}

		clock.Add(55 * time.Minute)
		runAll(t, j)
		clock.Add(-55 * time.Minute)

		if claim() {
			t.Error("the token was consumed twice")
		}
	})
}

// TestWrongWorkerClockKeepsTheSchedule checks that a worker with a wrong clock sends deliveries
// that are due by the database's clock, signs with that time, and schedules the next attempt after
// the usual pause.
func TestWrongWorkerClockKeepsTheSchedule(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	for _, wrong := range []time.Duration{425 * 24 * time.Hour, -425 * 24 * time.Hour} {
		t.Run(wrong.String(), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				r := newReceiver(t, a, status(500))
				site := newSite(t, d, "shop.example", r.URL, "signed with a secret")
				delivery, later := due(t, d, site, noon), due(t, d, site, noon.Add(time.Minute))
				clock := testkit.NewClock(noon)
				startQuick(
					t, d, a, func() time.Time { return clock.Now().Add(wrong) },
					func(*jobs.Settings) { dbtest.SetClock(d, clock.Now) },
				)

				var log dbtest.DeliveryLog
				awaitThat(t, func() (string, bool) {
					log = logOf(t, d, site, delivery.ID)
					// Both fields are of one row: the delivery and its attempts are read one after
					// the other.
					return "no attempt has ended", log.LeasedUntil == 0 && log.NextAttemptAt > model.At(noon)
				})

				if wait := log.NextAttemptAt.Sub(model.At(noon)); wait < 4*time.Second || wait > 6*time.Second {
					t.Errorf("the next attempt comes after %v, want 5 s", wait)
				}
				if got, want := r.all()[0].header.Get("webhook-timestamp"), fmt.Sprint(noon.Unix()); got != want {
					t.Errorf("signed at %s, want %s", got, want)
				}
				if log := logOf(t, d, site, later.ID); len(log.Attempts) != 0 {
					t.Error("a delivery was sent before it was due")
				}
			})
		})
	}
}

// lastHandler keeps the last record at WARN or above, and counts them.
type lastHandler struct {
	slog.Handler
	n       int
	level   slog.Level
	message string
}

// Enabled implements slog.Handler.
func (h *lastHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (h *lastHandler) Handle(_ context.Context, r slog.Record) error {
	h.n, h.level, h.message = h.n+1, r.Level, r.Message
	return nil
}
