package analytics

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// TestDayKeysFollowTheDatabase: when a crash has emptied the salt's table, processes agree on one
// key again: on the one that a running process remembers or, when another one was faster to make a
// new salt, on that.
func TestDayKeysFollowTheDatabase(t *testing.T) {
	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	today := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)).Day()
	secret := alwaysKey("an application key that only tests know")
	visitorOf := func(keys *dayKeys) model.VisitorID {
		t.Helper()
		key, err := keys.get(time.Now().Add(StoreTimeout), today)
		if err != nil {
			t.Fatal(err)
		}
		return key.ID(1, netip.MustParseAddr("192.0.2.1"), "Firefox")
	}

	crash := func() {
		t.Helper()
		// as PostgreSQL does when it recovers
		if err := dbtest.Exec(d, "TRUNCATE day_salt_20261120"); err != nil {
			t.Fatal(err)
		}
	}

	start := func() *dayKeys { return newDayKeys(ingest.New(dbtest.Open(t, databaseURL)), secret) }

	running := newDayKeys(ingest.New(d), secret)
	before := visitorOf(running)
	crash()

	if err := running.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if visitorOf(running) != before || visitorOf(start()) != before {
		t.Error("the key was not brought back")
	}

	crash()
	other := start()
	after := visitorOf(other)
	if after == before {
		t.Fatal("the other process has the old key: this test shows nothing")
	}

	for _, keys := range []*dayKeys{running, other} {
		if err := keys.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if visitorOf(keys) != after {
			t.Error("the processes have two keys")
		}
	}

	running.forget(today + 2)

	if len(running.keys)+len(running.salts) != 0 {
		t.Error("a key or salt is still in memory two days later")
	}
}

// TestWrongClockIsLogged: a data process whose clock is not the database's logs that as an error.
func TestWrongClockIsLogged(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, test := range []struct {
			wrong time.Duration
			want  string
		}{{0, ""}, {50 * time.Second, ""}, {-time.Hour, "level=ERROR msg=\"this process's clock differs from the database's\" seconds=-3"}} {
			var log strings.Builder
			s := &Service{
				now: func() time.Time { return time.Now().Add(test.wrong) }, compareClock: d.CompareClock,
				log: slog.New(slog.NewTextHandler(&log, nil)),
			}
			if logged := s.warnOfClock(t.Context()); logged != (test.want != "") || !strings.Contains(log.String(), test.want) {
				t.Errorf("%v: logged %v %q, want %q", test.wrong, logged, log.String(), test.want)
			}
		}
	})
}

// alwaysKey is a visitor key that is the same on all days.
func alwaysKey(key string) VisitorKey {
	return func(context.Context, model.Day) ([]byte, error) { return []byte(key), nil }
}

// countedSalts hands out one salt for all days, and counts how often.
type countedSalts struct{ reads int }

func (s *countedSalts) DaySalt(context.Context, model.Day) ([]byte, error) {
	s.reads++
	return make([]byte, 32), nil
}

func (s *countedSalts) KeepDaySalt(_ context.Context, _ model.Day, known []byte) ([]byte, error) {
	return known, nil
}

// TestForgetDays: the keys of yesterday, today and tomorrow stay in memory. Those of other days go,
// also those that a clock asked for that was ahead.
func TestForgetDays(t *testing.T) {
	const today = model.Day(20_777)
	salts := &countedSalts{}
	d := newDayKeys(salts, alwaysKey("secret"))
	for _, test := range []struct {
		day  model.Day
		kept bool
	}{{today - 400, false}, {today - 2, false}, {today - 1, true}, {today, true}, {today + 1, true}, {today + 2, false}, {today + 400, false}} {
		if _, err := d.get(time.Now().Add(StoreTimeout), test.day); err != nil {
			t.Fatal(err)
		}

		d.forget(today)
		before := salts.reads

		if _, err := d.get(time.Now().Add(StoreTimeout), test.day); err != nil {
			t.Fatal(err)
		}
		if kept := salts.reads == before; kept != test.kept {
			t.Errorf("day %+d: kept %v, want %v", test.day-today, kept, test.kept)
		}
	}
}
