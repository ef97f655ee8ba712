package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestPasswords(t *testing.T) {
	p := newHasher(cost, 4)
	hash, err := p.hash(t.Context(), "correct horse")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("hash %q, error %v", hash, err)
	}

	weak := argon2id.Params{Memory: 8 * 1024, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}
	old, err := argon2id.CreateHash("correct horse", &weak)
	testkit.NoError(t, err)

	tests := []struct {
		name, password, stored string
		ok, outdated           bool
	}{
		{"right", "correct horse", hash, true, false},
		{"wrong", "correct hors", hash, false, false},
		{"hashed at a lower cost", "correct horse", old, true, true},
		{"unusable hash", "correct horse", p.unusable, false, false},
	}
	for _, test := range tests {
		ok, outdated, err := p.check(t.Context(), test.password, test.stored)
		if ok != test.ok || outdated != test.outdated || err != nil {
			t.Errorf("%s: ok %v, outdated %v, error %v", test.name, ok, outdated, err)
		}
	}

	if _, _, err := p.check(t.Context(), "x", "not a hash"); err == nil {
		t.Error("an unreadable stored hash is no error")
	}
	testkit.Equal(t, len(p.turns), 0, "turns were not returned")
}

func TestHashingWaitsForItsTurn(t *testing.T) {
	p := newHasher(cost, 4)
	p.wait = 20 * time.Millisecond
	for range cap(p.turns) {
		p.turns <- struct{}{}
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	for name, ctx := range map[string]context.Context{"patient": t.Context(), "cancelled": cancelled} {
		_, err := p.hash(ctx, "correct horse")
		if e, ok := errors.AsType[*model.Error](err); !ok || e.Code != "unavailable" || e.Kind != model.Unavailable || e.RetryAfter == 0 {
			t.Errorf("%s: error %v, want unavailable", name, err)
		}
	}

	<-p.turns

	if _, err := p.hash(t.Context(), "correct horse"); err != nil {
		t.Errorf("with a turn free: %v", err)
	}
}

// TestWhichUsesOfALinkCount: a use of a mailed secret counts if the secret is wrong, or if the
// client disconnects first: otherwise callers could have passwords hashed without limit. Other
// failures do not count.
func TestWhichUsesOfALinkCount(t *testing.T) {
	for _, test := range []struct {
		name  string
		use   func(disconnect func()) error
		count bool
	}{
		{"wrong", func(func()) error { return accounts.ErrInvalidToken }, true},
		{"disconnected", func(disconnect func()) error { disconnect(); return context.Canceled }, true},
		{"right", func(func()) error { return nil }, false},
		{"right, and disconnected", func(disconnect func()) error { disconnect(); return nil }, false},
		{"an address that is taken", func(func()) error { return &model.Error{Kind: model.Conflict, Code: "email_taken"} }, false},
		{"an unavailable database", func(func()) error { return errors.New("unavailable") }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
			a, err := New(Options{
				DB: dbtest.Open(t, dbtest.SQLiteURL(t)), Secret: make([]byte, MinSecret), BaseURL: "http://127.0.0.1",
				ClientAddr: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.1") },
				Now:        func() time.Time { return now },
			})
			testkit.NoError(t, err)

			a.passwords.hasher.cost = argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}
			attempt := func() (used bool) {
				v := &request{auth: a, http: httptest.NewRequest(http.MethodPost, "/graphql", nil)}
				ctx, disconnect := context.WithCancel(context.WithValue(t.Context(), requestKey{}, v))
				defer disconnect()

				_ = a.redeem(ctx, model.ResetPrefix, model.NewSecret(model.ResetPrefix), "correct horse", func([]byte, string, model.Instant) error {
					used = true
					return test.use(disconnect)
				})

				return used
			}
			for i := range networkFailures {
				if !attempt() {
					t.Fatalf("attempt %d was refused", i+1)
				}
			}

			if attempt() == test.count {
				t.Errorf("after %d attempts, one more is refused: %v, want %v", networkFailures, !test.count, test.count)
			}
		})
	}
}

func TestNetwork(t *testing.T) {
	same := [][2]string{
		{"192.0.2.1", "::ffff:192.0.2.1"},
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"},
		{"fe80::1%eth0", "fe80::2%eth1"},
	}

	different := [][2]string{
		{"192.0.2.1", "192.0.2.2"},
		{"2001:db8::1", "2001:db8:0:1::1"},
	}

	of := func(s string) string {
		narrow, _ := networks(netip.MustParseAddr(s))
		return string(narrow)
	}
	for _, pair := range same {
		testkit.Equal(t, of(pair[0]), of(pair[1]), "%s and %s count as two networks", pair[0], pair[1])
	}

	for _, pair := range different {
		if of(pair[0]) == of(pair[1]) {
			t.Errorf("%s and %s count as one network", pair[0], pair[1])
		}
	}

	if narrow, wide := networks(netip.Addr{}); narrow != nil || wide != nil {
		t.Error("no address is not its own network")
	}

	for addr, want := range map[string]string{
		"192.0.2.1": "", "::ffff:192.0.2.1": "", "2001:db8:1:ffff::1": "2001:db8:1::", "2001:db8:1::": "2001:db8:1::",
	} {
		_, wide := networks(netip.MustParseAddr(addr))
		if got, _ := netip.AddrFromSlice(wide); (want == "") != (wide == nil) || wide != nil && got.String() != want {
			t.Errorf("the wide network of %s is %v, want %q", addr, got, want)
		}
	}
}

// Hashing takes at most half of the processors.
func TestHashingLeavesProcessors(t *testing.T) {
	for processors, turns := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 64: 32} {
		p := newHasher(cost, processors)
		if cap(p.turns) != turns || cap(p.places) != turns*(1+hashQueue) {
			t.Errorf("%d processors: %d turns, %d places", processors, cap(p.turns), cap(p.places))
		}
	}
}

// While all places are taken, an attempt is refused immediately and does not count: it neither
// reads nor writes.
func TestAFullQueueRefusesWithoutAWrite(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)

		a, err := New(Options{
			DB: d, Secret: make([]byte, MinSecret), BaseURL: "http://127.0.0.1", Now: time.Now,
			ClientAddr: func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.1") },
		})
		testkit.NoError(t, err)

		ctx := context.WithValue(t.Context(), requestKey{}, &request{auth: a, http: httptest.NewRequest(http.MethodPost, "/graphql", nil)})

		for range cap(a.passwords.hasher.places) {
			if _, err := a.passwords.hasher.reserve(false); err != nil {
				t.Fatal(err)
			}
		}

		for name, attempt := range map[string]func() error{
			"sign-in": func() error { _, err := a.SignIn(ctx, "owner@example.com", "correct horse", Proof{}); return err },
			"reset": func() error {
				_, err := a.ResetPassword(ctx, model.NewSecret(model.ResetPrefix), "correct horse")
				return err
			},
		} {
			err := attempt()
			if e, ok := errors.AsType[*model.Error](err); !ok || e.Code != "unavailable" || e.RetryAfter == 0 {
				t.Errorf("%s: %v, want unavailable", name, err)
			}
		}

		if list := statements.Take(); len(list) != 0 {
			t.Errorf("the refused attempts sent %q", list)
		}

		// Known devices have places of their own.
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/graphql", nil)

		hash, err := a.passwords.hasher.hash(t.Context(), "another password")
		testkit.NoError(t, err)

		owner, err := accounts.New(d).SignUp(t.Context(), model.SignupsOpen, model.Account{Name: "Example"},
			model.User{Email: "owner@example.com", PasswordHash: hash})
		testkit.NoError(t, err)
		testkit.NoError(t, a.passwords.devices.remember(w, r, owner))

		r.AddCookie(w.Result().Cookies()[0])
		ctx = context.WithValue(t.Context(), requestKey{}, &request{auth: a, http: r})
		if _, err := a.SignIn(ctx, "owner@example.com", "correct horse", Proof{}); !errors.Is(err, errWrongCredentials) {
			t.Errorf("on a known device: %v, want wrong_credentials", err)
		}
	})
}

func TestNewChecksItsOptions(t *testing.T) {
	whole := func() Options {
		return Options{DB: new(db.DB), Secret: make([]byte, MinSecret), BaseURL: "https://app.example.com", Now: time.Now,
			ClientAddr: func(*http.Request) netip.Addr { return netip.Addr{} }}
	}
	if _, err := New(whole()); err != nil {
		t.Errorf("whole options: %v", err)
	}

	for name, spoil := range map[string]func(*Options){
		"no database":         func(o *Options) { o.DB = nil },
		"no client address":   func(o *Options) { o.ClientAddr = nil },
		"no clock":            func(o *Options) { o.Now = nil },
		"a short key":         func(o *Options) { o.Secret = o.Secret[1:] },
		"no base URL":         func(o *Options) { o.BaseURL = "" },
		"a base without host": func(o *Options) { o.BaseURL = "https://" },
		"another scheme":      func(o *Options) { o.BaseURL = "ftp://app.example.com" },
		"no URL":              func(o *Options) { o.BaseURL = "https://app example" },
	} {
		o := whole()
		spoil(&o)

		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
