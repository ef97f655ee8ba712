package jobs_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestWorkerChecksDomains checks that the worker looks up the domains of providers.
func TestWorkerChecksDomains(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner, secret, at := world.New(t, d).User("owner@corp.example"), "the client secret", model.At(noon)
		provider, err := accounts.New(d).Providers.Set(t.Context(), owner, accounts.ProviderChange{
			Provider: model.AccountProvider{
				Issuer: "https://sso.example", ClientID: "tallygate", Domain: "corp.example", DefaultRole: model.RoleViewer, ChangedAt: at,
			},
			Secret: &secret,
		})
		if err == nil {
			err = accounts.New(d).Providers.Verify(t.Context(), provider, []string{provider.RecordText()}, at.Add(-8*24*time.Hour))
		}
		if err == nil {
			err = dbtest.Exec(d, "UPDATE account_providers SET missing_since = ?", at.Add(-7*24*time.Hour))
		}
		testkit.NoError(t, err)

		startWorkerWith(t, jobs.Options{
			DB: d, Now: testkit.NewClock(noon).Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Resolver: testkit.NewDNS(t).Resolver(),
		})
		awaitThat(t, func() (string, bool) {
			stored, err := accounts.New(d).Providers.Of(t.Context(), owner.AccountID)
			testkit.NoError(t, err)
			return fmt.Sprintf("the domain is verified at %v", stored.VerifiedAt), stored.VerifiedAt == 0
		})
	})
}
