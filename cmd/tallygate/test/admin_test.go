package test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// unknownUser is what commands print about an address without a user.
const unknownUser = "tallygate: there is no user with the address unknown@example.com; \"tallygate admin users\" lists the users"

// TestAdmin runs every operator command on an installation with closed sign-ups: it creates an
// account, sets a password by the link, and changes plans and limits.
func TestAdmin(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		settings["TALLYGATE_SIGNUPS"], settings["TALLYGATE_CONTROL_ADDR"] = "closed", "127.0.0.1:0"
		settings["TALLYGATE_DEFAULT_CAPTCHA_PLAN"] = "PRO_250K"
		admin := adminOf(t, settings)
		link := func(out string) string { return regexp.MustCompile(`tg[ri]_\w+`).FindString(out) }

		first := admin("http://127.0.0.1:0/reset-password#tgr_", "create-account", "Operator@example.com", "--name", "Example")
		made := link(first)
		if isNew := settings["TALLYGATE_DATABASE_URL"] == ""; strings.Contains(first, "created a new database at ") != isNew {
			t.Errorf("the first account printed %q; a new database: %v", first, isNew)
		}
		admin("tallygate: There is an account with this e-mail address already.", "create-account",
			"operator@example.com", "--name", "Example")
		admin("tallygate: <email>: Enter an e-mail address", "create-account", "operator", "--name", "Example")
		admin("tallygate: Use a name of 1 to 100", "create-account", "third@example.com", "--name", " ")
		later := admin("#tgr_", "create-account", "second@example.com", "--name", "Second")
		second := link(later)
		if strings.Contains(later, "created a new database") {
			t.Errorf("the second account printed %q", later)
		}
		forgotten := link(admin("https://app.example.com/reset-password#tgr_", "reset-password", "second@example.com",
			"--base-url", "https://app.example.com"))
		admin(unknownUser, "reset-password", "unknown@example.com")

		admin(unknownUser, "reset-second-factor", "unknown@example.com")
		admin("tallygate: this user has no second factor", "reset-second-factor", "second@example.com")

		admin("tallygate: <email>: Enter an e-mail address", "invite", "guest", "--account", "second@example.com")
		admin(unknownUser, "invite", "guest@example.com", "--account", "unknown@example.com")
		admin("tallygate: This person is a member already.", "invite", "second@example.com", "--account",
			"second@example.com")
		admin("tallygate: --role must be one of", "invite", "guest@example.com", "--account", "second@example.com",
			"--role", "BOSS")
		revoked := link(admin("Join Second within 7 days", "invite", "Guest@example.com", "--account",
			"second@example.com"))
		joining := link(admin("https://app.example.com/accept-invitation#tgi_", "invite", "guest@example.com",
			"--account", "Second@example.com",
			"--role", "VIEWER", "--base-url", "https://app.example.com"))

		admin("tallygate: no mail is sent without a mail server", "test-mail", "second@example.com")
		admin("tallygate: <email>: Enter an e-mail address", "test-mail", "second", "--smtp-url", "smtp://mail.example:587")
		admin("Queued.", "test-mail", "Second@example.com", "--smtp-url", "smtp://mail.example:587")

		databaseURL = databaseOf(settings)
		if mails, err := dbtest.Dump(dbtest.Open(t, databaseURL), "mails"); err != nil || len(mails) != 2 ||
			!strings.Contains(mails[0], "operator_link") ||
			!strings.Contains(mails[1], "second@example.com") || !strings.Contains(mails[1], "pending") {
			t.Errorf("the mails are %v, %v", mails, err)
		}

		p := start(t, settings, []string{"control", "data"})
		const signUp = `mutation { signUp(input: {email: "x@example.com", password: "correct horse", accountName: "X"}) { userErrors { code } } }`
		if got := newOwner(t, p).data(signUp); !strings.Contains(got, `[{"code":"SIGNUPS_CLOSED"}]`) {
			t.Errorf("sign-up: %s", got)
		}

		for _, step := range [][2]string{{made, `"userErrors":[]`}, {forgotten, `"userErrors":[]`},
			{second, "INVALID_TOKEN"}} {
			// The last one is the same user's earlier link.
			if got := choose(t, p, step[0]); !strings.Contains(got, step[1]) {
				t.Errorf("%s: %s, want %s", step[0], got, step[1])
			}
		}

		for _, step := range [][2]string{{revoked, "INVALID_TOKEN"}, {joining, `"role":"VIEWER"`}} {
			if got := post(t, p, `mutation { acceptInvitation(input: {token: "`+step[0]+
				`", password: "a long password"}) { viewer { role account { name } } userErrors { code } } }`); !strings.Contains(got, step[1]) {
				t.Errorf("joining: %s, want %s", got, step[1])
			}
		}

		owner := newOwner(t, p)
		owner.SignIn("operator@example.com", "a long password")
		viewer := owner.data(`{ viewer { operator account { captchaPlan } } }`)
		testkit.Equal(t, viewer, `{"viewer":{"operator":true,"account":{"captchaPlan":"PRO_250K"}}}`, "the first account's owner")

		invited := owner.data(`mutation { inviteMember(input: {email: "x@example.com", role: VIEWER}) { userErrors { code } } }`)
		if !strings.Contains(invited, `[{"code":"NO_MAIL_SERVER"}]`) {
			t.Errorf("an invitation without mail: %s", invited)
		}

		var created struct{ CreateSite struct{ Site testSite } }
		owner.do(`mutation { createSite(input: {domain: "example.com"}) { site { id siteKey } } }`, &created)
		key := created.CreateSite.Site.SiteKey
		admin("example.com is on the plan ENTERPRISE.", "set-plan", key, "ENTERPRISE", "--monthly-pageviews", "123456")
		admin("tallygate: A number of page views a month is from 1 to 2^53", "set-plan", key, "ENTERPRISE",
			"--monthly-pageviews", "9223372036854775807")
		admin("tallygate: There is no such plan.", "set-plan", key, "GOLD")
		admin(`tallygate: there is no site with the key "0000`, "set-plan", strings.Repeat("0", 32), "FREE")
		wantQuota := func(want string) {
			t.Helper()
			got := owner.data(`{ site(id: "` + created.CreateSite.Site.ID + `") { usage { quota } } }`)
			if got != `{"site":{"usage":{"quota":`+want+`}}}` {
				t.Errorf("the quota is %s, want %s", got, want)
			}
		}
		wantQuota("123456")

		// By domain, for all sites, and without a limit.
		admin("example.com is on the plan PRO_1M.", "set-plan", "Example.com", "PRO_1M")
		admin("1 sites are now on the plan ENTERPRISE, the others were already.", "set-plan", "--all", "unlimited")
		wantQuota("null")
		admin("0 sites are now on the plan ENTERPRISE, the others were already.", "set-plan", "--all", "ENTERPRISE")
		admin("1 sites are now on the plan FREE, the others were already.", "set-plan", "--all", "FREE")
		wantQuota("10000")
		admin(`tallygate: there is no site with the domain "other.example"`, "set-plan", "other.example", "FREE")
		admin("tallygate: name a site or --all", "set-plan", "--all", "example.com", "FREE")
		admin("tallygate: name a site, or --all", "set-plan", "example.com")
		admin("example.com is on the plan ENTERPRISE.", "set-plan", key, "ENTERPRISE", "--monthly-pageviews", "123456")

		admin("Second may have 60 sites on the plan of new sites.", "set-site-limit", "second@example.com", "60")
		admin("tallygate: Use a number from 1 to 1000.", "set-site-limit", "second@example.com", "1001")
		admin(unknownUser, "set-site-limit", "unknown@example.com", "60")

		admin("Second is on the captcha plan PRO_1M.", "set-captcha-plan", "second@example.com", "PRO_1M")
		admin("tallygate: There is no such plan.", "set-captcha-plan", "second@example.com", "PRO_5M")
		admin(unknownUser, "set-captcha-plan", "unknown@example.com", "FREE")

		admin("captcha PRO_1M", "accounts")
		if list := admin(`"captchaPlan": "PRO_1M"`, "accounts", "--search", "second", "--json"); strings.Contains(list, "Example") ||
			!strings.Contains(list, `"sites": []`) {
			t.Errorf("the accounts with --search are %s", list)
		}
		admin("tallygate: --most: 0 is not from 1 to 1000", "accounts", "--most", "0")
		wantUsers(t, admin)

		admin("mail server:", "installation")
		if state := admin(`"signups": "closed"`, "installation", "--json", "--smtp-url", "smtp://user:password@mail.example:587"); !strings.Contains(
			state, `"mailServer": true`) || strings.Contains(state, "mail.example") {
			t.Errorf("the installation is %s", state)
		}

		// The commands are in the logs of the accounts that they changed.
		wantAudit(t, databaseURL, map[string]string{
			"admin create-account": "Account Example", "admin reset-password": "User second@example.com",
			"admin invite": "Invitation guest@example.com", "admin set-plan": "Site example.com",
			"admin set-site-limit": "Account Second", "admin set-captcha-plan": "Account Second",
		})

		admin("tallygate: this user is the only operator; make another one first", "set-operator", "operator@example.com", "--off")
		admin("Done.", "set-operator", "second@example.com")
		admin("Done.", "set-operator", "operator@example.com", "--off")
		testkit.Equal(t, owner.data(`{ viewer { operator } }`), `{"viewer":{"operator":false}}`, "still an operator")
	})
}

// wantAudit checks that commands are in the audit log, with an object of each.
func wantAudit(t *testing.T, databaseURL string, want map[string]string) {
	t.Helper()
	rows, err := dbtest.Rows[struct{ Action, Object string }](dbtest.Open(t, databaseURL),
		"SELECT action, object_kind || ' ' || object_name AS object FROM audit_log WHERE actor_kind = 'COMMAND_LINE'")
	testkit.NoError(t, err)

	for action, object := range want {
		if !slices.Contains(rows, struct{ Action, Object string }{action, object}) {
			t.Errorf("%s is not in the log: %v", action, rows)
		}
	}
}

// choose sets a password with a link's secret.
func choose(t *testing.T, p *process, secret string) string {
	t.Helper()
	return post(t, p, `mutation { resetPassword(input: {token: "`+secret+`", password: "a long password"}) { userErrors { code } } }`)
}

// post sends an unauthenticated query and returns the response.
func post(t *testing.T, p *process, query string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	testkit.NoError(t, err)
	_, answer := exchange(t, http.DefaultClient, http.MethodPost, "http://"+p.addr["control"]+"/graphql", string(body),
		map[string]string{"Content-Type": "application/json"})
	return answer
}

// wantUsers checks that the lists of accounts and users have the addresses, roles and keys that
// other commands take.
func wantUsers(t *testing.T, admin func(want string, args ...string) string) {
	t.Helper()
	var users []struct {
		Email    string
		Operator bool
		Accounts []struct{ Name, Role string }
	}
	testkit.NoError(t, json.Unmarshal([]byte(admin("[", "users", "--search", "OPERATOR@", "--json")), &users))
	if len(users) != 1 || users[0].Email != "operator@example.com" || !users[0].Operator || len(users[0].Accounts) == 0 ||
		users[0].Accounts[0].Role != "OWNER" {
		t.Errorf("users %+v, want the owner alone", users)
	}

	admin("  operator@example.com", "accounts")
	admin("operator@example.com", "users", "--most", "10")
	admin("[]", "users", "--search", "unknown@", "--json")
	admin("tallygate: --most: 0 is not from 1 to 1000", "users", "--most", "0")
}
