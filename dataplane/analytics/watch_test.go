package analytics

import (
	"bytes"
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
)

// TestWithoutNotices: while no notice of a change can arrive, a replaced server secret is dead after half a second all the
// same, and the new one works at once.
func TestWithoutNotices(t *testing.T) {
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
			if err := d.SetServerSecret(t.Context(), account[0].AccountID, site.id, model.HashToken(secret), model.SecretHint(secret)); err != nil {
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
		now = now.Add(unsyncedTTL - 1)
		if err := call(old); err != nil {
			t.Errorf("the old secret within the bound: %v; the snapshot should still hold, or this test shows nothing", err)
		}
		now = now.Add(1)
		if err := call(old); !errors.Is(err, errInvalidSecret) {
			t.Errorf("the old secret after %v: %v, want invalid_secret", unsyncedTTL, err)
		}
		if err := call(fresh); err != nil {
			t.Errorf("the new secret later: %v", err)
		}
	})
}

// TestMissingNoticesAreLogged: once when they stop or never come, and once when they come again.
func TestMissingNoticesAreLogged(t *testing.T) {
	away := errors.New("connection refused")
	for _, test := range []struct {
		name  string
		calls []error // of synced
		want  []string
	}{
		{"all is well", []error{nil}, nil},
		{"never reached", []error{away}, []string{"WARN"}},
		{"reached at last", []error{away, nil}, []string{"WARN", "INFO"}},
		{"lost and found", []error{nil, away, nil, away, nil}, []string{"WARN", "INFO", "WARN", "INFO"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var text bytes.Buffer
			s := &Service{
				log:       slog.New(slog.NewTextHandler(&text, nil)),
				bySiteKey: newSiteCache(nil, time.Now),
				bySecret:  newSiteCache(nil, time.Now),
				watch: func(_ context.Context, _ func(int64), synced func(error)) error {
					for _, why := range test.calls {
						synced(why)
					}
					return context.Canceled
				},
			}
			s.watchSites(t.Context())
			var levels []string
			for line := range strings.Lines(text.String()) {
				_, level, _ := strings.Cut(line, "level=")
				level, _, _ = strings.Cut(level, " ")
				levels = append(levels, level)
			}
			if strings.Join(levels, " ") != strings.Join(test.want, " ") || len(test.want) > 0 && !strings.Contains(text.String(), away.Error()) {
				t.Errorf("logged\n%s, want levels %v and the reason", &text, test.want)
			}
		})
	}
}
