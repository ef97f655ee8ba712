// Package world creates the accounts, sites and sitekeys of tests.
//
//	w := world.New(t, d)
//	site := w.Site("shop.example", world.Quota(100), world.Webhook)
//	key := w.Sitekey(site.AccountID, "shop.example")
//	w.Member(site.AccountID, "friend@shop.example", model.RoleViewer)
//	w.Clock.Add(time.Hour) // rows are created at the time of the clock
//
// It links the database only. Package planetest serves the data plane in the test's process, and
// package program runs the program in a process of its own.
package world

import (
	"context"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// World creates rows of a test database. A failure fails the test.
type World struct {
	TB    testing.TB
	DB    *db.DB
	Clock *testkit.Clock
}

// New returns a world with its clock at dbtest.Start.
func New(tb testing.TB, d *db.DB) *World {
	return &World{TB: tb, DB: d, Clock: testkit.NewClock(dbtest.Start.Time())}
}

// Now returns the time of the clock as rows have it.
func (w *World) Now() model.Instant { return model.At(w.Clock.Now()) }

// Await waits until a change has taken effect that another process or goroutine makes.
func (w *World) Await(what string, holds func() bool) {
	w.TB.Helper()
	testkit.Await(w.TB, what, holds)
}

// User signs a user up, with an account named like the address. The default plan is the free one.
func (w *World) User(email string, plan ...model.CaptchaPlan) *model.User {
	w.TB.Helper()

	account := model.Account{Name: email, CreatedAt: w.Now()}
	if len(plan) > 0 {
		account.CaptchaPlan = plan[0]
	}

	user, err := accounts.New(w.DB).SignUp(w.TB.Context(), model.SignupsOpen, account,
		model.User{Email: email, PasswordHash: "hash", CreatedAt: w.Now()})
	if err != nil {
		w.TB.Fatalf("sign up %s: %v", email, err)
	}

	return user
}

// Account creates the account of name@example.com and returns its id.
func (w *World) Account(name string, plan ...model.CaptchaPlan) model.AccountID {
	w.TB.Helper()
	return w.User(name+"@example.com", plan...).AccountID
}

// Member adds a user without a password to an account, without an invitation.
func (w *World) Member(accountID model.AccountID, email string, role model.Role) {
	w.TB.Helper()

	err := dbtest.Exec(w.DB, "INSERT INTO users (email, password_hash, created_at) VALUES (?, '-', 1)", email)
	if err == nil {
		err = dbtest.Exec(w.DB, "INSERT INTO memberships (user_id, account_id, role, created_at) "+
			"SELECT id, ?, ?, 1 FROM users WHERE email = ?", accountID, role, email)
	}
	if err != nil {
		w.TB.Fatalf("add %s: %v", email, err)
	}
}

// SiteOption changes a new site.
type SiteOption func(*newSite)

type newSite struct {
	model.Site
	changes []func(context.Context, *sites.Sites, *model.Site) error
}

// Of makes the site one of an existing account. The default is a new account of the user "owner" at
// the site's domain.
func Of(accountID model.AccountID) SiteOption {
	return func(s *newSite) { s.AccountID = accountID }
}

// Quota sets the number of page views a month, on the plan Enterprise. The default is 10,000 on the
// plan Free.
func Quota(pageviews int64) SiteOption {
	return func(s *newSite) { s.Plan, s.MonthlyPageviews = model.PlanEnterprise, pageviews }
}

// Key sets the site key, which is random by default.
func Key(siteKey string) SiteOption {
	return func(s *newSite) { s.SiteKey = siteKey }
}

// Domains adds domains.
func Domains(domains ...string) SiteOption { return each(domains, (*sites.Sites).AddSiteDomain) }

// Events registers custom events.
func Events(names ...string) SiteOption { return each(names, (*sites.Sites).RegisterEvent) }

// KeyEvents marks registered events as key events.
func KeyEvents(names ...string) SiteOption { return each(names, (*sites.Sites).MarkKeyEvent) }

func each(names []string, add func(*sites.Sites, context.Context, model.AccountID, model.SiteID, string) error) SiteOption {
	return afterwards(func(ctx context.Context, store *sites.Sites, site *model.Site) error {
		for _, name := range names {
			if err := add(store, ctx, site.AccountID, site.ID, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// Settings changes settings.
func Settings(update sites.SiteUpdate) SiteOption {
	return afterwards(func(ctx context.Context, store *sites.Sites, site *model.Site) error {
		return store.UpdateSite(ctx, site.AccountID, site.ID, update)
	})
}

// Webhook sets the conversion webhook https://DOMAIN/hook with the secret "the secret of DOMAIN".
func Webhook(s *newSite) {
	secret := "the secret of " + s.Domain
	WebhookAt("https://"+s.Domain+"/hook", &secret)(s)
}

// WebhookAt sets a conversion webhook. With a nil secret its deliveries are not signed.
func WebhookAt(url string, secret *string) SiteOption {
	return afterwards(func(ctx context.Context, store *sites.Sites, site *model.Site) error {
		return store.SetConversionWebhook(ctx, site.AccountID, site.ID, url, secret, model.ChangedBy{})
	})
}

// afterwards returns an option that changes the stored site.
func afterwards(change func(context.Context, *sites.Sites, *model.Site) error) SiteOption {
	return func(s *newSite) { s.changes = append(s.changes, change) }
}

// Site creates a site.
func (w *World) Site(domain string, options ...SiteOption) *model.Site {
	w.TB.Helper()

	made := newSite{Site: model.Site{
		SiteKey: model.NewSiteKey(), Domain: domain, Name: domain,
		Plan: model.PlanFree, MonthlyPageviews: 10_000, CreatedAt: w.Now(),
	}}
	for _, option := range options {
		option(&made)
	}
	if made.AccountID == 0 {
		made.AccountID = w.User("owner@" + domain).AccountID
	}

	store := sites.New(w.DB).Sites
	site, err := store.CreateSite(w.TB.Context(), made.Site)
	if err != nil {
		w.TB.Fatalf("create site %s: %v", domain, err)
	}

	for _, change := range made.changes {
		if err := change(w.TB.Context(), store, site); err != nil {
			w.TB.Fatalf("change site %s: %v", domain, err)
		}
	}

	return site
}

// Sitekey is a sitekey with its secret.
type Sitekey struct {
	*model.Sitekey
	Secret string
}

// Sitekey creates a sitekey of an account. Without domains it is bound to none.
func (w *World) Sitekey(accountID model.AccountID, domains ...string) Sitekey {
	w.TB.Helper()
	key, secret, err := sites.New(w.DB).Sitekeys.CreateSitekey(w.TB.Context(), accountID, "Form", domains, w.Now())
	if err != nil {
		w.TB.Fatalf("create a sitekey: %v", err)
	}
	return Sitekey{key, secret}
}
