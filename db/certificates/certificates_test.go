package certificates_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var now = model.At(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))

// TestFiles checks that files are stored, replaced, listed by folder and deleted by folder.
func TestFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := certificates.New(d)
		for _, name := range []string{"a/b/c.key", "a/b/d.crt", "a/b.txt", "a-b/c", "a.", "ab"} {
			if err := s.Put(t.Context(), name, []byte("old"), now); err != nil {
				t.Fatal(err)
			}
			if err := s.Put(t.Context(), name, []byte("value of "+name), now+1); err != nil {
				t.Fatal(err)
			}
			if value, err := s.Get(t.Context(), name); string(value) != "value of "+name || err != nil {
				t.Errorf("%s: %q, %v", name, value, err)
			}
		}
		if _, err := s.Get(t.Context(), "a/b"); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("a folder: %v", err)
		}

		list := func(name string) []string {
			files, err := s.List(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range files {
				names = append(names, f.Name)
				if f.ModifiedAt != now+1 || f.Size == 0 {
					t.Errorf("%+v", f)
				}
			}
			slices.Sort(names)
			return names
		}
		if got := list("a"); !slices.Equal(got, []string{"a/b.txt", "a/b/c.key", "a/b/d.crt"}) {
			t.Errorf("below a: %q", got)
		}
		if got := list("ab"); !slices.Equal(got, []string{"ab"}) {
			t.Errorf("ab: %q", got)
		}

		for _, name := range []string{"a/b", "ab", "missing"} {
			if err := s.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		if got := list(""); !slices.Equal(got, []string{"a-b/c", "a.", "a/b.txt"}) {
			t.Errorf("left: %q", got)
		}
	})
}

// TestOtherKey checks that a file opens only with its application key and under its own name.
func TestOtherKey(t *testing.T) {
	t.Parallel()
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		s := certificates.New(d)
		if err := s.Put(t.Context(), "a", []byte("private key"), now); err != nil {
			t.Fatal(err)
		}

		other, err := db.Open(databaseURL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		other.UseApplicationKey(model.ApplicationKey("another application key of 32 characters"))
		if value, err := certificates.New(other).Get(t.Context(), "a"); err == nil || errors.Is(err, model.ErrNotFound) ||
			!strings.Contains(err.Error(), "the file a of the certificates cannot be decrypted: it was not stored with this application key") {
			t.Errorf("with another key: %q, %v", value, err)
		}

		if err := dbtest.Exec(d, "UPDATE certificate_files SET name = 'b'"); err != nil {
			t.Fatal(err)
		}
		if value, err := s.Get(t.Context(), "b"); err == nil {
			t.Errorf("under another name: %q", value)
		}
	})
}

// TestRotation checks that the files open with the new application key alone.
func TestRotation(t *testing.T) {
	t.Parallel()
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		open := func(names ...string) *db.DB {
			d, err := db.Open(databaseURL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			var all []model.ApplicationKey
			for _, name := range names {
				all = append(all, model.ApplicationKey("an application key for this test: "+name))
			}
			d.UseApplicationKey(all[0], all[1:]...)
			return d
		}

		first := open("first")
		if _, err := keys.New(first).ClaimApplicationKey(t.Context(), model.ApplicationKey("an application key for this test: first")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b/c"} {
			if err := certificates.New(first).Put(t.Context(), name, []byte("value of "+name), now); err != nil {
				t.Fatal(err)
			}
		}
		if err := dbtest.Exec(first, "INSERT INTO certificate_files (name, value, modified_at) VALUES ('damaged', ?, 0)", []byte("x")); err != nil {
			t.Fatal(err)
		}

		if _, err := keys.New(open("second", "first")).RotateApplicationKey(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b/c"} {
			if value, err := certificates.New(open("second")).Get(t.Context(), name); string(value) != "value of "+name || err != nil {
				t.Errorf("%s: %q, %v", name, value, err)
			}
		}
		if err := certificates.New(first).Put(t.Context(), "a", []byte("late"), now); !errors.Is(err, keys.ErrOtherKey) {
			t.Errorf("a process with the replaced key stores: %v", err)
		}
	})
}

// TestLock checks that one of many holders has a lock, that it is free after its release or lease, and that a late release
// leaves the next holder's lock.
func TestLock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := now.Time()
		dbtest.SetClock(d, func() time.Time { return clock })
		s := certificates.New(d)
		lock := func(holder string) bool {
			taken, err := s.Lock(t.Context(), "host", holder, time.Minute)
			if err != nil {
				t.Error(err)
			}
			return taken
		}

		var taken atomic.Int32
		var group sync.WaitGroup
		for _, holder := range []string{"a", "b", "c", "d"} {
			group.Go(func() {
				if lock(holder) {
					taken.Add(1)
				}
			})
		}
		group.Wait()
		if taken.Load() != 1 {
			t.Fatalf("%d holders", taken.Load())
		}

		clock = clock.Add(time.Minute - time.Second)
		if lock("e") {
			t.Error("taken during the lease")
		}
		clock = clock.Add(time.Second)
		if !lock("e") || lock("f") {
			t.Error("not free after the lease, or free twice")
		}
		for _, holder := range []string{"a", "b", "c", "d"} {
			if err := s.Unlock(t.Context(), "host", holder); err != nil {
				t.Error(err)
			}
		}
		if lock("f") {
			t.Error("an earlier holder has released the lock of e")
		}
		if err := s.Unlock(t.Context(), "host", "e"); err != nil || !lock("f") {
			t.Errorf("not free after the release: %v", err)
		}
	})
}

// TestHosts checks the state over failures and successes, and that hosts of no process are left out after a day.
func TestHosts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := certificates.New(d)
		check := func(at model.Instant, want ...certificates.Host) {
			t.Helper()
			if got, err := s.Hosts(t.Context(), at); !slices.Equal(got, want) || err != nil {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		const minute, day = model.Instant(60_000_000), model.Instant(24 * 3600 * 1_000_000)

		check(now)
		do(s.See(t.Context(), []string{"b.example.com", "a.example.com"}, now))
		check(now, certificates.Host{Host: "a.example.com"}, certificates.Host{Host: "b.example.com"})

		do(s.Failed(t.Context(), "a.example.com", certificates.FailureDNS, now+minute))
		do(s.Failed(t.Context(), "a.example.com", certificates.FailureConnection, now+2*minute))
		failing := certificates.Host{Host: "a.example.com", FailedAt: now + 2*minute, Failures: 2, Failure: certificates.FailureConnection}
		check(now+2*minute, failing, certificates.Host{Host: "b.example.com"})
		check(now+day, failing)

		do(s.Obtained(t.Context(), "a.example.com", now, now+90*day, now+3*minute))
		want := certificates.Host{Host: "a.example.com", IssuedAt: now, ExpiresAt: now + 90*day, FailedAt: now + 2*minute}
		check(now+day, want)
		if got, err := s.Host(t.Context(), "a.example.com"); got != want || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := s.Host(t.Context(), "c.example.com"); got != (certificates.Host{Host: "c.example.com"}) || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		check(now + 2*day)
	})
}

// TestHostList checks the limit and the order of the list, and that it leaves out the same hosts as Hosts.
func TestHostList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := certificates.New(d)
		const day = model.Instant(24 * 3600 * 1_000_000)
		see := func(at model.Instant, hosts ...string) {
			t.Helper()
			if err := s.See(t.Context(), hosts, at); err != nil {
				t.Fatal(err)
			}
		}
		list := func(n int) (names []string) {
			t.Helper()
			hosts, err := s.HostList(t.Context(), now, n)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hosts {
				names = append(names, h.Host)
			}
			return names
		}

		if got := list(5); got != nil {
			t.Errorf("without a host: %q", got)
		}
		see(now-day, "old.example.com")
		see(now-day+1, "a.example.com", "b.example.com", "c.example.com", "d.example.com")
		for _, host := range []string{"c.example.com", "b.example.com", "d.example.com"} {
			if err := s.Failed(t.Context(), host, certificates.FailureCAA, now); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Obtained(t.Context(), "b.example.com", now, now+90*day, now); err != nil {
			t.Fatal(err)
		}

		want := []string{"c.example.com", "d.example.com", "a.example.com", "b.example.com"}
		for n := 1; n <= 5; n++ {
			if got := list(n); !slices.Equal(got, want[:min(n, len(want))]) {
				t.Errorf("at most %d: %q", n, got)
			}
		}
	})
}

// TestPause checks that the pauses grow to an hour, and permit at most 5 failed validations in any hour.
func TestPause(t *testing.T) {
	t.Parallel()
	const validationsOfOrder = 2 // one for each kind of challenge

	var orders []time.Duration
	for at := time.Duration(0); len(orders) < 10; at += certificates.Pause(len(orders)) {
		orders = append(orders, at)
	}
	for i, begin := range orders {
		validations := 0
		for _, at := range orders[i:] {
			if at < begin+time.Hour {
				validations += validationsOfOrder
			}
		}
		if validations > 5 {
			t.Errorf("%d failed validations in the hour from %v on", validations, begin)
		}
	}

	for failures, want := range map[int]time.Duration{0: 0, 1: 5 * time.Minute, 2: time.Hour, 1000: time.Hour} {
		if got := certificates.Pause(failures); got != want {
			t.Errorf("the pause after %d failures is %v, want %v", failures, got, want)
		}
		h := certificates.Host{FailedAt: now, Failures: failures}
		if got := h.NextOrderAt(); got != now.Add(want) {
			t.Errorf("the next order after %d failures is at %v, want %v", failures, got, now.Add(want))
		}
	}
}
