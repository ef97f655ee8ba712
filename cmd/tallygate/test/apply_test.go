package test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// applier applies files to an installation.
type applier struct {
	t        *testing.T
	settings map[string]string
	db       *db.DB
}

// admin runs an operator command, and returns its status and output.
func (a *applier) admin(args ...string) (int, string) {
	a.t.Helper()
	return runAdmin(a.t, a.settings, args...)
}

// apply applies a file with the given text.
func (a *applier) apply(text string) (int, string) {
	a.t.Helper()
	return a.admin("apply", writeFile(a.t, a.t.TempDir(), "sites.yaml", text))
}

// dump returns the content of all tables.
func (a *applier) dump() string {
	a.t.Helper()

	tables, err := dbtest.Tables(a.db)
	testkit.NoError(a.t, err)

	var all []string
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		rows, err := dbtest.Dump(a.db, table)
		testkit.NoError(a.t, err)

		slices.Sort(rows)
		all = append(all, table+":\n"+strings.Join(rows, "\n"))
	}

	return strings.Join(all, "\n")
}

// site returns a site by its domain.
func (a *applier) site(domain string) *model.SiteRules {
	a.t.Helper()

	keys, err := dbtest.Rows[string](a.db, "SELECT site_key FROM sites WHERE domain = ?", domain)
	if err != nil || len(keys) != 1 {
		a.t.Fatalf("%s: %v, %v", domain, keys, err)
	}

	site, err := sites.New(a.db).Lookup.SiteRulesByKey(a.t.Context(), keys[0])
	testkit.NoError(a.t, err)

	return site
}

func newApplier(t *testing.T, databaseURL string) *applier {
	t.Helper()

	a := &applier{t: t, settings: map[string]string{"TALLYGATE_DATA_DIR": t.TempDir()}}
	if !strings.HasPrefix(databaseURL, "sqlite:") {
		a.settings["TALLYGATE_DATABASE_URL"] = databaseURL
	}
	if status, out := a.admin("create-account", "owner@example.com", "--name", "Example"); status != 0 {
		t.Fatal(out)
	}

	a.db = dbtest.Open(t, databaseOf(a.settings))
	return a
}

// documentedExample returns the file in docs/operator/operations.md.
func documentedExample(t *testing.T) string {
	t.Helper()
	operations := readFile(t, "../../../docs/operator/operations.md")
	found := regexp.MustCompile("(?s)```yaml\n(account:.*?)```").FindStringSubmatch(operations)
	if found == nil {
		t.Fatal("docs/operator/operations.md has no example")
	}

	return found[1]
}

// TestApply: the documented example makes a site with its settings, and nothing the second time;
// what it leaves out stays, and what it gives is the whole of it.
func TestApply(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		a := newApplier(t, databaseURL)
		status, out := a.apply(documentedExample(t))
		site := a.site("example.com")
		want := `example.com: created with the site key ` + site.SiteKey + `
example.com: name: "Shop", was "example.com"
example.com: extraDomains: "[shop.example.net]", was "[]"
example.com: registeredEvents: "[newsletter signup]", was "[]"
example.com: keyEvents: "[signup]", was "[]"
example.com: excludedAddresses: "[192.0.2.0/24]", was "[]"
example.com: measureEcommerce: "true", was "false"
example.com: conversionWebhookUrl: "https://example.com/hook", was ""
example.com: monthlyPageviews: "30000000", was "unlimited"
`
		if status != 0 || out != want {
			t.Errorf("status %d, %s, want %s", status, out, want)
		}

		if site.Name != "Shop" || !site.MeasureEcommerce || !site.AutomaticEvents ||
			site.MonthlyPageviews != 30_000_000 ||
			site.ConversionWebhookURL != "https://example.com/hook" ||
			fmt.Sprint(site.KeyEvents, site.Excluded) != "[signup] [192.0.2.0/24]" {
			t.Errorf("the site is %+v", site)
		}

		mails, err := dbtest.Rows[string](a.db,
			"SELECT data FROM mails WHERE kind = ? AND recipient = 'owner@example.com'", model.MailWebhookChanged)
		if err != nil || len(mails) != 1 || !strings.Contains(mails[0], `"operator":true`) {
			t.Errorf("mails about the new address: %q, %v", mails, err)
		}

		before := a.dump()
		if status, out := a.apply(documentedExample(t)); status != 0 || out != "Nothing to change.\n" || a.dump() != before {
			t.Errorf("a second time: status %d, %s", status, out)
		}

		// The owner changes settings that the next file does not name.
		testkit.NoError(t, sites.New(a.db).Sites.AddSiteDomain(t.Context(), site.AccountID, site.ID, "by-hand.example"))

		status, out = a.apply("{\n\t\"account\": \"Owner@example.com\",\n\t\"sites\": [\n\t\t{\"domain\": \"EXAMPLE.com.\", \"registeredEvents\": [\"lead\"], \"keyEvents\": [\"purchase\", \"scroll\"],\n" +
			"\t\t\"excludedAddresses\": [], \"conversionWebhookUrl\": \"\", \"dailyExportUrl\": \"https://example.com/day\", \"name\": null},\n\t\t{\"domain\": \"second.example\", \"automaticEvents\": false}]}")

		want = `example.com: registeredEvents: "[lead]", was "[newsletter signup]"
example.com: keyEvents: "[scroll]", was "[signup]"
example.com: excludedAddresses: "[]", was "[192.0.2.0/24]"
example.com: conversionWebhookUrl: "", was "https://example.com/hook"
example.com: dailyExportUrl: "https://example.com/day", was ""
second.example: created with the site key ` + a.site("second.example").SiteKey + `
second.example: automaticEvents: "false", was "true"
`
		if status != 0 || out != want {
			t.Errorf("status %d, %s, want %s", status, out, want)
		}
		if got := a.site("example.com"); got.Name != "Shop" ||
			fmt.Sprint(got.ExtraDomains) != "[by-hand.example shop.example.net]" || got.Plan != model.PlanEnterprise {
			t.Errorf("what was left out is %+v", got)
		}
	})
}

// TestApplyAllOrNothing checks that a partly invalid file changes nothing and reports every
// mistake.
func TestApplyAllOrNothing(t *testing.T) {
	many := func(n int, format string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return strings.Join(list, ", ")
	}

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		a := newApplier(t, databaseURL)
		if status, out := a.apply(documentedExample(t)); status != 0 {
			t.Fatal(out)
		}

		before := a.dump()
		const good = "account: owner@example.com\nsites:\n  - domain: new.example\n    name: New\n  - domain: example.com\n    name: Other\n"
		for _, test := range []struct{ text, want string }{
			{good + "    measureEcomerce: true\n", `unknown field "measureEcomerce"`},
			{good + "    Name: x\n", `unknown field "Name"`},
			{good + "    name: again\n", "name"},
			{good + "accounts: x\n", `unknown field "accounts"`},
			{good + "    automaticEvents: perhaps\n", "bool"},
			{good + "---\n" + good, "more than one document"},
			{"", "the file is empty"},
			{"sites: []\n", "needs an account and sites"},
			{"- a\n", "sites.yaml: "},
			{"account: unknown@example.com\nsites: [{domain: a.example}]\n",
				unknownUser + "\n"},
			{"account: unknown\nsites: [{domain: a.example}]\n", "Enter an e-mail address"},
			{good + "  - domain: NEW.example\n", "NEW.example: domain: The file has this site twice."},
			{good + "  - domain: localhost\n", "localhost: domain: "},
			{good + "  - name: nothing\n", "domain: "},
			{good + "    excludedAddresses: [x]\n", "example.com: excludedAddresses.0: Enter addresses"},
			{good + "    extraDomains: [a.example, 10.0.0.1]\n", "example.com: extraDomains.1: "},
			{good + "    extraDomains: [example.com]\n",
				"example.com: extraDomains.0: This is the site's own domain"},
			{good + "    extraDomains: [" + many(21, "d%d.example") + "]\n", "A site has at most 20 extra domains."},
			{good + "    registeredEvents: [purchase]\n",
				"example.com: registeredEvents.0: This name has a meaning"},
			{good + "    registeredEvents: [" + many(51, "e%d") + "]\n",
				"A site has at most 50 registered event names."},
			{good + "    keyEvents: [unknown]\n", "example.com: keyEvents.0: Register this event name first."},
			{good + "    conversionWebhookUrl: http://example.com/\n", "example.com: conversionWebhookUrl: "},
			{good + "    dailyExportUrl: https://10.0.0.1/\n    conversionWebhookUrl: x\n",
				"example.com: dailyExportUrl: "},
			{good + "    plan: GOLD\n", "example.com: plan: There is no such plan."},
			{good + "    plan: ENTERPRISE\n    monthlyPageviews: 9007199254740993\n", "from 1 to 2^53"},
			{good + "    monthlyPageviews: 5\n", "together with its plan"},
			{good + "    monthlyPageviews: 0\n", "together with its plan"},
			{good + "    plan: PRO_1M\n    monthlyPageviews: 0\n", "This plan has 1000000 page views"},
			{strings.ReplaceAll(good, "Other", `""`) + "    excludedAddresses: [x]\n", "example.com: name: "},
			{strings.ReplaceAll(good, "Other", `""`) + "    keyEvents: [scroll, x]\n", "\nexample.com: keyEvents.1: "},
		} {
			status, out := a.apply(test.text)
			if status != 1 || !strings.Contains(out, test.want) {
				t.Errorf("%s\nstatus %d, %s, want %s", test.text, status, out, test.want)
			}
			if after := a.dump(); after != before {
				t.Fatalf("%s\nchanged\n%s\nto\n%s", test.text, before, after)
			}
		}

		if status, out := a.apply(good); status != 0 || !strings.Contains(out, "new.example: created") {
			t.Errorf("the good part: %d %s", status, out)
		}
	})
}
