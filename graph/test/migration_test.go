package graph_test

import (
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// passwordHash returns a hash of the tests' password.
func passwordHash(t *testing.T) string {
	t.Helper()
	hash, err := argon2id.CreateHash(password, &cheapHash)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// TestMembershipsOfAnEarlierDatabase migrates a database from before memberships, with two accounts
// and users of each role, and uses it over HTTP.
func TestMembershipsOfAnEarlierDatabase(t *testing.T) {
	t.Parallel()
	hash := passwordHash(t)
	token := model.NewSecret(model.APITokenPrefix)
	at := model.At(start)

	dbtest.EachEmptyURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		if err := d.MigrateWith(t.Context(), db.MigrationsUntil("_000024_reports"), time.Now); err != nil {
			t.Fatal(err)
		}

		for _, row := range []struct {
			statement string
			args      []any
		}{
			{"INSERT INTO accounts (id, name, created_at) VALUES (1, 'First', ?), (2, 'Second', ?)", []any{at, at}},
			{"INSERT INTO users (id, account_id, email, password_hash, operator, created_at, role, password_generation) VALUES " +
				"(1, 1, 'owner@first.example', ?, true, ?, 'OWNER', 3)", []any{hash, at}},
			{"INSERT INTO users (id, account_id, email, password_hash, created_at, role) VALUES " +
				"(2, 1, 'member@first.example', ?, ?, 'MEMBER'), (3, 2, 'owner@second.example', ?, ?, 'OWNER'), " +
				"(4, 1, 'viewer@first.example', ?, ?, 'VIEWER')", []any{hash, at, hash, at, hash, at}},
			{"INSERT INTO sessions (id_hash, user_id, created_at, last_seen_at, expires_at) VALUES (?, 2, ?, ?, ?)",
				[]any{[]byte("session"), at, at, at.Add(time.Hour)}},
			{"INSERT INTO api_tokens (account_id, user_id, name, scopes, token_hash, token_hint, created_at) VALUES " +
				"(1, 2, 'program', '[\"READ\"]', ?, 'hint', ?)", []any{model.HashToken(token), at}},
			{"INSERT INTO sites (account_id, site_key, domain, name, monthly_pageviews, plan, created_at) VALUES " +
				"(1, '0123456789abcdef0123456789abcdef', 'first.example', 'First', 10000, 'FREE', ?)", []any{at}},
			{"INSERT INTO report_mails (site_id, user_id, kind, threshold, day, due_at) VALUES (1, 2, 'weekly', 1, 1, ?)", []any{at}},
		} {
			if err := dbtest.Exec(d, row.statement, row.args...); err != nil {
				t.Fatalf("%s: %v", row.statement, err)
			}
		}

		for range 2 {
			if err := d.Migrate(t.Context(), time.Now); err != nil {
				t.Fatal(err)
			}
		}

		for table, want := range map[string]int{"sessions": 1, "api_tokens": 1, "report_mails": 1, "memberships": 4, "users": 4} {
			if n, err := dbtest.Count(d, table); err != nil || n != want {
				t.Errorf("%d rows of %s, %v; want %d", n, table, err, want)
			}
		}

		a := newApp(t, d)
		const viewer = `{ viewer { email role operator account { name members { email role } } accounts { name viewerRole } } }`
		members := `"members":[{"email":"owner@first.example","role":"OWNER"},{"email":"member@first.example","role":"MEMBER"},` +
			`{"email":"viewer@first.example","role":"VIEWER"}]`

		for email, want := range map[string]string{
			"owner@first.example": `"role":"OWNER","operator":true,"account":{"name":"First",` + members +
				`},"accounts":[{"name":"First","viewerRole":"OWNER"}]`,
			"viewer@first.example": `"role":"VIEWER","operator":false,"account":{"name":"First",` + members +
				`},"accounts":[{"name":"First","viewerRole":"VIEWER"}]`,
			"owner@second.example": `"role":"OWNER","operator":false,"account":{"name":"Second",` +
				`"members":[{"email":"owner@second.example","role":"OWNER"}]},"accounts":[{"name":"Second","viewerRole":"OWNER"}]`,
		} {
			c := a.client()
			c.signIn(email, password).ok(t, "signIn")
			if got := c.query(viewer); got.Body != `{"data":{"viewer":{"email":"`+email+`",`+want+`}}}` {
				t.Errorf("%s sees %s", email, got.Body)
			}
		}

		got := a.with(token, `{ viewer { email role } sites { edges { node { domain reportMails { weekly } } } } }`).ok(t, "")
		if want := `{"data":{"viewer":{"email":"member@first.example","role":"MEMBER"},` +
			`"sites":{"edges":[{"node":{"domain":"first.example","reportMails":{"weekly":true}}}]}}}`; got.Body != want {
			t.Errorf("the token sees %s", got.Body)
		}
	})
}
