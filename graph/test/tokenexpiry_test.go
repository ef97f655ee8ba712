package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// createTokenWith creates an API token with further input fields.
func (c *client) createTokenWith(name, input string) *answer {
	c.t.Helper()
	return c.query(`mutation($name: String!) { createApiToken(input: {name: $name, scopes: [READ]`+input+`}) {
		apiToken { id validUntil user { email } } token userErrors { field code } } }`, "name", name)
}

// TestTokenExpiry: a token expires after a year unless its creator chooses another time, or never.
// From exactly that time on it is refused with a message of its own.
func TestTokenExpiry(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		for _, input := range []string{`expiresInDays: 0`, `expiresInDays: -1`, `expiresInDays: 3651`} {
			got := c.createTokenWith("wrong", ", "+input)
			if got.userErrors("createApiToken") != "expiresInDays:INVALID_DURATION" || got.at("createApiToken.token") != nil {
				t.Errorf("%s: %s", input, got.Body)
			}
		}

		for input, want := range map[string]any{
			"": "2027-11-20T09:30:00Z", ", expiresInDays: 3650": "2036-11-17T09:30:00Z",
			", neverExpires: true": nil, ", expiresInDays: 0, neverExpires: true": nil,
		} {
			got := c.createTokenWith("test", input).ok(t, "createApiToken")
			if got.at("createApiToken.apiToken.validUntil") != want || got.at("createApiToken.apiToken.user.email") != "owner@example.com" {
				t.Errorf("%q: %s, want %v", input, got.Body, want)
			}
		}

		day := c.createTokenWith("day", ", expiresInDays: 1").ok(t, "createApiToken").at("createApiToken.token").(string)
		a.clock.Add(24*time.Hour - time.Microsecond)
		a.with(day, `{ viewer { email } }`).named("just before the end").code(t, "")
		a.clock.Add(time.Microsecond)

		got := a.with(day, `{ viewer { email } }`)
		got.named("at the end").code(t, "UNAUTHENTICATED").shows(t, "The API token has expired.")
		c.query(`{ apiTokens { name validUntil } }`).
			named("the list").shows(t, `{"name":"day","validUntil":"2026-11-21T09:30:00Z"}`)
	})
}

// TestOwnersSeeAllTokens: owners list and revoke the tokens of all members in their account, and no
// others. Other callers get an empty list.
func TestOwnersSeeAllTokens(t *testing.T) {
	const list = `{ viewer { account { apiTokens { id name user { email } lastUsedAt } } } }`

	eachApp(t, func(t *testing.T, a *app) {
		owner, outsider := a.owner("owner@example.com"), a.owner("outsider@example.org")
		member := a.join(owner, "member@example.com", model.RoleMember)

		of := func(c *client, name string) (id, secret string) {
			t.Helper()
			got := c.createTokenWith(name, "").ok(t, "createApiToken")
			return got.at("createApiToken.apiToken.id").(string), got.at("createApiToken.token").(string)
		}
		owners, ownersSecret := of(owner, "owner's")
		members, membersSecret := of(member, "member's")
		outsiders, _ := of(outsider, "outsider's")

		want := `{"data":{"viewer":{"account":{"apiTokens":[{"id":"` + owners +
			`","name":"owner's","user":{"email":"owner@example.com"},"lastUsedAt":null},` +
			`{"id":"` + members + `","name":"member's","user":{"email":"member@example.com"},"lastUsedAt":null}]}}}}`
		owner.query(list).named("the owner's list").is(t, want)

		const empty = `{"data":{"viewer":{"account":{"apiTokens":[]}}}}`
		member.query(list).named("the member's list").is(t, empty)
		a.with(ownersSecret, list).named("the list of the owner's token").is(t, empty)

		revoke := func(c *client, id string) string {
			return c.do("revokeApiToken", "apiTokenId", id).userErrors("revokeApiToken")
		}
		for _, refused := range []struct {
			by *client
			id string
		}{{member, owners}, {outsider, members}, {owner, outsiders}} {
			equal(t, revoke(refused.by, refused.id), "apiTokenId:NOT_FOUND", "revoking another one's token")
		}

		equal(t, revoke(owner, members), "", "the owner revokes the member's token")
		a.with(membersSecret, `{ viewer { email } }`).named("the revoked token").code(t, "UNAUTHENTICATED")
	})
}

// TestTokenExpiryMails: the user of a token gets one mail 14 days before its expiry and one a day
// before, however often and late the task runs. Short tokens skip the mails that would be due at
// once.
func TestTokenExpiryMails(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		c.createTokenWith("month", ", expiresInDays: 30").ok(t, "createApiToken")
		c.createTokenWith("week", ", expiresInDays: 7").ok(t, "createApiToken")
		c.createTokenWith("day", ", expiresInDays: 1").ok(t, "createApiToken")
		c.createTokenWith("endless", ", neverExpires: true").ok(t, "createApiToken")
		revoked := c.createTokenWith("revoked", ", expiresInDays: 30").ok(t, "createApiToken").at("createApiToken.apiToken.id")
		c.done("revokeApiToken", "apiTokenId", revoked)

		store := accounts.New(a.db)
		for _, step := range []struct {
			hours int
			want  int64
		}{{0, 0}, {6*24 - 1, 0}, {6 * 24, 1}, {7*24 - 1, 0}, {16*24 - 1, 0}, {16 * 24, 1}, {20 * 24, 0}, {29 * 24, 1}, {29 * 24, 0}, {30 * 24, 0}} {
			now := model.At(start.Add(time.Duration(step.hours) * time.Hour))
			if n, err := store.Tokens.MailExpiring(t.Context(), now); err != nil || n != step.want {
				t.Errorf("after %d hours: %d mails, error %v; want %d", step.hours, n, err, step.want)
			}
		}

		mails, err := dbtest.Rows[string](a.db, "SELECT data FROM mails WHERE kind = 'token_expires' AND recipient = 'owner@example.com' ORDER BY id")
		if err != nil || len(mails) != 3 || !strings.Contains(mails[0], `"week"`) || !strings.Contains(mails[1], `"month"`) ||
			!strings.Contains(mails[2], `"month"`) {
			t.Errorf("mails %q, error %v", mails, err)
		}
	})

}
