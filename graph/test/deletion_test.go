package graph_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// owners maps the columns that name a row's owner to their values in the rows of a deleted owner.
type owners struct{ site, account, user int64 }

// rowsOf counts the rows of a site, account or user in a table. A table whose rows have an owner
// without such a column is listed here, with the reason why it needs no deletion.
func rowsOf(t *testing.T, d *db.DB, table string, columns []string, of owners) int {
	t.Helper()

	// Counters of attempts are keyed hashes, kept for a day. Sign-ups have no account yet and are
	// deleted after a day. Of the last 1,000 changes of sites and sitekeys only numbers are stored.
	// The counts of a captcha are numbers only; the worker deletes those of deleted sitekeys once a
	// day. The salts of days belong to all sites, and so do the cells. Where claims of deleted
	// accounts are is kept as numbers only, while another account has a sitekey of theirs.
	// Certificates belong to the hosts of the installation.
	ownerless := []string{"changes", "captcha_counts", "schema_migrations", "settings", "detached_partitions", "signin_failures", "pending_sign_ups",
		"day_salts_0", "day_salts_1", "day_salts_2", "day_salts_3", "used_challenges", "cells", "claim_spaces",
		"certificate_files", "certificate_hosts", "task_runs"}
	var conditions []string

	hasOwner := false
	for column, id := range map[string]int64{"site_id": of.site, "account_id": of.account, "user_id": of.user} {
		if slices.Contains(columns, column) && !(table == "visits" && column == "user_id") {
			hasOwner = true

			// The row has no owner, such as the site of a notice about the captcha.
			if id != 0 {
				conditions = append(conditions, fmt.Sprintf("%s = %d", column, id))
			}
		}
	}

	// A user belongs to accounts by memberships, which have an owner.
	hasOwner = hasOwner || table == "users"

	// A message belongs to the owner of its channel, and an attempt to the owner of its message. A
	// row without its channel is anybody's.
	if column, ok := map[string]string{"alert_messages": "id", "alert_attempts": "message_id"}[table]; ok {
		hasOwner = true
		conditions = append(conditions, fmt.Sprintf(`%s IN (SELECT m.id FROM alert_messages AS m JOIN alert_channels AS c ON c.id = m.channel_id
			WHERE c.site_id = %d OR c.account_id = %d)`, column, of.site, of.account),
			column+" NOT IN (SELECT m.id FROM alert_messages AS m JOIN alert_channels AS c ON c.id = m.channel_id)")
	}

	switch id := map[string]int64{"sites": of.site, "accounts": of.account, "users": of.user}[table]; {
	case id != 0:
		conditions = append(conditions, fmt.Sprintf("id = %d", id))
	case !hasOwner && table != "accounts" && table != "users" && !slices.Contains(ownerless, table):
		t.Errorf("the table %s has no column for the owner of its rows", table)
	}

	if len(conditions) == 0 {
		return 0
	}

	rows := value(dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM "+table+" WHERE "+strings.Join(conditions, " OR ")))(t)

	return rows[0].N
}

// fill inserts a row of the site into every table with a column for it and no row yet, and likewise
// for the account.
func fill(t *testing.T, d *db.DB, of owners) {
	t.Helper()

	at := model.At(start)
	statements := map[string]string{
		"visits": `INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) VALUES (@site, 1, @at / 86400000000, 1, @at, @at, 1, 1)`,
		"pageviews": `INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
			VALUES (@site, @at, 1, 1, 1, 0, false, '/'), (@site, @at, 2, 1, 1, 0, false, '/')`,
		"events":       `INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (@site, @at, 1, 1, 1, 'signup', '/')`,
		"transactions": `INSERT INTO transactions (site_id, transaction_id, event, at) VALUES (@site, 'T', 'purchase', @at)`,
		"deliveries": `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
			VALUES (@site, 1, 'conversion', 'purchase', 'pending', 0, @at, @at, '{}')`,
		"engagement": `INSERT INTO engagement (site_id, day, id, ms, scroll) VALUES (@site, @at / 86400000000, 1, 1, 1)`,
		"report_days": `INSERT INTO report_days (site_id, day, state, version, built_at, visits, pageviews, events, checksum)
			VALUES (@site, 1, 1, 1, 1, 1, 1, 1, 1)`,
		"report_segments": `INSERT INTO report_segments (site_id, first_day, days, chunk, data) VALUES (@site, 1, 1, 0, 'x')`,
		"report_imports": `INSERT INTO report_imports (site_id, source, state, created_at, first_day, last_day, visit_rows, dimensions,
			visitors, visits, pageviews, events, size) VALUES (@site, 'ga4', 1, @at, 1, 1, false, '', 1, 1, 1, 1, 1)`,
		"import_figures": `INSERT INTO import_figures (site_id, import_id, dimension, day, n, value, visitors, visits, pageviews,
			bounces, unbounced, exits, events) VALUES (@site, 1, '', 1, 1, '', 1, 1, 1, 1, 1, 1, 1)`,
		"import_segments": `INSERT INTO import_segments (site_id, import_id, first_day, days, chunk, data) VALUES (@site, 1, 1, 1, 0, 'x')`,
		"import_jobs": `INSERT INTO import_jobs (site_id, source, state, created_at, expires_at, actor, files, size, first_day, last_day)
			VALUES (@site, 'umami', 4, @at, @at, '{}', '[]', 5, 1, 2)`,
		"import_chunks":   `INSERT INTO import_chunks (site_id, job_id, n, data) VALUES (@site, 1, 0, 'x')`,
		"site_usage":      `INSERT INTO site_usage (site_id, month, used) VALUES (@site, 202611, 1)`,
		"site_usage_days": `INSERT INTO site_usage_days (site_id, day, used) VALUES (@site, 1, 1)`,
		"unknown_events":  `INSERT INTO unknown_events (site_id, day, name, count) VALUES (@site, 1, 'x', 1)`,
		"rejections":      `INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (@site, 1, 'collect', 'bot', 1)`,
		"delivery_attempts": `INSERT INTO delivery_attempts (site_id, delivery_id, n, manual, at, duration_ms, status, error, answer)
			VALUES (@site, 1, 1, false, @at, 5, 500, 'server_error', ''), (@site, 1, 2, true, @at, 5, 500, 'server_error', '')`,
		"site_moves": `INSERT INTO site_moves (site_id, from_cell, to_cell, state, last_day, started_at)
			VALUES (@site, 1, 2, 'copying', 1, @at)`,
		"report_views": `INSERT INTO report_views (site_id, user_id, preset, compare, match_day_of_week)
			SELECT s.id, m.user_id, 'TODAY', '', true FROM sites AS s JOIN memberships AS m ON m.account_id = s.account_id WHERE s.id = @site`,
		"hidden_notices": `INSERT INTO hidden_notices (site_id, user_id, rejections, usage, hidden_at)
			SELECT s.id, m.user_id, 1, 80, @at FROM sites AS s JOIN memberships AS m ON m.account_id = s.account_id WHERE s.id = @site`,
		"alert_channels": `INSERT INTO alert_channels (account_id, site_id, kind, name, language, address, hint, events, weekly, monthly,
			weekly_due_at, monthly_due_at, spike_due_at, drop_due_at, quiet_from, quiet_to, quiet_zone, confirm_expires_at, confirmed_at,
			stopped_at, stop_reason, created_at) SELECT account_id, id, 'slack', 'ops', 'en', CAST('x' AS @bytes), 'x', '[]', false, false,
			0, 0, 0, 0, 0, 0, '', 0, 1, 0, '', @at FROM sites WHERE id = @site`,
		"alerts": `INSERT INTO alerts (account_id, site_id, event, subject, began_at, ended_at, seen_at, details)
			SELECT account_id, id, 'quota', '80', @at, 0, @at, '{}' FROM sites WHERE id = @site`,
		"failure_notices": `INSERT INTO failure_notices (site_id, day) VALUES (@site, 20000), (@site, 20001)`,
		"user_erasures":   `INSERT INTO user_erasures (site_id, subject, requested_at) VALUES (@site, 'x', @at)`,
		"webhook_notices": `INSERT INTO webhook_notices (site_id, day, changes) VALUES (@site, 20000, 1)`,
		"quota_notices": `INSERT INTO quota_notices (account_id, site_id, product, month, threshold, quota, created_at)
			VALUES (@account, @site, 'analytics', 202611, 80, 10000, @at)`,
	}

	if of.account != 0 {
		statements["a user for guests"] = `INSERT INTO users (id, email, password_hash, created_at)
			VALUES (1000 + @account, 'guest-of-@account@example.com', '', @at)`
		statements["guests"] = `INSERT INTO guests (user_id, account_id, site_ids, created_at) VALUES (1000 + @account, @account, '[1]', @at)`
		statements["idempotency_keys"] = `INSERT INTO idempotency_keys (account_id, user_id, token_id, key_hash, input_hash,
			object_kind, object_id, object_site, created_at) VALUES (@account, 1, 0, 'x', 'x', 'Site', 1, 0, @at)`
		statements["account_providers"] = `INSERT INTO account_providers (account_id, issuer, client_id, client_secret, domain, domain_token,
			verified_at, default_role, role_claim, roles, changed_at)
			VALUES (@account, 'https://login.example', 'c', 'x', 'corp@account.example', 't', @at, 'VIEWER', '', '{}', @at)`
		statements["identities"] = `INSERT INTO identities (account_id, issuer, subject, user_id, created_at)
			SELECT account_id, 'https://login.example', 'person', min(user_id), @at FROM memberships WHERE account_id = @account GROUP BY account_id`
		statements["captcha_usage"] = `INSERT INTO captcha_usage (account_id, month, used) VALUES (@account, 202611, 1)`
		statements["captcha_spent"] = `INSERT INTO captcha_spent (account_id, issued_at, id) VALUES (@account, @at, '0123456789abcdef')`
		statements["account_moves"] = `INSERT INTO account_moves (account_id, from_cell, to_cell, state, started_at)
			VALUES (@account, 1, 2, 'copying', @at)`
		statements["quota_notices of the captcha"] = `INSERT INTO quota_notices (account_id, product, month, threshold, quota, created_at)
			VALUES (@account, 'captcha', 202611, 80, 10000, @at)`
	}

	order := slices.Sorted(maps.Keys(statements))

	// A message needs its channel, and an attempt its message.
	statements["alert_messages"] = `INSERT INTO alert_messages (channel_id, event, phase, data, state, attempts, tries, claimed_until,
		fallback, created_at, next_attempt_at) SELECT id, 'quota', 'once', '{}', 'pending', 1, 1, 0, '', @at, @at
		FROM alert_channels WHERE site_id = @site`
	statements["alert_attempts"] = `INSERT INTO alert_attempts (message_id, n, manual, at, duration_ms, status, error, answer)
		SELECT m.id, 1, false, @at, 5, 500, 'server_error', '' FROM alert_messages AS m JOIN alert_channels AS c ON c.id = m.channel_id
		WHERE c.site_id = @site`

	for _, table := range append(order, "alert_messages", "alert_attempts") {
		statement := strings.NewReplacer("@site", fmt.Sprint(of.site), "@account", fmt.Sprint(of.account), "@at", fmt.Sprint(int64(at)), "@bytes",
			map[bool]string{true: "bytea", false: "blob"}[d.IsPostgres()]).Replace(statements[table])
		if err := dbtest.Exec(d, statement); err != nil {
			t.Fatalf("%s: %v", table, err)
		}
	}
}

// left returns the tables that have rows of an owner.
func left(t *testing.T, d *db.DB, of owners) []string {
	t.Helper()

	tables := value(dbtest.Tables(d))(t)

	var have []string
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		if rowsOf(t, d, table, tables[table], of) > 0 {
			have = append(have, table)
		}
	}

	return have
}

// owned returns, from the schema, the tables with rows of a site, or of an account with its sites.
// It includes new tables automatically: then fill, or the tenant, needs a row for them, and the
// deletion may need their name.
func owned(t *testing.T, d *db.DB, byAccount bool) []string {
	t.Helper()

	tables := value(dbtest.Tables(d))(t)

	all := []string{"sites"}

	if byAccount {
		all = append(all, "accounts", "users")
	}

	for table, columns := range tables {
		ofAccount := slices.Contains(columns, "account_id") || slices.Contains(columns, "user_id") && table != "visits"
		ofChannel := table == "alert_messages" || table == "alert_attempts"
		if slices.Contains(columns, "site_id") && table != "deleted_sites" || ofChannel || byAccount && ofAccount {
			all = append(all, table)
		}
	}

	slices.Sort(all)
	return slices.Compact(all)
}

func TestDeleteSite(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		first, second := a.tenant("first.example"), a.tenant("second.example")
		fill(t, a.db, owners{site: 1})
		fill(t, a.db, owners{site: 2})

		siteTables := owned(t, a.db, false)
		if got := left(t, a.db, owners{site: 1}); !slices.Equal(got, siteTables) {
			t.Fatalf("before: rows in %v, want %v", got, siteTables)
		}

		key := first.owner.site(first.ids["siteId"], `siteKey`).at("site.siteKey").(string)
		notified := make(chan model.SiteID, 10)
		synced := make(chan struct{}, 1)
		go sites.New(a.db).Lookup.WatchSites(t.Context(), func(id int64) { notified <- model.SiteID(id) }, func(err error) {
			if err == nil {
				synced <- struct{}{}
			}
		})

		<-synced

		// The worker purges what other deleted sites have left.
		for _, statement := range []string{
			"INSERT INTO deleted_sites (site_id, deleted_at) VALUES (77, 1)",
			"INSERT INTO failure_notices (site_id, day) VALUES (77, 20000)",
		} {
			must(t, dbtest.Exec(a.db, statement))
		}

		got := first.owner.query(`mutation($id: ID!) { deleteSite(input: {siteId: $id, confirm: "First.example", immediately: true}) {
			site { state restorableUntil id domain extraDomains usage { pageviews } rejections { code } lastHitAt } userErrors { code } } }`, "id",
			first.ids["siteId"]).ok(t, "deleteSite")

		want := `{"data":{"deleteSite":{"site":{"state":"DELETED","restorableUntil":null,"id":"` + first.ids["siteId"] +
			`","domain":"first.example","extraDomains":[],"usage":{"pageviews":0},"rejections":[],"lastHitAt":null},"userErrors":[]}}}`
		got.is(t, want)
		equal(t, <-notified, 1, "the data plane was notified of site")
		if _, err := sites.New(a.db).Lookup.SiteRulesByKey(t.Context(), key); err != model.ErrNotFound {
			t.Errorf("the site key is still known: %v", err)
		}
		testkit.EqualSlices(t, left(t, a.db, owners{site: 1}), []string{"deleted_sites"}, "after: rows in")
		if got := left(t, a.db, owners{site: 2}); !slices.Equal(got, siteTables) {
			t.Errorf("of the other site: rows in %v", got)
		}
		if got := left(t, a.db, owners{site: 77}); !slices.Equal(got, []string{"deleted_sites", "failure_notices"}) {
			t.Errorf("of the other deleted site: rows in %v", got)
		}

		// A hit that was in flight is purged later.
		fill(t, a.db, owners{site: 1})

		for _, after := range []time.Duration{59 * time.Minute, time.Hour} {
			if _, err := retention.New(a.db).PurgeDeletedSites(t.Context(), model.At(start.Add(after))); err != nil {
				t.Fatal(err)
			}
		}

		if got := left(t, a.db, owners{site: 1}); len(got) != 0 {
			t.Errorf("an hour later: rows in %v", got)
		}
		second.owner.do("deleteSite", "siteId", first.ids["siteId"]).
			named("a second time, by another owner").fails(t, "deleteSite", "siteId:NOT_FOUND")
	})
}

func TestDeleteAccount(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		all := owned(t, a.db, true)
		operator := a.owner("operator@example.com")
		first := a.tenant("first.example")
		a.tenant("second.example")
		fill(t, a.db, owners{site: 1, account: 2})
		fill(t, a.db, owners{site: 2, account: 3})

		for _, domain := range []string{"first.example", "second.example"} {
			a.client().done("requestPasswordReset", "email", "owner@"+domain)
			c := a.client()
			c.signIn("owner@"+domain, password).ok(t, "signIn")
			c.done("requestEmailChange", "email", "next@"+domain, "password", password)
		}

		for _, user := range []int64{2, 4} {
			for _, statement := range []string{
				"INSERT INTO totp_secrets (user_id, confirmed, secret, last_step, created_at) VALUES (?, true, 'x', 0, 0)",
				"INSERT INTO recovery_codes (user_id, code_hash) VALUES (?, 'x')",
			} {
				must(t, dbtest.Exec(a.db, statement, user))
			}
		}

		// The first tenant has account 2 and users 2 and 3.
		of := func(id int64) []string {
			return slices.Compact(slices.Sorted(slices.Values(append(left(t, a.db, owners{site: id - 1, account: id, user: 2*id - 2}),
				left(t, a.db, owners{account: id, user: 2*id - 1})...))))
		}
		for _, id := range []int64{2, 3} {
			if got := of(id); !slices.Equal(got, all) {
				t.Fatalf("account %d, before: rows in %v, want %v", id, got, all)
			}
		}

		if got := operator.do("deleteAccount", "password", password); got.userErrors("deleteAccount") != ":LAST_OPERATOR" || operator.viewer() == "" {
			t.Errorf("the operator: %s", got.Body)
		}
		first.owner.do("deleteAccount", "password", "wrong password").
			named("a wrong password").fails(t, "deleteAccount", "password:WRONG_CREDENTIALS")

		notified := watchSitekeys(t, a.db)
		got := first.owner.done("deleteAccount", "password", password)
		got.is(t, `{"data":{"deleteAccount":{"accountId":"`+first.ids["accountId"]+`","userErrors":[]}}}`)
		if first.owner.viewer() != "" || first.owner.cookies()[sessionCookie] != "" {
			t.Error("still signed in, or the cookie remains")
		}
		equal(t, <-notified, 1, "the data plane was notified of sitekey")
		testkit.EqualSlices(t, of(2), []string{"captcha_spent", "deleted_sites"}, "after: rows in")
		if got := of(3); !slices.Equal(got, all) {
			t.Errorf("of the other account: rows in %v, want %v", got, all)
		}
		if _, err := retention.New(a.db).DeleteConsumed(t.Context(), model.At(start.Add(model.ConsumedRetention+time.Second))); err != nil {
			t.Fatal(err)
		}
		testkit.EqualSlices(t, of(2), []string{"deleted_sites"}, "an hour later: rows in")

		// The address can sign up again.
		a.owner("owner@first.example")
	})
}

// An owner who becomes a viewer while the password is checked deletes nothing.
func TestDeletionByAnOwnerNoMore(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		owner := a.owner("owner@example.com")
		second := a.join(owner, "second@example.com", model.RoleOwner)
		id := second.id()
		var got *answer

		// The password has been checked and is right.
		dbtest.Race(t, a.db, `DELETE FROM "signin_failures"`,
			func() error {
				got = second.do("deleteAccount", "password", password)
				return nil
			},
			func() error { owner.do("setMemberRole", "userId", id, "role", "VIEWER"); return nil })

		// The deletion may come first.
		inTime := a.db.Dialect() == "sqlite" && got.userErrors("deleteAccount") == "" && owner.viewer() == ""
		if !inTime && (got.codes() != "FORBIDDEN" || owner.viewer() == "") {
			t.Errorf("got %s", got.Body)
		}
	})
}

// watchSitekeys collects the notifications about sitekeys to the data plane.
func watchSitekeys(t *testing.T, d *db.DB) <-chan model.SitekeyID {
	t.Helper()
	notified, synced := make(chan model.SitekeyID, 10), make(chan struct{}, 1)
	go sites.New(d).Lookup.WatchSitekeys(t.Context(), func(id int64) { notified <- model.SitekeyID(id) }, func(err error) {
		if err == nil {
			synced <- struct{}{}
		}
	})

	<-synced
	return notified
}

// The last account of an installation can be deleted although it is the operator's.
func TestTheLastAccountMayGo(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c := a.owner("operator@example.com")
		c.done("deleteAccount", "password", password)
		c.signUp("next@example.com").ok(t, "signUp").named("the next one").has(t, "signUp.viewer.operator", true)
	})
}

// TestDeleteUserData: the payload reports what has been erased, the erasure can be read later, and
// only a session of a member or owner can request it.
func TestDeleteUserData(t *testing.T) {
	const fields = `__typename id requestedAt visits pageviews events deliveries finishedAt`
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		member := a.join(owner, "member@example.com", model.RoleMember)
		id := owner.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		userID := strings.Repeat("0a", 32)

		at := model.At(start) - 1
		for i, subject := range []string{userID, strings.Repeat("0b", 32)} {
			err := dbtest.Exec(a.db, "INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel, user_id) VALUES (1, ?, ?, 1, ?, ?, 1, 1, ?)",
				model.FirstTimeID(at)+int64(i), at.Day(), at, at, model.UserIDKey(model.ApplicationKey(dbtest.ApplicationKey).Derive("user id")).Of(1, subject))
			if err == nil {
				err = dbtest.Exec(a.db, "INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (1, ?, ?, ?, 1, 0, false, '/')",
					at, i, model.FirstTimeID(at)+int64(i))
			}

			testkit.NoError(t, err)
		}

		erase := `mutation($id: ID!, $user: String!) { deleteUserData(input: {siteId: $id, userId: $user}) { erasure { ` + fields +
			` } userErrors { field code } } }`
		member.query(erase, "id", id, "user", userID+"0").
			named("a wrong id").fails(t, "deleteUserData", "userId:INVALID_USER_ID").has(t, "deleteUserData.erasure", nil)

		token := owner.createToken("READ", "WRITE", "EXPORT")
		refused := a.with(token.secret, `mutation { deleteUserData(input: {siteId: "`+id+`", userId: "`+userID+`"}) { erasure { id } } }`)
		refused.named("a token").code(t, "FORBIDDEN")

		got := member.query(erase, "id", id, "user", userID).ok(t, "deleteUserData")
		want := map[string]any{
			"__typename": "UserDataErasure", "requestedAt": "2026-11-20T09:30:00Z", "finishedAt": "2026-11-20T09:30:00Z",
			"visits": 1.0, "pageviews": 1.0, "events": 0.0, "deliveries": 0.0, "id": got.at("deleteUserData.erasure.id"),
		}
		testkit.DeepEqual(t, got.at("deleteUserData.erasure"), want, "the answer")

		read := owner.query(`query($id: ID!) { node(id: $id) { ... on UserDataErasure { `+fields+` } } }`, "id", want["id"])
		testkit.DeepEqual(t, read.at("node"), want, "read: %s", read.Body)
		a.owner("other@example.com").query(`query($id: ID!) { node(id: $id) { id } }`, "id", want["id"]).
			named("another account reads").is(t, `{"data":{"node":null}}`)
		if visits, err := dbtest.Count(a.db, "visits"); visits != 1 || err != nil {
			t.Errorf("%d visits are left, %v; want the other user's", visits, err)
		}
	})
}
