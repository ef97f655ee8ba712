package visitor

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// TestKeysFollowTheDatabase checks that processes agree on one key again after a crash has emptied
// the table of salts: on the key that a running process has in memory, or on that of a new salt if
// another process made one first.
func TestKeysFollowTheDatabase(t *testing.T) {
	databaseURL := dbtest.PostgresURL(t)
	d := dbtest.Open(t, databaseURL)
	today := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)).Day()
	secret := fixedSecret("an application key that only tests know")
	visitorOf := func(keys *Keys) model.VisitorID {
		t.Helper()
		key, err := keys.Get(time.Now().Add(loadTimeout), today)
		testkit.NoError(t, err)
		return key.ID(1, netip.MustParseAddr("192.0.2.1"), "Firefox")
	}

	// PostgreSQL truncates the unlogged table when it recovers.
	crash := func() {
		t.Helper()
		testkit.NoError(t, dbtest.Exec(d, "TRUNCATE day_salts_1"))
	}

	start := func() *Keys { return NewKeys(ingest.New(dbtest.Open(t, databaseURL)), secret) }

	running := NewKeys(ingest.New(d), secret)
	before := visitorOf(running)
	crash()

	testkit.NoError(t, running.Refresh(t.Context()))
	if visitorOf(running) != before || visitorOf(start()) != before {
		t.Error("the key was not restored")
	}

	crash()
	other := start()
	after := visitorOf(other)
	if after == before {
		t.Fatal("the other process has the old key: this test proves nothing")
	}

	for _, keys := range []*Keys{running, other} {
		testkit.NoError(t, keys.Refresh(t.Context()))
		testkit.Equal(t, visitorOf(keys), after, "the processes have two keys")
	}

	running.Forget(today + 2)

	testkit.Equal(t, len(running.keys)+len(running.salts), 0, "a key or salt is still in memory two days later")
}

// fixedSecret returns a Secret that is the same on all days.
func fixedSecret(secret string) Secret {
	return func(context.Context, model.Day) ([]byte, error) { return []byte(secret), nil }
}

// countedSalts returns one salt for all days, and counts the reads.
type countedSalts struct{ reads int }

func (s *countedSalts) DaySalt(context.Context, model.Day) ([]byte, error) {
	s.reads++
	return make([]byte, 32), nil
}

func (s *countedSalts) KeepDaySalt(_ context.Context, _ model.Day, known []byte) ([]byte, error) {
	return known, nil
}

// TestForget checks that the keys of yesterday, today and tomorrow stay in memory, and that those
// of other days are dropped, such as those that were requested while the clock was ahead.
func TestForget(t *testing.T) {
	const today = model.Day(20_777)
	salts := &countedSalts{}
	keys := NewKeys(salts, fixedSecret("secret"))
	for _, test := range []struct {
		day  model.Day
		kept bool
	}{{today - 400, false}, {today - 2, false}, {today - 1, true}, {today, true}, {today + 1, true}, {today + 2, false}, {today + 400, false}} {
		if _, err := keys.Get(time.Now().Add(loadTimeout), test.day); err != nil {
			t.Fatal(err)
		}

		keys.Forget(today)
		before := salts.reads

		if _, err := keys.Get(time.Now().Add(loadTimeout), test.day); err != nil {
			t.Fatal(err)
		}
		if kept := salts.reads == before; kept != test.kept {
			t.Errorf("day %+d: kept %v, want %v", test.day-today, kept, test.kept)
		}
	}
}
