package analytics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// visitorKey is the secret of all days.
func visitorKey(context.Context, model.Day) ([]byte, error) { return []byte("a secret for tests"), nil }

// TestWithoutNotifications checks that a replaced server secret is refused after half a second, and
// the new one accepted at once, even while no change notification arrives.
func TestWithoutNotifications(t *testing.T) {
	t.Parallel()
	const bound = 500 * time.Millisecond
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := modelSite(t, d, "example.com", 100)
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		s, err := New(Options{
			Cell:       dbtest.SitesCell(t, d),
			UserIDKey:  []byte("a key for tests"),
			VisitorKey: visitorKey,
			ClientAddr: func(*http.Request) netip.Addr { return netip.Addr{} },
			Now:        func() time.Time { return now },
			Store:      ingest.NewHitStore(dbtest.SitesCell(t, d)),
			Log:        slog.New(slog.DiscardHandler),
		})
		testkit.NoError(t, err)

		reported := make(chan struct{})
		s.watch = func(ctx context.Context, _ func(int64), synced func(error)) error {
			synced(errors.New("the database is unavailable"))
			close(reported)
			<-ctx.Done()
			return ctx.Err()
		}

		s.Start()
		defer s.Stop(context.Background())

		<-reported
		account, err := dbtest.Rows[struct{ AccountID model.AccountID }](d, "SELECT account_id FROM sites WHERE id = ?", site.id)
		testkit.NoError(t, err)

		rotate := func() (secret string) {
			secret = model.NewSecret(serverSecretPrefix)
			_, err := sites.New(d).Sites.ReplaceServerSecret(t.Context(), account[0].AccountID, site.id, model.HashToken(secret),
				model.SecretHint(secret), 0)
			testkit.NoError(t, err)
			return secret
		}

		call := func(secret string) error {
			request := httptest.NewRequest(http.MethodPost, "/server.php", strings.NewReader(`{"event":"scroll","ip":"203.0.113.1","user_agent":"-"}`))
			request.Header.Set("Authorization", "Bearer "+secret)
			return s.Server(httptest.NewRecorder(), request)
		}

		old := rotate()
		if err := call(old); err != nil {
			t.Fatalf("the first secret: %v", err)
		}

		fresh := rotate()
		testkit.Succeeds(t, call(fresh), "the new secret")

		now = now.Add(bound - 1)

		testkit.Succeeds(t, call(old), "the old secret within the bound, which should still be cached")

		now = now.Add(1)

		testkit.ErrorIs(t, call(old), errInvalidSecret, "the old secret after %v", bound)
		testkit.Succeeds(t, call(fresh), "the new secret later")
	})
}

// TestWrongClockIsLogged checks that a process logs an error if its clock differs from the
// database's.
func TestWrongClockIsLogged(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
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
