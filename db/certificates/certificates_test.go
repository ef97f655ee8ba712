package certificates_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var now = model.At(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))

// TestFiles checks that files are stored and replaced.
func TestFiles(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := certificates.New(d)
		for _, name := range []string{"a.example", "b.example"} {
			testkit.NoError(t, s.Put(t.Context(), name, []byte("old")))
			testkit.NoError(t, s.Put(t.Context(), name, []byte("value of "+name)))
			if value, err := s.Get(t.Context(), name); string(value) != "value of "+name || err != nil {
				t.Errorf("%s: %q, %v", name, value, err)
			}
		}
		if _, err := s.Get(t.Context(), "missing"); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("a file that is not stored: %v", err)
		}
	})
}

// TestOtherKey checks that a file opens only with its application key and under its own name.
func TestOtherKey(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		s := certificates.New(d)
		testkit.NoError(t, s.Put(t.Context(), "a", []byte("private key")))

		other, err := db.Open(databaseURL)
		testkit.NoError(t, err)
		t.Cleanup(func() { other.Close() })
		other.UseApplicationKey(model.ApplicationKey("another application key of 32 characters"))
		if value, err := certificates.New(other).Get(t.Context(), "a"); err == nil || errors.Is(err, model.ErrNotFound) ||
			!strings.Contains(err.Error(), "the file a of the certificates was not stored with this application key") {
			t.Errorf("with another key: %q, %v", value, err)
		}

		testkit.NoError(t, dbtest.Exec(d, "UPDATE certificate_files SET name = 'b'"))
		if value, err := s.Get(t.Context(), "b"); err == nil {
			t.Errorf("under another name: %q", value)
		}
	})
}

// TestRotation checks that the files open with the new application key alone.
func TestRotation(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		open := func(names ...string) *db.DB {
			d, err := db.Open(databaseURL)
			testkit.NoError(t, err)
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
			testkit.NoError(t, certificates.New(first).Put(t.Context(), name, []byte("value of "+name)))
		}
		testkit.NoError(t, dbtest.Exec(first, "INSERT INTO certificate_files (name, value) VALUES ('damaged', ?)", []byte("x")))

		if _, err := keys.New(open("second", "first")).RotateApplicationKey(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b/c"} {
			if value, err := certificates.New(open("second")).Get(t.Context(), name); string(value) != "value of "+name || err != nil {
				t.Errorf("%s: %q, %v", name, value, err)
			}
		}
		if err := certificates.New(first).Put(t.Context(), "a", []byte("late")); !errors.Is(err, keys.ErrOtherKey) {
			t.Errorf("a process with the replaced key stores: %v", err)
		}
	})
}

// TestHosts checks that hosts without a certificate come first, then the certificate that expires
// first, and that hosts of no process are left out after a day.
func TestHosts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		s := certificates.New(d)
		check := func(at model.Instant, want ...certificates.Host) {
			t.Helper()
			if got, err := s.Hosts(t.Context(), at); !slices.Equal(got, want) || err != nil {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		see := func(h certificates.Host, at model.Instant) certificates.Host {
			t.Helper()
			testkit.NoError(t, s.See(t.Context(), h, at))
			return h
		}
		const day = 24 * time.Hour

		check(now)
		a := see(certificates.Host{Host: "a.example", IssuedAt: now, ExpiresAt: now.Add(90 * day)}, now)
		b := see(certificates.Host{Host: "b.example", IssuedAt: now, ExpiresAt: now.Add(80 * day)}, now)
		c := see(certificates.Host{Host: "c.example"}, now.Add(time.Hour))
		check(now, c, b, a)

		b = see(certificates.Host{Host: "b.example", IssuedAt: now, ExpiresAt: now.Add(91 * day)}, now.Add(time.Hour))
		check(now, c, a, b)
		check(now.Add(day), c, b)
		check(now.Add(2 * day))
	})
}

// TestIsLate checks that a host without a certificate is late, and one with a new certificate is
// not.
func TestIsLate(t *testing.T) {
	t.Parallel()
	if !(certificates.Host{}).IsLate(now.Time()) {
		t.Error("no certificate is not late")
	}
	h := certificates.Host{IssuedAt: now, ExpiresAt: now.Add(90 * 24 * time.Hour)}
	if h.IsLate(now.Time()) || !h.IsLate(h.ExpiresAt.Time()) {
		t.Error("a new certificate is late, or one that has expired is not")
	}
}
