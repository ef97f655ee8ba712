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
