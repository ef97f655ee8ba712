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
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// TestWithoutNotices: while no notice of a change can arrive, a replaced server secret is dead
// after half a second all the same, and the new one works at once.
func TestWithoutNotices(t *testing.T) {
	const bound = 500 * time.Millisecond
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := modelSite(t, d, "example.com", 100)
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		s := New(Options{
			DB:         d,
			Secret:     []byte("a secret for tests, 32 bytes or more"),
			ClientAddr: func(*http.Request) netip.Addr { return netip.Addr{} },
			Now:        func() time.Time { return now },
			Store:      d.HitStore(),
			Log:        slog.New(slog.DiscardHandler),
		})

		told := make(chan struct{})
		s.watch = func(ctx context.Context, _ func(int64), synced func(error)) error {
			synced(errors.New("the database is not reached"))
			close(told)
			<-ctx.Done()
			return ctx.Err()
		}

		s.Start()
		defer s.Stop(context.Background())

		<-told
		account, err := dbtest.Rows[struct{ AccountID int64 }](d, "SELECT account_id FROM sites WHERE id = ?", site.id)
		if err != nil {
			t.Fatal(err)
		}

		rotate := func() (secret string) {
			secret = model.NewSecret(serverSecretPrefix)
			if err := sites.New(d).SetServerSecret(t.Context(), account[0].AccountID, site.id, model.HashToken(secret), model.SecretHint(secret)); err != nil {
				t.Fatal(err)
			}
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
		if err := call(fresh); err != nil {
			t.Errorf("the new secret: %v", err)
		}

		now = now.Add(bound - 1)

		if err := call(old); err != nil {
			t.Errorf("the old secret within the bound: %v; the snapshot should still hold, or this test shows nothing", err)
		}

		now = now.Add(1)

		if err := call(old); !errors.Is(err, errInvalidSecret) {
			t.Errorf("the old secret after %v: %v, want invalid_secret", bound, err)
		}
		if err := call(fresh); err != nil {
			t.Errorf("the new secret later: %v", err)
		}
	})
}
