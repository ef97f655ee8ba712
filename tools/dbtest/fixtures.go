package dbtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// Start is the time at which tests with a simulated clock start.
var Start = model.At(time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC))

// Noon is noon on the day of Start.
var Noon = model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// NewUser signs a user up under the policy "open".
func NewUser(t testing.TB, d *db.DB, email string) *model.User {
	t.Helper()
	user, err := accounts.New(d).SignUp(t.Context(), model.SignupsOpen, model.Account{Name: email, CreatedAt: Start},
		model.User{Email: email, PasswordHash: "hash", CreatedAt: Start})
	if err != nil {
		t.Fatalf("sign up %s: %v", email, err)
	}
	return user
}

// AddMember adds a user without a password to an account, without an invitation.
func AddMember(t testing.TB, d *db.DB, accountID model.AccountID, email string, role model.Role) {
	t.Helper()

	err := Exec(d, "INSERT INTO users (email, password_hash, created_at) VALUES (?, '-', 1)", email)
	if err == nil {
		err = Exec(d, "INSERT INTO memberships (user_id, account_id, role, created_at) "+
			"SELECT id, ?, ?, 1 FROM users WHERE email = ?", accountID, role, email)
	}
	if err != nil {
		t.Fatalf("add %s: %v", email, err)
	}
}

// NewSite creates a site of the account.
func NewSite(t testing.TB, d *db.DB, accountID model.AccountID, domain string) *model.Site {
	t.Helper()

	site, err := sites.New(d).Sites.CreateSite(t.Context(), model.Site{
		AccountID: accountID, SiteKey: model.NewSiteKey(), Domain: domain, Name: domain,
		Plan: model.PlanFree, MonthlyPageviews: 10_000, CreatedAt: Start,
	})
	if err != nil {
		t.Fatalf("create site %s: %v", domain, err)
	}

	return site
}

// NewOwnSite creates an account with a site.
func NewOwnSite(t testing.TB, d *db.DB, domain string) *model.Site {
	t.Helper()
	return NewSite(t, d, NewUser(t, d, "owner@"+domain).AccountID, domain)
}

// CaptchaAccount creates an account and returns its id.
func CaptchaAccount(t *testing.T, d *db.DB, name string) model.AccountID {
	t.Helper()
	user, err := accounts.New(d).SignUp(t.Context(), model.SignupsOpen, model.Account{Name: name, CreatedAt: 1},
		model.User{Email: name + "@example.com", PasswordHash: "-", CreatedAt: 1})
	if err != nil {
		t.Fatal(err)
	}
	return user.AccountID
}

// WantCode checks that err is a model.Error with this kind, code and field.
func WantCode(t *testing.T, err error, kind model.Kind, code, field string) {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Kind != kind || e.Code != code || e.Field != field {
		t.Fatalf("got error %v, want kind %d, code %q, field %q", err, kind, code, field)
	}
}

// PgStrings runs a query of one text column.
func PgStrings(t *testing.T, databaseURL, query string) []string {
	t.Helper()

	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())

	rows, err := conn.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}

	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}

	return found
}

// OutboxSite creates an account with a site that has a conversion webhook.
func OutboxSite(t *testing.T, d *db.DB, domain string) *model.Site {
	t.Helper()

	user, err := accounts.New(d).SignUp(t.Context(), model.SignupsOpen, model.Account{Name: "a", CreatedAt: Noon},
		model.User{Email: "owner@" + domain, PasswordHash: "-", CreatedAt: Noon})
	if err != nil {
		t.Fatal(err)
	}

	site, err := sites.New(d).Sites.CreateSite(t.Context(), model.Site{
		AccountID: user.AccountID, SiteKey: model.NewSiteKey(), Domain: domain, Name: domain,
		Plan: model.PlanFree, MonthlyPageviews: 10_000, CreatedAt: Noon,
	})
	if err != nil {
		t.Fatal(err)
	}

	secret := "the secret of " + domain
	if err := sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, "https://"+domain+"/hook", &secret,
		model.ChangedBy{}); err != nil {
		t.Fatal(err)
	}

	return site
}
