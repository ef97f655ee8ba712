package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

const day = 24 * time.Hour

// provider returns the stored provider of an account.
func provider(t *testing.T, d *db.DB, accountID model.AccountID) *model.AccountProvider {
	t.Helper()
	stored, err := accounts.New(d).Providers.Of(t.Context(), accountID)
	testkit.NoError(t, err)
	return stored
}

// claim sets the provider of an owner's account with a domain that is not verified.
func claim(t *testing.T, d *db.DB, owner *model.User, domain string) *model.AccountProvider {
	t.Helper()
	secret := "the client secret"
	made, err := accounts.New(d).Providers.Set(t.Context(), owner, accounts.ProviderChange{
		Provider: model.AccountProvider{
			Issuer: providerIssuer, ClientID: "tallygate", Domain: domain, DefaultRole: model.RoleViewer, ChangedAt: dbtest.Start,
		},
		Secret: &secret,
	})
	testkit.NoError(t, err)
	return made
}

// verify lets an account show its record, in addition to others, and verifies its domain with it.
func verify(t *testing.T, d *db.DB, p *model.AccountProvider, others ...string) error {
	t.Helper()
	return accounts.New(d).Providers.Verify(t.Context(), p, append(others, p.RecordText()), dbtest.Start)
}

// lostDomain returns the entry of an account's log about the end of its domain's verification.
func lostDomain(t *testing.T, d *db.DB, accountID model.AccountID) *audit.Entry {
	t.Helper()
	list, err := audit.New(d).Entries(t.Context(), accountID, audit.Filter{Actions: []string{"loseProviderDomain"}}, 0, 100)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	return list[0]
}

// TestDomainsAreLookedUp checks that the record of a verified domain is looked up once a day, and
// that the verification ends when it has been missing for 7 days, with the provider's sessions. A
// DNS that does not answer changes nothing, and a domain that an operator has confirmed is not
// looked up.
func TestDomainsAreLookedUp(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		dns, store, now := testkit.NewDNS(t), accounts.New(d), dbtest.Start
		owner := world.New(t, d).User("owner@corp.example")
		p := claim(t, d, owner, "corp.example")
		dns.Set(p.RecordName(), "another text", p.RecordText())
		testkit.NoError(t, verify(t, d, p))
		testkit.NoError(t, dbtest.Exec(d, "UPDATE accounts SET require_provider = ?", true))

		// An operator has confirmed this one.
		confirmed := claim(t, d, world.New(t, d).User("owner@confirmed.example"), "confirmed.example")
		testkit.NoError(t, store.Providers.Verify(t.Context(), confirmed, nil, dbtest.Start))

		// check lets time pass and checks the outcome: since when the record is missing, and the
		// number of lookups.
		lookups, isLost := 0, false
		check := func(name string, after time.Duration, missing model.Instant, asked, lost int) {
			t.Helper()
			now = now.Add(after)
			n, err := store.Providers.CheckDomains(t.Context(), dns.Resolver(), now)
			if err != nil || n != int64(lost) {
				t.Errorf("%s: %d domains lost, %v, want %d", name, n, err, lost)
			}
			isLost = isLost || lost > 0
			got := provider(t, d, owner.AccountID)
			if got.MissingSince != missing || (got.VerifiedAt == 0) != isLost {
				t.Errorf("%s: verified at %v, missing since %v, want %v", name, got.VerifiedAt, got.MissingSince, missing)
			}

			// A resolver repeats a query without an answer.
			total := dns.Asked(p.RecordName())
			testkit.Equal(t, (total > lookups), (asked > 0), "%s: %d queries", name, total-lookups)
			lookups = total
		}

		check("at once", 0, 0, 0, 0)
		check("within a day", day-time.Microsecond, 0, 0, 0)
		check("after a day", time.Microsecond, 0, 1, 0)
		check("again at once", 0, 0, 0, 0)

		dns.Set(p.RecordName())
		check("without the record", day, now.Add(day), 1, 0)
		missing := now
		dns.Fail(true)
		for range 8 {
			check("a DNS that fails", day, missing, 1, 0)
		}
		dns.Fail(false)
		dns.Set(p.RecordName(), p.RecordText())
		check("with the record again", day, 0, 1, 0)

		// Another record of the same name is not the account's.
		dns.Set(p.RecordName(), model.ProviderRecordPrefix+"another")
		check("with another record", day, now.Add(day), 1, 0)
		missing = now
		for range 6 {
			check("for less than 7 days", day, missing, 1, 0)
		}
		start := throughProvider(owner, dbtest.Start)
		start.CreatedAt = now
		testkit.NoError(t, store.Sessions.Create(t.Context(), start))
		check("for 7 days", day, 0, 1, 1)

		if got := provider(t, d, owner.AccountID); got.ChangedAt != now || got.CheckedAt != 0 {
			t.Errorf("changed at %v, checked at %v", got.ChangedAt, got.CheckedAt)
		}
		if sessionLives(t, d, start.IDHash, now) {
			t.Error("the provider's session outlives the verification")
		}
		if _, err := store.Providers.OfDomain(t.Context(), "corp.example"); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("the provider signs people in: %v", err)
		}
		if required, err := store.Providers.Required(t.Context(), owner.AccountID); !required || err != nil {
			t.Errorf("the account requires its provider: %v, %v", required, err)
		}
		if lost := lostDomain(t, d, owner.AccountID); lost.Actor.Kind != audit.System || lost.Actor.At != now ||
			lost.Before["verifiedDomain"] != "corp.example" {
			t.Errorf("the audit log has %+v", lost)
		}
		check("afterwards", day, 0, 0, 0)

		if n := dns.Asked(confirmed.RecordName()); n != 0 || provider(t, d, confirmed.AccountID).VerifiedAt == 0 {
			t.Errorf("a domain that an operator has confirmed: %d queries", n)
		}

		// The owner can verify it again.
		if err := verify(t, d, provider(t, d, owner.AccountID)); err != nil {
			t.Error(err)
		}
	})
}

// TestChangedDuringLookup checks that the outcome of a lookup does not change a provider that has
// changed meanwhile.
func TestChangedDuringLookup(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		dns := testkit.NewDNS(t)
		owner := world.New(t, d).User("owner@corp.example")
		p := claim(t, d, owner, "corp.example")
		testkit.NoError(t, verify(t, d, p))
		week := dbtest.Start.Add(8 * day)
		testkit.NoError(t, dbtest.Exec(d, "UPDATE account_providers SET missing_since = ?", dbtest.Start))

		// The owner verifies the domain again during the lookup, which has not seen the record.
		verified, err := dbtest.RaceInOrder(t, d, `UPDATE "account_providers"`,
			func() error { return accounts.New(d).Providers.Verify(t.Context(), p, []string{p.RecordText()}, week) },
			func() error {
				n, err := accounts.New(d).Providers.CheckDomains(t.Context(), dns.Resolver(), week)
				testkit.Equal(t, n, 0, "domains lost")
				return err
			})
		if verified != nil || err != nil {
			t.Errorf("errors %v and %v", verified, err)
		}
		if got := provider(t, d, owner.AccountID); got.VerifiedAt != week || got.MissingSince != 0 {
			t.Errorf("verified at %v, missing since %v", got.VerifiedAt, got.MissingSince)
		}
	})
}

// TestNewRecordTakesDomain checks that an account with a record gets the domain of an account whose
// own record is gone, and of no other.
func TestNewRecordTakesDomain(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := accounts.New(d)
		first, second := world.New(t, d).User("first@old.example"), world.New(t, d).User("second@new.example")
		holder, taker := claim(t, d, first, "corp.example"), claim(t, d, second, "corp.example")

		// Against an operator's word.
		testkit.NoError(t, store.Providers.Verify(t.Context(), holder, nil, dbtest.Start))
		testkit.ErrorIs(t, verify(t, d, taker), accounts.ErrDomainClaimed, "a domain that an operator has confirmed")

		// Against a record that is still there.
		testkit.NoError(t, verify(t, d, holder))
		testkit.ErrorIs(t, verify(t, d, taker, holder.RecordText()), accounts.ErrDomainClaimed, "next to the other record")
		if got := provider(t, d, first.AccountID); got.VerifiedAt == 0 || got.ChangedAt != dbtest.Start {
			t.Errorf("the refused changes have changed the holder: %+v", got)
		}

		// The operator's word takes no domain either.
		testkit.ErrorIs(t, store.Providers.Verify(t.Context(), taker, nil, dbtest.Start), accounts.ErrDomainClaimed, "by an operator")

		// Alone. A session of the holder starts at the same time, and does not outlive the
		// verification.
		as := audit.WithActor(t.Context(), audit.Actor{Kind: audit.User, UserID: second.ID, Email: second.Email, Action: "verifyProviderDomain"})
		taken, started := dbtest.RaceInOrder(t, d, "UPDATE account_providers SET verified_at = 0",
			func() error { return store.Providers.Verify(as, taker, []string{taker.RecordText()}, dbtest.Start+1) },
			func() error { return store.Sessions.Create(t.Context(), throughProvider(first, dbtest.Start)) })
		if taken != nil || !errors.Is(started, accounts.ErrProviderChanged) {
			t.Errorf("errors %v and %v", taken, started)
		}
		of, err := store.Providers.OfDomain(t.Context(), "corp.example")
		if err != nil || of.AccountID != second.AccountID {
			t.Errorf("the domain belongs to %+v, %v", of, err)
		}

		// The log of the holder does not name the other account's owner.
		if lost := lostDomain(t, d, first.AccountID); lost.Actor.Kind != audit.System ||
			strings.Contains(fmt.Sprintf("%+v", lost), second.Email) {
			t.Errorf("the holder's log has %+v", lost)
		}
	})
}

// TestAccountsTakeDomainsInOrder checks that two accounts which take a domain at the same time do
// not wait for each other for ever, and that one of them has it.
func TestAccountsTakeDomainsInOrder(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		var claims []*model.AccountProvider
		for i := range 3 {
			owner := world.New(t, d).User(fmt.Sprintf("owner%d@corp.example", i))
			claims = append(claims, claim(t, d, owner, "corp.example"))
		}
		testkit.NoError(t, verify(t, d, claims[1]))
		take := func(ctx context.Context, p *model.AccountProvider) func() error {
			return func() error { return accounts.New(d).Providers.Verify(ctx, p, []string{p.RecordText()}, dbtest.Start) }
		}
		one, two := dbtest.RaceInOrder(t, d, `UPDATE "account_providers"`, take(t.Context(), claims[0]), take(t.Context(), claims[2]))
		if one != nil || two != nil && !errors.Is(two, accounts.ErrDomainClaimed) {
			t.Errorf("errors %v and %v", one, two)
		}
		if n, err := dbtest.Rows[int](d, "SELECT count(*) FROM account_providers WHERE verified_at > 0"); err != nil || n[0] != 1 {
			t.Errorf("%v accounts have the domain, %v", n, err)
		}
	})
}
