package accounts_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// addGuest adds a user to an account as a guest of sites, with an invitation.
func addGuest(t *testing.T, d *db.DB, accountID model.AccountID, email string, siteIDs ...model.SiteID) *model.User {
	t.Helper()

	invitation := model.NewInvitation(accountID, email, model.RoleViewer, email, dbtest.Start)
	invitation.SiteIDs = siteIDs
	if _, err := accounts.New(d).Invitations.Create(t.Context(), invitation, nil); err != nil {
		t.Fatal(err)
	}

	var guest *model.User
	user, err := accounts.New(d).UserByEmail(t.Context(), email)
	if errors.Is(err, model.ErrNotFound) {
		guest, err = accounts.New(d).Invitations.Accept(t.Context(), model.HashToken(email), "hash", model.English, dbtest.Start)
	} else if err == nil {
		guest, err = accounts.New(d).Invitations.AcceptAs(t.Context(), model.HashToken(email), user, dbtest.Start)
	}
	testkit.NoError(t, err)
	return guest
}

// TestMemberForGuests checks the objects that a guest finds, also as the owner of another account,
// and through an API token.
func TestMemberForGuests(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner := world.New(t, d).User("owner@example.com")
		one, two := world.New(t, d).Site("one.example", world.Of(owner.AccountID)), world.New(t, d).Site("two.example", world.Of(owner.AccountID))
		agency := world.New(t, d).User("agency@example.com")
		own := world.New(t, d).Site("own.example", world.Of(agency.AccountID))

		only := addGuest(t, d, owner.AccountID, "only@example.com", one.ID)
		both := addGuest(t, d, owner.AccountID, "agency@example.com", one.ID)

		for _, test := range []struct {
			name  string
			user  *model.User
			sites []model.SiteID // that the user finds
		}{
			{"a guest", only, []model.SiteID{one.ID}},
			{"a guest who owns an account", both, []model.SiteID{one.ID, own.ID}},
			{"a guest who owns an account, in it", both.In(agency.AccountID), []model.SiteID{one.ID, own.ID}},
			{"a guest's token", only.Restrict(nil), []model.SiteID{one.ID}},
			{"a guest's token for the site", only.Restrict([]model.SiteID{one.ID, two.ID}), []model.SiteID{one.ID}},
			{"a guest's token for another site", only.Restrict([]model.SiteID{two.ID}), nil},
			{"an owner", owner, []model.SiteID{one.ID, two.ID, own.ID}}, // the query itself checks the only account
			{"an owner's token", owner.Restrict([]model.SiteID{two.ID}), []model.SiteID{two.ID}},
		} {
			for _, site := range []*model.Site{one, two, own} {
				member, err := accounts.New(d).MemberFor(t.Context(), test.user, nodeid.Site, int64(site.ID))
				found := slices.Contains(test.sites, site.ID)
				if found && err != nil || !found && !errors.Is(err, model.ErrNotFound) {
					t.Errorf("%s, the site %s: %v, want that it is found: %t", test.name, site.Domain, err, found)
				}
				if err == nil && test.user != owner && member.AccountID != site.AccountID {
					t.Errorf("%s, the site %s: a member of account %d", test.name, site.Domain, member.AccountID)
				}
			}
		}
	})
}

// TestUserPlans checks that a user is found by the indexes, whatever other accounts have stored.
func TestUserPlans(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner := world.New(t, d).User("owner@example.com")
		guest := addGuest(t, d, owner.AccountID, "guest@example.com", world.New(t, d).Site("one.example", world.Of(owner.AccountID)).ID)

		// Without many rows, or without their statistics, PostgreSQL prefers to read a table as a
		// whole.
		account := strconv.FormatInt(int64(owner.AccountID), 10)
		const numbers = "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
		for _, statement := range []string{
			"INSERT INTO users (email, password_hash, created_at) " + numbers + "SELECT 'p' || i || '@example.com', '', 1 FROM n",
			"INSERT INTO memberships (user_id, account_id, role, created_at) SELECT id, " + account +
				", 'VIEWER', 1 FROM users WHERE id % 2 = 0 AND email LIKE 'p%'",
			"INSERT INTO guests (user_id, account_id, site_ids, created_at) SELECT id, " + account +
				", '[1]', 1 FROM users WHERE id % 2 = 1 AND email LIKE 'p%'",
			"ANALYZE",
		} {
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		statements := dbtest.WatchStatements(d)
		store := accounts.New(d)
		if _, err := store.UserByEmail(t.Context(), "guest@example.com"); err != nil {
			t.Fatal(err)
		}
		if _, err := store.UserByID(t.Context(), guest.ID); err != nil {
			t.Fatal(err)
		}

		taken := statements.Take()
		if len(taken) == 0 {
			t.Fatal("no statement was watched")
		}
		for _, statement := range taken {
			plan := dbtest.PlanOf(t, d, d.Read, statement)
			for _, whole := range []string{
				"SCAN memberships", "SCAN guests", "SCAN users", "Seq Scan on memberships", "Seq Scan on guests",
				"Seq Scan on users",
			} {
				if strings.Contains(plan, whole) {
					t.Errorf("%s: %s\n%s", whole, statement, plan)
				}
			}
		}
	})
}
