package auth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSharedAddressIsNotThrottled: behind a proxy that is not configured, all clients have one
// address. No limit by network applies to it; those by e-mail address do.
func TestSharedAddressIsNotThrottled(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		shared := false
		a, err := New(Options{
			DB: d, Secret: make([]byte, MinSecret), BaseURL: "http://127.0.0.1",
			ClientAddr: func(*http.Request) netip.Addr { return netip.MustParseAddr("127.0.0.1") },
			IsShared:   func(*http.Request) bool { return shared },
			Now:        func() time.Time { return now },
		})
		testkit.NoError(t, err)

		r := httptest.NewRequest(http.MethodPost, "/graphql", nil)

		refused := func(attempts int, limits func(i int) []accounts.SignInLimit) bool {
			for i := range attempts {
				if a.throttle.count(t.Context(), limits(i)) != nil {
					return true
				}
			}
			return false
		}
		for _, kind := range []struct {
			name   string
			limits func(r *http.Request, address string) []accounts.SignInLimit
			byMail bool
		}{
			{"sign-in", func(r *http.Request, address string) []accounts.SignInLimit {
				return a.throttle.signInLimits(r, address, nil)
			}, true},
			{"sign-up", a.throttle.signUpLimits, true},
			{"reset", a.throttle.resetLimits, true},
			{"mailed secret", func(r *http.Request, _ string) []accounts.SignInLimit { return a.throttle.secretLimits(r) }, false},
		} {
			sharedClient := func(i int) []accounts.SignInLimit {
				return kind.limits(r, fmt.Sprintf("%s-%v-%d@example.com", kind.name, shared, i))
			}

			onePerson := func(int) []accounts.SignInLimit { return kind.limits(r, kind.name+"@example.com") }

			shared = true

			if refused(2*networkFailures, sharedClient) {
				t.Errorf("%s: one of %d clients at a shared address is refused", kind.name, 2*networkFailures)
			}
			if got := refused(2*accountFailures, onePerson); got != kind.byMail {
				t.Errorf("%s: %d attempts for one e-mail address at a shared address are refused: %v, want %v", kind.name, 2*accountFailures, got, kind.byMail)
			}

			shared = false

			if !refused(2*networkFailures, sharedClient) {
				t.Errorf("%s: %d clients at an address that is not shared are not refused", kind.name, 2*networkFailures)
			}
		}
	})
}
