package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/resolver"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const accountsQuery = `query($first: Int, $after: String, $last: Int, $before: String, $orderBy: AccountOrder!, $search: String) {
	accounts(first: $first, after: $after, last: $last, before: $before, orderBy: $orderBy, search: $search) {
		totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { name } }
		nodes { accountId name createdAt siteCount sitekeyCount memberCount period pageviews captchaPlan verifications
			suspension { reason } sites(first: 2) { siteId domain plan usage { pageviews quota percent } } } } }`

func TestOperatorsListAccounts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		operator := a.owner("operator@example.com")
		rename := func(c *client, name string) {
			t.Helper()
			c.done("updateAccount", "name", name)
		}
		rename(operator, "Operator")
		for _, name := range []string{"Alpha", "Beta", "Gamma"} {
			c := a.owner("owner@" + strings.ToLower(name) + ".example")
			rename(c, name)
			c.siteOf(strings.ToLower(name) + ".shop")
		}

		// The second account has all that is counted.
		beta := a.client()
		beta.signIn("owner@beta.example", password).ok(t, "signIn")
		site := beta.siteOf("second.example")
		beta.siteOf("third.example")
		beta.createSitekey("form").ok(t, "createSitekey")
		a.join(beta, "member@alpha.example", model.RoleMember)
		number, _ := a.ids.Parse(nodeid.Site, site)
		for _, statement := range []string{
			fmt.Sprintf("INSERT INTO site_usage (site_id, month, used) VALUES (%d, 202611, 7), (%[1]d, 202610, 100), (%d, 202611, 5)", number, number+1),
			"INSERT INTO captcha_usage (account_id, month, used) SELECT id, 202611, 9 FROM accounts WHERE name = 'Beta'",
		} {
			must(t, dbtest.Exec(d, statement))
		}

		list := func(variables ...any) *answer {
			t.Helper()
			if !slices.Contains(variables, any("orderBy")) {
				variables = append(variables, "orderBy", "NEWEST")
			}
			return operator.query(accountsQuery, variables...).ok(t, "")
		}
		names := func(got *answer) string {
			var list []string
			nodes, _ := got.at("accounts.nodes").([]any)
			for _, node := range nodes {
				list = append(list, node.(map[string]any)["name"].(string))
			}
			return strings.Join(list, " ")
		}

		all := list()
		equal(t, names(all), "Gamma Beta Alpha Operator", "the accounts")
		equal(t, names(list("orderBy", "OLDEST")), "Operator Alpha Beta Gamma", "oldest first, the accounts")

		node := all.at("accounts.nodes.1").(map[string]any)
		for field, want := range map[string]string{
			"siteCount": "3", "sitekeyCount": "1", "memberCount": "2", "pageviews": "12", "verifications": "9", "captchaPlan": "FREE",
			"period": "2026-11",
		} {
			equal(t, fmt.Sprint(node[field]), want, "%s", field)
		}
		if got := fmt.Sprint(node["sites"]); !strings.Contains(got, "beta.shop") || !strings.Contains(got, "pageviews:7") ||
			strings.Contains(got, "third.example") {
			t.Errorf("the sites are %s", got)
		}

		// The ids suit the mutations.
		plan := operator.done("setCaptchaPlan", "accountId", node["accountId"], "plan", "PRO_100K")
		if got := list("search", "beta").at("accounts.nodes.0.captchaPlan"); got != "PRO_100K" {
			t.Errorf("the plan is %v after %s", got, plan.Body)
		}
		equal(t, node["suspension"], any(nil), "the suspension")
		operator.done("suspendAccount", "accountId", node["accountId"], "reason", "spam")
		equal(t, list("search", "beta").at("accounts.nodes.0.suspension.reason"), any("spam"), "the reason of the suspension")
		operator.done("resumeAccount", "accountId", node["accountId"])

		for search, want := range map[string]string{
			"alp": "Alpha", "GAM": "Gamma", "owner@beta": "Beta", "member@alpha": "", "second.exam": "Beta", "a": "Gamma Beta Alpha Operator",
			"%": "", "owner@": "Gamma Beta Alpha",
		} {
			got := list("search", search)
			if names(got) != want || got.at("accounts.totalCount") != float64(len(strings.Fields(want))) {
				t.Errorf("the search %q finds %s", search, got.Body)
			}
		}

		// The whole id of an account or a site finds the account; the sites have pages and a search
		// of their own.
		sitesOf := func(search, arguments string) string {
			t.Helper()
			got := operator.query(`query($search: String) { accounts(search: $search) { totalCount nodes { name sites(`+arguments+`) { domain siteId } } } }`,
				"search", search).ok(t, "")
			got.named("%q finds", search).has(t, "accounts.totalCount", 1.0).has(t, "accounts.nodes.0.name", "Beta")
			var domains []string
			list, _ := got.at("accounts.nodes.0.sites").([]any)
			for _, site := range list {
				domains = append(domains, site.(map[string]any)["domain"].(string))
			}
			return strings.Join(domains, " ")
		}
		account := node["accountId"].(string)
		for arguments, want := range map[string]string{
			`first: 3`:                                 "beta.shop second.example third.example",
			`first: 1, after: "` + site + `"`:          "third.example",
			`search: "EXAMPLE"`:                        "second.example third.example",
			`search: "example", first: 1`:              "second.example",
			`search: "example", after: "` + site + `"`: "third.example",
			`search: "_"`:                              "",
			`search: "` + site + `"`:                   "second.example",
		} {
			equal(t, sitesOf(account, arguments), want, "the sites (%s)", arguments)
			equal(t, sitesOf(site, arguments), want, "found by a site, the sites (%s)", arguments)
		}
		if got := operator.query(`{ accounts { nodes { sites(after: "x") { domain } } } }`); !strings.Contains(got.codes(), "INVALID_ARGUMENT") {
			t.Errorf("after an id of nothing: %s", got.Body)
		}

		// Pages from both ends, in both orders, contain all accounts once.
		for _, order := range []string{"NEWEST", "OLDEST"} {
			whole := names(list("orderBy", order))

			var forward []string
			for after := any(nil); ; {
				page := list("first", 3, "after", after, "orderBy", order)
				forward = append(forward, names(page))
				after = page.at("accounts.pageInfo.endCursor")
				if page.at("accounts.pageInfo.hasNextPage") != true {
					break
				}
			}

			var backward []string
			for before := any(nil); ; {
				page := list("last", 3, "before", before, "orderBy", order)
				backward = append(backward, names(page))
				before = page.at("accounts.pageInfo.startCursor")
				if page.at("accounts.pageInfo.hasPreviousPage") != true {
					break
				}
			}
			slices.Reverse(backward)

			if f, b := strings.Join(forward, " "), strings.Join(backward, " "); f != whole || b != whole || len(forward) != 2 || len(backward) != 2 {
				t.Errorf("%s: pages forward %q, backward %q, want %q", order, f, b, whole)
			}
		}

		for _, wrong := range [][]any{
			{"first", 0}, {"last", 101}, {"first", 1, "last", 1}, {"after", "after_x"}, {"search", ""}, {"search", strings.Repeat("a", 101)},
		} {
			operator.query(accountsQuery, append(wrong, "orderBy", "NEWEST")...).
				named("%v is answered with", wrong).code(t, "INVALID_ARGUMENT")
		}

		// A page of four accounts takes as many statements as one of one.
		var taken []int
		for _, first := range []int{1, 4} {
			statements.Take()
			list("first", first)
			taken = append(taken, len(statements.Take()))
		}
		equal(t, taken[0], taken[1], "pages of 1 and 4 accounts take %v statements", taken)

		beta.query(accountsQuery, "orderBy", "NEWEST").named("an owner gets").code(t, "FORBIDDEN")
	})
}

func TestInstallationForOperators(t *testing.T) {
	t.Parallel()
	const query = `{ installation { signUps sendsMail configuration { version database roles signups baseUrl mailServer redis retentionMonths defaultSitePlan }
		mail { lastSentAt lastFailedAt retrying due } health { database dueDeliveries clockTrusted problems } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		seen := false
		a := newApp(t, d, func(s *settings) {
			s.graph.Findings = func() []health.Finding {
				if !seen {
					return nil
				}
				return []health.Finding{{Check: "hidden-clients"}, {Check: "worker-missing"}, {Check: "hidden-clients"}}
			}
			s.graph.Configuration = resolver.Configuration{
				Version: "v1.2.3 0f0f", BaseURL: "https://stats.example.com", Roles: []string{"control", "worker"}, Signups: model.SignupsOpen, MailServer: true,
				RetentionMonths: 24,
			}
		})
		operator, owner := a.owner("operator@example.com"), a.owner("owner@example.com")
		for i, state := range []string{model.MailSent, model.MailFailed, model.MailSent} {
			at := model.At(start).Add(-time.Duration(10-i) * time.Minute)
			must(t, dbtest.Exec(d, "INSERT INTO mails (account_id, recipient, kind, data, state, attempts, created_at, next_attempt_at) "+
				"VALUES (1, 'a', 'test', '{}', ?, 1, ?, 0)", state, at))
		}

		got := operator.query(query).ok(t, "")
		for path, want := range map[string]any{
			"configuration.version": "v1.2.3 0f0f", "configuration.database": d.Dialect(), "configuration.signups": "open",
			"configuration.baseUrl":    "https://stats.example.com",
			"configuration.mailServer": true, "configuration.redis": false, "configuration.retentionMonths": float64(24),
			"configuration.defaultSitePlan": "FREE", "mail.lastSentAt": "2026-11-20T09:22:00Z", "mail.lastFailedAt": "2026-11-20T09:21:00Z",
			"mail.retrying": float64(0), "health.database": d.Dialect(), "health.dueDeliveries": float64(0),
		} {
			equal(t, got.at("installation."+path), want, "%s", path)
		}
		seen = true
		// The database and the process can find the same condition.
		before := fmt.Sprint(got.at("installation.health.problems"))
		want := strings.TrimSuffix(before, "]") + " hidden-clients]"
		equal(t, fmt.Sprint(operator.query(query).ok(t, "").at("installation.health.problems")), want, "problems")
		equal(t, fmt.Sprint(got.at("installation.configuration.roles")), "[control worker]", "the roles")

		for name, c := range map[string]*client{"an owner": owner, "an unauthenticated caller": a.client()} {
			got := c.query(query).ok(t, "")
			if got.at("installation.configuration") != nil || got.at("installation.mail") != nil || got.at("installation.health") != nil ||
				got.at("installation.sendsMail") != true {
				t.Errorf("%s gets %s", name, got.Body)
			}
		}
	})
}
