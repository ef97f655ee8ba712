package sites_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// rulesOf reads the site in the way the data plane does.
func rulesOf(t *testing.T, d *db.DB, site *model.Site) *model.SiteRules {
	t.Helper()
	rules, err := sites.New(d).Lookup.SiteRulesByKey(t.Context(), site.SiteKey)
	testkit.NoError(t, err)
	return rules
}

// siteChanges makes every change that an owner can make, with allowed values, and returns the
// errors.
func siteChanges(ctx context.Context, d *db.DB, accountID model.AccountID, siteID model.SiteID) map[string]error {
	_, replaced := sites.New(d).Sites.ReplaceServerSecret(ctx, accountID, siteID, model.HashToken("s"), "s", 0)

	return map[string]error{
		"AddSiteDomain":      sites.New(d).Sites.AddSiteDomain(ctx, accountID, siteID, "shop.example"),
		"RemoveSiteDomain":   sites.New(d).Sites.RemoveSiteDomain(ctx, accountID, siteID, "other.example"),
		"RegisterEvent":      sites.New(d).Sites.RegisterEvent(ctx, accountID, siteID, "sign-up"),
		"UnregisterEvent":    sites.New(d).Sites.UnregisterEvent(ctx, accountID, siteID, "other"),
		"MarkKeyEvent":       sites.New(d).Sites.MarkKeyEvent(ctx, accountID, siteID, model.EventRefund),
		"MarkKeyEvent again": sites.New(d).Sites.MarkKeyEvent(ctx, accountID, siteID, model.EventPurchase),
		"UnmarkKeyEvent":     sites.New(d).Sites.UnmarkKeyEvent(ctx, accountID, siteID, "other"),
		"UpdateSite of lists": sites.New(d).Sites.UpdateSite(ctx, accountID, siteID, sites.SiteUpdate{
			ExtraDomains: &[]string{"shop.example"}, RegisteredEvents: &[]string{"sign-up"}, KeyEvents: &[]string{"refund", "purchase"},
		}),
		"UpdateSite":            sites.New(d).Sites.UpdateSite(ctx, accountID, siteID, sites.SiteUpdate{Name: new("N")}),
		"ReplaceServerSecret":   replaced,
		"RevokeOldServerSecret": sites.New(d).Sites.RevokeOldServerSecret(ctx, accountID, siteID),
		"SetWebhookSecret":      sites.New(d).Sites.SetWebhookSecret(ctx, accountID, siteID, nil, model.ChangedBy{}),
		"SetConversionWebhook": sites.New(d).Sites.SetConversionWebhook(ctx, accountID, siteID, "https://shop.example/hook?a=1",
			nil, model.ChangedBy{}),
	}
}

// TestSettingsBelongToTheAccount checks that changes of another account's site fail like those of
// an unknown site, and change nothing.
func TestSettingsBelongToTheAccount(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		site, other := world.New(t, d).Site("example.com"), world.New(t, d).User("other@example.org")
		before := rulesOf(t, d, site)

		for _, foreign := range []struct {
			account model.AccountID
			site    model.SiteID
		}{{other.AccountID, site.ID}, {site.AccountID, site.ID + 1},
			{0, site.ID}} {
			for name, err := range siteChanges(ctx, d, foreign.account, foreign.site) {
				testkit.ErrorIs(t, err, model.ErrNotFound, "%s of site %d by account %d", name, foreign.site, foreign.account)
			}
		}

		if after := rulesOf(t, d, site); !reflect.DeepEqual(after, before) {
			t.Errorf("the site changed from %+v to %+v", before, after)
		}

		for name, err := range siteChanges(ctx, d, site.AccountID, site.ID) {
			testkit.Succeeds(t, err, "%s by the owner", name)
		}

		want := before
		want.Name, want.ConversionWebhookURL = "N", "https://shop.example/hook?a=1"
		want.ServerSecretHash, want.ServerSecretHint = model.HashToken("s"), "s"
		want.ExtraDomains, want.Registered, want.KeyEvents = []string{"shop.example"}, []string{"sign-up"}, []string{"refund"}
		for name, read := range map[string]func() (*model.SiteRules, error){
			"key": func() (*model.SiteRules, error) { return sites.New(d).Lookup.SiteRulesByKey(ctx, site.SiteKey) },
			"secret": func() (*model.SiteRules, error) {
				return sites.New(d).Lookup.SiteRulesByServerSecret(ctx, model.HashToken("s"))
			},
			"id": func() (*model.SiteRules, error) {
				rules, err := sites.New(d).Sites.SiteRules(ctx, []model.SiteID{site.ID})
				return rules[site.ID], err
			},
		} {
			if got, err := read(); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("by %s: %+v, error %v; want %+v", name, got, err, want)
			}
		}
	})
}

// TestListsAreBounded checks that of 80 values added concurrently, exactly as many are stored as a
// site may have. Adding a stored value still succeeds then.
func TestListsAreBounded(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		processes := []*db.DB{dbtest.Open(t, databaseURL), dbtest.Open(t, databaseURL)}
		d := processes[0]
		site := world.New(t, d).Site("example.com")
		for _, list := range []struct {
			code, field string
			limit       int
			add         func(*db.DB, string) error
			read        func(*model.SiteRules) []string
		}{
			{
				"too_many_domains", "domain", model.MaxExtraDomains,
				func(d *db.DB, value string) error {
					return sites.New(d).Sites.AddSiteDomain(t.Context(), site.AccountID, site.ID, value+".example")
				},
				func(r *model.SiteRules) []string { return r.ExtraDomains },
			},
			{
				"too_many_events", "name", model.MaxRegisteredEvents,
				func(d *db.DB, value string) error {
					return sites.New(d).Sites.RegisterEvent(t.Context(), site.AccountID, site.ID, value)
				},
				func(r *model.SiteRules) []string { return r.Registered },
			},
		} {
			errs := make([]error, 80)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() { errs[i] = list.add(processes[i%2], fmt.Sprintf("e%d", i)) })
			}

			wg.Wait()
			added := 0
			for _, err := range errs {
				if err == nil {
					added++
				} else {
					dbtest.WantCode(t, err, model.Conflict, list.code, list.field)
				}
			}

			values := list.read(rulesOf(t, d, site))
			if added != list.limit || len(values) != list.limit {
				t.Errorf("%s: %d added, %d stored; want %d", list.code, added, len(values), list.limit)
			}
			testkit.Succeeds(t, list.add(d, strings.TrimSuffix(values[0], ".example")), "%s is there already", values[0])
		}
	})
}

func TestOwnDomainIsNoExtraDomain(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		dbtest.WantCode(t, sites.New(d).Sites.AddSiteDomain(t.Context(), site.AccountID, site.ID, "example.com"), model.Invalid,
			"own_domain", "domain")

		for _, change := range []func(context.Context, model.AccountID, model.SiteID, string) error{sites.New(d).Sites.AddSiteDomain,
			sites.New(d).Sites.AddSiteDomain, sites.New(d).Sites.RemoveSiteDomain, sites.New(d).Sites.RemoveSiteDomain, sites.New(d).Sites.AddSiteDomain} {
			testkit.NoError(t, change(t.Context(), site.AccountID, site.ID, "example.org"))
		}

		testkit.DeepEqual(t, rulesOf(t, d, site).Domains(), []string{"example.com", "example.org"}, "domains")
	})
}

func TestEventNames(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		type change = func(context.Context, model.AccountID, model.SiteID, string) error

		for _, test := range []struct {
			change change
			name   string
			code   string // of the error; empty: none
		}{
			{sites.New(d).Sites.RegisterEvent, "", "invalid_event_name"},
			{sites.New(d).Sites.RegisterEvent, "Sign up", "invalid_event_name"},
			{sites.New(d).Sites.RegisterEvent, strings.Repeat("a", 49), "invalid_event_name"},
			{sites.New(d).Sites.RegisterEvent, "pageview", "reserved_event_name"},
			{sites.New(d).Sites.RegisterEvent, "engagement", "reserved_event_name"},
			{sites.New(d).Sites.RegisterEvent, model.EventScroll, "reserved_event_name"},
			{sites.New(d).Sites.RegisterEvent, model.EventPurchase, "reserved_event_name"},
			{sites.New(d).Sites.MarkKeyEvent, "sign_up", "event_not_registered"},
			{sites.New(d).Sites.MarkKeyEvent, "pageview", "event_not_registered"},
			{sites.New(d).Sites.RegisterEvent, "sign_up", ""},
			{sites.New(d).Sites.RegisterEvent, "sign_up", ""},
			{sites.New(d).Sites.MarkKeyEvent, "sign_up", ""},
			{sites.New(d).Sites.MarkKeyEvent, "sign_up", ""},
			{sites.New(d).Sites.MarkKeyEvent, model.EventScroll, ""},
			{sites.New(d).Sites.MarkKeyEvent, model.EventAddToCart, ""},
			{sites.New(d).Sites.MarkKeyEvent, model.EventRefund, ""},
			{sites.New(d).Sites.MarkKeyEvent, model.EventPurchase, ""},
			{sites.New(d).Sites.UnmarkKeyEvent, model.EventPurchase, "always_key_event"},
			{sites.New(d).Sites.UnmarkKeyEvent, model.EventRefund, ""},
			{sites.New(d).Sites.UnmarkKeyEvent, model.EventRefund, ""},
			{sites.New(d).Sites.UnregisterEvent, model.EventScroll, ""}, // never was registered, and stays a key event
		} {
			err := test.change(t.Context(), site.AccountID, site.ID, test.name)
			if test.code == "" && err != nil {
				t.Errorf("%q: %v", test.name, err)
			} else if test.code != "" {
				dbtest.WantCode(t, err, model.Invalid, test.code, "name")
			}
		}

		rules := rulesOf(t, d, site)
		if fmt.Sprint(rules.Registered, rules.KeyEvents) != "[sign_up] [add_to_cart scroll sign_up]" {
			t.Errorf("registered %v, key events %v", rules.Registered, rules.KeyEvents)
		}
		testkit.NoError(t, sites.New(d).Sites.UnregisterEvent(t.Context(), site.AccountID, site.ID, "sign_up"))

		rules = rulesOf(t, d, site)
		if fmt.Sprint(rules.Registered, rules.KeyEvents) != "[] [add_to_cart scroll]" {
			t.Errorf("after unregistering: registered %v, key events %v", rules.Registered, rules.KeyEvents)
		}
	})
}

func TestUpdateSiteChangesWhatIsGiven(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		prefix := netip.MustParsePrefix

		want := rulesOf(t, d, site)
		for _, test := range []struct {
			update sites.SiteUpdate
			expect func()
		}{
			{sites.SiteUpdate{}, func() {}},
			{sites.SiteUpdate{Name: new(" Shop ")}, func() { want.Name = "Shop" }},
			{sites.SiteUpdate{MeasureSiteSearch: new(true)}, func() { want.MeasureSiteSearch = true }},
			{sites.SiteUpdate{MeasureEcommerce: new(true)}, func() { want.MeasureEcommerce = true }},
			{sites.SiteUpdate{AllowPseudonymousUserID: new(true)}, func() { want.AllowPseudonymousUserID = true }},
			{sites.SiteUpdate{AutomaticEvents: new(true)}, func() { want.AutomaticEvents = true }},
			{sites.SiteUpdate{MeasureSiteSearch: new(false), AutomaticEvents: new(false)},
				func() { want.MeasureSiteSearch, want.AutomaticEvents = false, false }},
			{
				sites.SiteUpdate{ExcludedAddresses: &[]string{
					"10.1.2.3/8", "192.0.2.7/32", "::ffff:192.0.2.7/128", "2001:db8::1/32", "10.0.0.0/8",
				}},
				func() {
					want.Excluded = []netip.Prefix{prefix("10.0.0.0/8"), prefix("192.0.2.7/32"), prefix("2001:db8::/32")}
				},
			},
			{sites.SiteUpdate{Name: new("Shop 2")}, func() { want.Name = "Shop 2" }},
			{sites.SiteUpdate{ExcludedAddresses: &[]string{"::/0"}},
				func() { want.Excluded = []netip.Prefix{prefix("::/0")} }},
			{sites.SiteUpdate{ExcludedAddresses: &[]string{}}, func() { want.Excluded = nil }},
		} {
			testkit.NoError(t, sites.New(d).Sites.UpdateSite(t.Context(), site.AccountID, site.ID, test.update))

			test.expect()

			if got := rulesOf(t, d, site); !reflect.DeepEqual(got, want) {
				t.Errorf("after %+v:\n%+v, want\n%+v", test.update, got, want)
			}
		}

		many := make([]string, model.MaxExcludedNetworks+1)
		for i := range many {
			many[i] = fmt.Sprintf("10.0.%d.%d", i>>8, i&255)
		}

		err := sites.New(d).Sites.UpdateSite(t.Context(), site.AccountID, site.ID,
			sites.SiteUpdate{Name: new("refused"), ExcludedAddresses: &many})
		dbtest.WantCode(t, err, model.Conflict, "too_many_networks", "excludedAddresses")
		err = sites.New(d).Sites.UpdateSite(t.Context(), site.AccountID, site.ID,
			sites.SiteUpdate{ExcludedAddresses: &[]string{"10.0.0.0/33"}})
		dbtest.WantCode(t, err, model.Invalid, "invalid_network", "excludedAddresses.0")
		err = sites.New(d).Sites.UpdateSite(t.Context(), site.AccountID, site.ID, sites.SiteUpdate{Name: new(" ")})
		dbtest.WantCode(t, err, model.Invalid, "invalid_name", "name")

		many = many[1:]
		testkit.NoError(t, sites.New(d).Sites.UpdateSite(t.Context(), site.AccountID, site.ID,
			sites.SiteUpdate{ExcludedAddresses: &many}))
		if got := rulesOf(t, d, site); len(got.Excluded) != model.MaxExcludedNetworks || got.Name != "Shop 2" {
			t.Errorf("%d networks, name %q", len(got.Excluded), got.Name)
		}
	})
}

func TestServerSecretReplacesTheOldOne(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		site := world.New(t, d).Site("example.com")
		known := func(secret string) bool {
			rules, err := sites.New(d).Lookup.SiteRulesByServerSecret(ctx, model.HashToken(secret))
			if err != nil && !errors.Is(err, model.ErrNotFound) {
				t.Fatal(err)
			}
			return err == nil && rules.ID == site.ID
		}

		for _, secret := range []string{"one", "two"} {
			_, err := sites.New(d).Sites.ReplaceServerSecret(ctx, site.AccountID, site.ID, model.HashToken(secret), secret, 0)
			testkit.NoError(t, err)
		}

		if known("one") || !known("two") || rulesOf(t, d, site).ServerSecretHint != "two" {
			t.Errorf("one: %v, two: %v; want only two", known("one"), known("two"))
		}
		testkit.NoError(t, sites.New(d).Sites.RevokeServerSecret(ctx, site.AccountID, site.ID))
		if rules := rulesOf(t, d, site); known("two") || rules.ServerSecretHash != nil || rules.ServerSecretHint != "" {
			t.Errorf("the revoked secret is still there: %+v", rules)
		}
		if _, err := sites.New(d).Lookup.SiteRulesByServerSecret(ctx, nil); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("no secret at all: %v, want not found", err)
		}
	})
}

func TestConversionWebhookAddress(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		for address, ok := range map[string]bool{
			"https://example.com/hook": true, "https://[2001:db8::1]:8443/": true, "": true,
			"http://example.com/": false, "https://": false, "https:///path": false, "example.com": false, "https://u:p@example.com/": false,
			"https://example.com/\n": false, "https://example.com/" + strings.Repeat("a", 2048): false,
		} {
			err := sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, address, nil, model.ChangedBy{})
			if ok && (err != nil || rulesOf(t, d, site).ConversionWebhookURL != address) {
				t.Errorf("%q: %v", address, err)
			} else if !ok {
				dbtest.WantCode(t, err, model.Invalid, "invalid_url", "url")
			}
		}
	})
}

func TestSitePlan(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		for _, test := range []struct {
			plan   model.Plan
			volume *int64
			want   int64
			field  string // of the error; empty: none
		}{
			{model.PlanPro1M, nil, 1_000_000, ""},
			{model.PlanPro1M, new(int64(1_000_000)), 1_000_000, ""},
			{model.PlanPro1M, new(int64(0)), 0, "monthlyPageviews"},
			{model.PlanPro1M, new(int64(1)), 0, "monthlyPageviews"},
			{model.PlanEnterprise, new(int64(30_000_000)), 30_000_000, ""},
			{model.PlanEnterprise, nil, model.MaxMonthlyPageviews, ""},
			{model.PlanEnterprise, new(int64(0)), 0, "monthlyPageviews"},
			{model.PlanEnterprise, new(int64(-1)), 0, "monthlyPageviews"},
			{model.PlanEnterprise, new(int64(1 << 53)), 1 << 53, ""},
			{model.PlanEnterprise, new(int64(1<<53 + 1)), 0, "monthlyPageviews"},
			{"GOLD", new(int64(5)), 0, "plan"},
		} {
			err := sites.New(d).Sites.SetSitePlan(t.Context(), site.ID, test.plan, test.volume)

			if test.field != "" {
				if e, ok := errors.AsType[*model.Error](err); !ok || e.Kind != model.Invalid || e.Field != test.field {
					t.Errorf("%s with %d: %v, want field %s", test.plan, test.volume, err, test.field)
				}

				continue
			}

			if got := rulesOf(t, d, site); err != nil || got.Plan != test.plan || got.MonthlyPageviews != test.want {
				t.Errorf("%s with %d: %v; got %s with %d", test.plan, test.volume, err, got.Plan, got.MonthlyPageviews)
			}
		}

		testkit.ErrorIs(t, sites.New(d).Sites.SetSitePlan(t.Context(), site.ID+1, model.PlanFree, nil), model.ErrNotFound, "unknown site")
	})
}
