package ingest_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// newOwnSite creates an account with a site.
func newOwnSite(t *testing.T, d *db.DB, domain string) *model.Site {
	t.Helper()

	site, err := d.CreateSite(t.Context(), model.Site{
		AccountID: captchaAccount(t, d, domain), SiteKey: model.NewSiteKey(), Domain: domain, Name: domain,
		Plan: model.PlanFree, MonthlyPageviews: 10_000, CreatedAt: 1,
	})
	if err != nil {
		t.Fatalf("create site %s: %v", domain, err)
	}

	return site
}

// captchaAccount creates an account and returns its id.
func captchaAccount(t *testing.T, d *db.DB, name string) int64 {
	t.Helper()

	user, err := d.SignUp(t.Context(), model.SignupsOpen, model.Account{Name: name, CreatedAt: 1},
		model.User{Email: "owner@" + name + ".example", PasswordHash: "-", CreatedAt: 1})
	if err != nil {
		t.Fatalf("sign up %s: %v", name, err)
	}

	return user.AccountID
}

// used returns the site's count of the month.
func used(t *testing.T, d *db.DB, site *model.Site) int64 {
	t.Helper()

	rows, err := dbtest.Rows[struct{ Used int64 }](d, "SELECT used FROM site_usage WHERE site_id = ? AND month = ?", site.ID, month)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		return 0
	}

	return rows[0].Used
}
