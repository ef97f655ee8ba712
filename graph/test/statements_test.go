package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/world"
)

// everything reads all fields of the account's sites.
var everything = `query($first: Int!) { viewer { email account { name members { email }
	sites(first: $first) ` + selection("SiteConnection", 4, costly...) + ` } } }`

// costly are the fields of a site that cost too much for a request that reads all other fields of
// 45 sites: whole lists, the caller's mails, the privacy text, and figures, which are counted site
// by site. nodes are the same sites again.
var costly = []string{
	"nodes", "privacyText", "deliveries", "annotations", "segments", "funnels", "sharedLinks", "alertChannels", "imports", "importJobs",
	"usageHistory", "usageByDay", "unknownEvents", "ownAlertChannel", "live", "report", "reportView", "hiddenNotices",
}

// sites creates sites of the first account, each with an item in every list.
func makeSites(t testing.TB, d *db.DB, n int) {
	t.Helper()

	for i := range n {
		site := value(sites.New(d).Sites.CreateSite(t.Context(), model.Site{
			AccountID: 1, SiteKey: model.NewSiteKey(), Domain: fmt.Sprintf("s%d.example.com", i),
			Name: "s", Plan: model.PlanFree, MonthlyPageviews: 10_000, CreatedAt: model.At(start),
		}))(t)

		for _, statement := range []string{
			"INSERT INTO site_domains (site_id, domain) VALUES (?, 'a.example'), (?, 'b.example')",
			"INSERT INTO registered_events (site_id, name) VALUES (?, 'signup'), (?, 'lead')",
			"INSERT INTO key_events (site_id, name) VALUES (?, 'signup'), (?, 'lead')",
			"INSERT INTO excluded_addresses (site_id, network) VALUES (?, '192.0.2.0/24'), (?, '2001:db8::/32')",
			"INSERT INTO site_usage (site_id, month, used) VALUES (?, 202611, 7), (?, 202610, 8)",
			fmt.Sprintf("INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (?, %d, 'collect', 'bad_json', 3), (?, %[1]d, 'collect', 'bot', 3)", model.At(start).Day()),
			fmt.Sprintf("INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (?, %d, 1, 1, 1, 0, false, '/'), (?, %[1]d, 2, 1, 1, 0, false, '/')", model.At(start)),
		} {
			must(t, dbtest.Exec(d, statement, site.ID, site.ID))
		}
	}
}

func TestManySitesTakeAsManyStatementsAsOne(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		makeSites(t, d, 50)

		var taken []string
		for _, first := range []int{1, 45} {
			statements.Take()
			got := c.query(everything, "first", first).ok(t, "")
			list := statements.Take()
			taken = append(taken, fmt.Sprint(len(list)))

			equal(t, len(got.at("viewer.account.sites.edges").([]any)), first, "sites")

			last := fmt.Sprintf("viewer.account.sites.edges.%d.node.", first-1)
			for path, want := range map[string]string{
				"extraDomains": "[a.example b.example]", "registeredEvents": "[lead signup]", "keyEvents": "[lead purchase signup]",
				"excludedAddresses": "[192.0.2.0/24 2001:db8::/32]", "usage.pageviews": "7", "lastHitAt": "2026-11-20T09:30:00Z", "rejections.1.count": "3",
			} {
				equal(t, fmt.Sprint(got.at(last+path)), want, "%s", path)
			}

			if len(list) > 12 {
				t.Errorf("%d statements:\n%s", len(list), strings.Join(list, "\n"))
			}
		}

		equal(t, taken[0], taken[1], "one site")

		t.Logf("%s statements", taken[0])
	})
}

// TestManySitesWithTheirListsTakeAsManyStatementsAsOne: those in costly, and of sitekeys.
func TestManySitesWithTheirListsTakeAsManyStatementsAsOne(t *testing.T) {
	t.Parallel()
	const query = `query($first: Int!) { sites(first: $first) { edges { node { segments { name } funnels { name }
		sharedLinks { segment { name } } usageHistory(months: 2) { used } usageByDay(days: 2) { used } unknownEvents { name }
		annotations(first: 1) { edges { node { text } } } ownAlertChannel { weekly messages(first: 1) { nodes { event } } } } } }
		sitekeys(first: $first) { edges { node { notice usageHistory(months: 2) { used } activity(days: 2) { challenges } } } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		makeSites(t, d, 10)

		today := model.At(start).Day()
		for i := range 10 {
			c.createSitekey("form").ok(t, "createSitekey")

			for _, statement := range []string{
				"INSERT INTO segments (site_id, name, filters) VALUES (%[1]d, 's', '[]')",
				"INSERT INTO funnels (site_id, name, steps) VALUES (%[1]d, 'f', '[]')",
				"INSERT INTO shared_links (site_id, name, token_hash, token_hint, sealed_token, segment_id, created_at) SELECT %[1]d, 'l', '%[1]d', '', '', id, 1 FROM segments WHERE site_id = %[1]d",
				"INSERT INTO site_usage_days (site_id, day, used) VALUES (%[1]d, %[2]d - 1, 4)",
				"INSERT INTO unknown_events (site_id, day, name, count) VALUES (%[1]d, %[2]d, 'buy', 3)",
				"INSERT INTO annotations (site_id, day, text, created_at) VALUES (%[1]d, 1, 'note', 1)",
				"INSERT INTO alert_channels (account_id, site_id, user_id, kind, name, language, address, hint, events, weekly, monthly, weekly_due_at, " +
					"monthly_due_at, spike_due_at, drop_due_at, quiet_from, quiet_to, quiet_zone, confirm_expires_at, confirmed_at, stopped_at, stop_reason, " +
					"created_at) SELECT account_id, %[1]d, 1, 'email', '', '', '', '', '[]', true, false, 1, 1, 1, 1, 0, 0, '', 0, 1, 0, '', 1 FROM sites WHERE id = %[1]d",
				"INSERT INTO captcha_counts (sitekey_id, day, name, count) VALUES (%[1]d, %[2]d, 'challenge', 8)",
			} {
				must(t, dbtest.Exec(d, fmt.Sprintf(statement, i+1, today)))
			}
		}
		must(t, dbtest.Exec(d, fmt.Sprintf("INSERT INTO settings (name, value) VALUES ('usage_day_counted', '%d')", today-1)))

		var taken []int
		for _, first := range []int{1, 10} {
			statements.Take()
			got := c.query(query, "first", first).ok(t, "")
			taken = append(taken, len(statements.Take()))

			last := fmt.Sprintf("sites.edges.%d.node.", first-1)
			for path, want := range map[string]any{
				"segments.0.name": "s", "funnels.0.name": "f", "sharedLinks.0.segment.name": "s", "usageHistory.0.used": 7.0, "usageHistory.1.used": 8.0,
				"usageByDay.0.used": 3.0, "usageByDay.1.used": 4.0, "unknownEvents.0.name": "buy", "annotations.edges.0.node.text": "note",
				"ownAlertChannel.weekly": true,
			} {
				equal(t, got.at(last+path), want, "%s", path)
			}
			if value := got.at(fmt.Sprintf("sitekeys.edges.%d.node.activity.0.challenges", first-1)); value != 8.0 {
				t.Errorf("the sitekey's challenges are %v", value)
			}
		}

		equal(t, taken[0], taken[1], "one of each")
	})
}

// The lists that the query above omits: deliveries with their attempts, and sitekeys.
func TestManyDeliveriesAndSitekeysTakeAsManyStatementsAsOne(t *testing.T) {
	t.Parallel()
	const query = `query($first: Int!, $each: Int!) {
		sites(first: $first) { edges { node { deliveries(first: $each) { edges { node ` + deliveryFields + ` } } } } }
		sitekeys(first: $first) { totalCount edges { node ` + sitekeyFields + ` } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		makeSites(t, d, 30)

		for i := range 30 {
			c.createSitekey("form").ok(t, "createSitekey")

			must(t, dbtest.Exec(d, fmt.Sprintf(`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
				VALUES (%[1]d, 1, 'conversion', 'lead', 'failed', 5, 1, 1, '{}'), (%[1]d, 2, 'conversion', 'purchase', 'pending', 1, 2, 2, '{}')`, i+1)))

			must(t, dbtest.Exec(d, fmt.Sprintf(`INSERT INTO delivery_attempts (site_id, delivery_id, n, manual, at, duration_ms, status, error, answer)
				VALUES (%[1]d, 1, 1, false, 3, 5, 500, 'server_error', 'of %[1]d'), (%[1]d, 2, 1, false, 3, 5, 0, 'timeout', '')`, i+1)))
		}

		var taken []int
		for _, n := range []int{1, 30} {
			statements.Take()
			got := c.query(query, "first", n, "each", 2).ok(t, "")
			taken = append(taken, len(statements.Take()))

			last := fmt.Sprintf("sites.edges.%d.node.deliveries.edges.", n-1)
			if len(got.at("sitekeys.edges").([]any)) != n || got.at(last+"0.node.event") != "purchase" || got.at(last+"0.node.attempts.0.status") != nil ||
				got.at(last+"1.node.attempts.0.answer") != fmt.Sprintf("of %d", n) {
				t.Errorf("%d of each: %s", n, got.Body)
			}
		}

		equal(t, taken[0], taken[1], "one of each")

		statements.Take()
		c.query(`{ sites { edges { node { deliveries { edges { node { id event state } } } } } } }`).ok(t, "")

		for _, statement := range statements.Take() {
			if strings.Contains(statement, "delivery_attempts") || strings.Contains(statement, "body") {
				t.Errorf("deliveries without their attempts read %s", statement)
			}
		}
	})
}

// TestManyMembersTakeAsManyStatementsAsOne: each member refers to the account, whose lists are read
// once for all members.
func TestManyMembersTakeAsManyStatementsAsOne(t *testing.T) {
	t.Parallel()
	const query = `{ viewer { account { members { email account { name captchaUsage { verifications } sites(first: 1) { totalCount edges { node { id usage { pageviews } } } } } } } } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		makeSites(t, d, 1)

		var taken []int
		for i, members := range []int{1, 30} {
			for n := range members - 1 {
				world.New(t, d).Member(1, fmt.Sprintf("m%d@example.com", n), model.RoleViewer)
			}

			statements.Take()
			got := c.query(query).ok(t, "")
			taken = append(taken, len(statements.Take()))

			last := fmt.Sprintf("viewer.account.members.%d.account.", members-1)
			if got.at(last+"sites.totalCount") != 1.0 || got.at(last+"sites.edges.0.node.usage.pageviews") != 7.0 ||
				got.at(last+"captchaUsage.verifications") != 0.0 {
				t.Errorf("%d members: %s", members, got.Body)
			}
			equal(t, taken[i], taken[0], "one member takes %d statements, %d take", taken[0], members)
		}
	})
}

// TestChangesOfOneRequestAreSeen: a mutation reads again what an earlier one of the same request
// has loaded.
func TestChangesOfOneRequestAreSeen(t *testing.T) {
	const query = `mutation($id: ID!) {
		a: setMemberRole(input: {userId: $id, role: OWNER}) { member { account { members { role } } } }
		b: setMemberRole(input: {userId: $id, role: VIEWER}) { member { account { members { role } } } } }`

	eachOwner(t, func(t *testing.T, a *app, c *client) {
		guest := a.join(c, "guest@example.com", model.RoleMember)
		got := c.query(query, "id", guest.id()).ok(t, "")
		if a, b := got.at("a.member.account.members.1.role"), got.at("b.member.account.members.1.role"); a != "OWNER" || b != "VIEWER" {
			t.Errorf("the roles are %v and %v: %s", a, b, got.Body)
		}
	})
}

func BenchmarkEverything(b *testing.B) {
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		a := newApp(b, d)
		c := a.owner("owner@example.com")
		makeSites(b, d, 50)

		for _, first := range []int{1, 45} {
			b.Run(fmt.Sprintf("sites=%d", first), func(b *testing.B) {
				for b.Loop() {
					// Never reach the rate limit.
					a.clock.Add(time.Minute)
					c.query(everything, "first", first).ok(b, "")
				}
			})
		}
	})
}
