package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// fullConfig is a file in the form of "admin export-config", in which every setting differs from
// that of a new account, site and sitekey.
const fullConfig = `account: owner@example.com
accountName: Agency
captchaPlan: PRO_100K
siteLimit: 70
sites:
- domain: blank.example
  siteKey: 00112233445566778899aabbccddeeff
  name: blank.example
  extraDomains: []
  registeredEvents: []
  keyEvents: []
  excludedAddresses: []
  measureSiteSearch: false
  measureEcommerce: false
  allowPseudonymousUserId: false
  automaticEvents: true
  timeZone: UTC
  visitDetails: []
  excludedCountries: []
  excludedPaths: []
  shields: []
  smallGroup: 3
  conversionWebhookUrl: ""
  dailyExportUrl: ""
  plan: FREE
  segments: []
  funnels: []
  annotations: []
- domain: full.example
  siteKey: ffeeddccbbaa99887766554433221100
  name: "Shop: \"all\" of it"
  extraDomains:
  - a.example
  - b.example
  registeredEvents:
  - lead
  - signup
  keyEvents:
  - scroll
  - signup
  excludedAddresses:
  - 192.0.2.0/24
  - 2001:db8::/32
  measureSiteSearch: true
  measureEcommerce: true
  allowPseudonymousUserId: true
  automaticEvents: false
  timeZone: Europe/Berlin
  visitDetails:
  - COUNTRY
  - HOSTNAME
  excludedCountries:
  - AQ
  - CH
  excludedPaths:
  - /admin/**
  - "/it's \"here\""
  shields:
  - REFERRER_SPAM
  smallGroup: 10
  conversionWebhookUrl: https://full.example/hook?a=1
  dailyExportUrl: https://full.example/day
  plan: ENTERPRISE
  monthlyPageviews: 30000000
  segments:
  - name: Buyers
    filters:
    - dimension: PROPERTY
      operator: IS_NOT
      values:
      - ""
      - "yes"
      property: plan
      event: signup
    - dimension: PAGE
      operator: MATCHES
      values:
      - /shop/**
  - name: Zero
    filters:
    - dimension: CHANNEL
      operator: IS
      values:
      - email
  funnels:
  - name: Purchase
    steps:
    - page: /cart
    - event: purchase
      label: "Paid #1"
  annotations:
  - day: "2026-11-20"
    text: "Launch: version 2"
  - day: "2026-11-20"
    text: "Launch: version 2"
  - day: "2026-11-21"
    text: "~"
sitekeys:
- sitekey: svck_aaaaaaaaaaaaaaaaaaaaaaaa
  name: Contact form
  domains:
  - a.example
  - localhost
  policy:
    baseSeconds: 1.5
    maxSeconds: 0.0
    freeChallenges: 3
    automation: LIMIT
    strict: true
    attackMode: "ON"
    exemptNetworks:
    - 198.51.100.0/24
- sitekey: svck_bbbbbbbbbbbbbbbbbbbbbbbb
  name: Unbound
  domains: []
`

// TestExportConfig: the settings of an installation, exported and applied to an empty one, export
// to the same file, byte by byte. The file applied again changes nothing.
func TestExportConfig(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		first := newApplier(t, databaseURL)
		if status, out := first.apply(fullConfig); status != 0 {
			t.Fatal(out)
		}

		status, exported := first.admin("export-config", "Owner@example.com")
		if status != 0 || exported != fullConfig {
			t.Fatalf("status %d, exported\n%s\nwant\n%s", status, exported, fullConfig)
		}

		before := first.dump()
		if status, out := first.apply(exported); status != 0 || out != "Nothing to change.\n" || first.dump() != before {
			t.Errorf("applied to itself: status %d, %s", status, out)
		}

		var empty string
		if strings.HasPrefix(databaseURL, "sqlite:") {
			empty = dbtest.SQLiteURL(t)
		} else {
			empty = dbtest.PostgresURL(t)
		}

		second := newApplier(t, empty)
		if status, out := second.apply(exported); status != 0 || !strings.Contains(out, `account: siteLimit: "70", was "the default"`) ||
			!strings.Contains(out, "svck_aaaaaaaaaaaaaaaaaaaaaaaa: created") {
			t.Fatalf("status %d, %s", status, out)
		}
		if status, again := second.admin("export-config", "owner@example.com"); status != 0 || again != exported {
			t.Errorf("status %d, exported from the second installation\n%s\nwant\n%s", status, again, exported)
		}

		wantClassified(t, second)
	})
}

// TestApplyObjects: lists of segments, funnels, annotations and domains of sitekeys replace the
// stored ones; what is refused changes nothing.
func TestApplyObjects(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		a := newApplier(t, databaseURL)
		if status, out := a.apply(fullConfig); status != 0 {
			t.Fatal(out)
		}

		const site = "account: owner@example.com\nsites:\n- domain: full.example\n"
		for _, test := range []struct{ text, want string }{
			{site + "  siteKey: 00000000000000000000000000000000\n", "full.example: siteKey: The site has another site key"},
			{strings.ReplaceAll(site, "full", "new") + "  siteKey: 00112233445566778899aabbccddeeff\n",
				"new.example: siteKey: Another site has this site key."},
			{strings.ReplaceAll(site, "full", "new") + "  siteKey: x\n", "new.example: siteKey: A site key is 32"},
			{site + "  segments: [{name: x, filters: []}]\n", "full.example: segments: x: A segment has at least one filter."},
			{site + "  funnels: [{name: x, steps: [{page: /}]}]\n", "full.example: funnels: x: A funnel has 2 to 8 steps."},
			{site + "  annotations: [{day: tomorrow, text: x}]\n", "full.example: annotations: tomorrow: Use the form YYYY-MM-DD."},
			{site + "sitekeys: [{sitekey: x, name: y}]\n", "x: sitekey: A sitekey is svck_"},
			{site + "sitekeys: [{sitekey: svck_aaaaaaaaaaaaaaaaaaaaaaaa, domains: [10.0.0.1]}]\n",
				"svck_aaaaaaaaaaaaaaaaaaaaaaaa: domains: 10.0.0.1: "},
			{site + "sitekeys: [{sitekey: svck_aaaaaaaaaaaaaaaaaaaaaaaa, policy: {baseSeconds: 60.001}}]\n",
				"svck_aaaaaaaaaaaaaaaaaaaaaaaa: baseSeconds: The work is 0"},
			{site + "sitekeys: [{sitekey: svck_aaaaaaaaaaaaaaaaaaaaaaaa, policy: {automation: NEVER}}]\n",
				"svck_aaaaaaaaaaaaaaaaaaaaaaaa: automation: Automation is ALLOW, HARDER or LIMIT."},
			{site + "accountName: http://example.com\n", "account: accountName: "},
			{site + "captchaPlan: GOLD\n", "account: captchaPlan: There is no such plan."},
			{site + "siteLimit: 0\n", "account: siteLimit: Use a number from 1"},
		} {
			before := a.dump()
			if status, out := a.apply(test.text); status != 1 || !strings.Contains(out, test.want) || a.dump() != before {
				t.Errorf("%s\nstatus %d, %s, want %s and no change", test.text, status, out, test.want)
			}
		}

		status, out := a.apply(site + `  segments:
  - name: Zero
    filters: [{dimension: CHANNEL, operator: IS, values: [direct]}]
  - name: New
    filters: [{dimension: PAGE, operator: IS, values: [/]}]
  funnels: []
  annotations: [{day: "2026-11-20", text: "Launch: version 2"}, {day: "2026-11-22", text: Later}]
sitekeys: [{sitekey: svck_aaaaaaaaaaaaaaaaaaaaaaaa, domains: [], policy: {strict: false, exemptNetworks: []}}]
`)
		want := `full.example: segments: "Buyers" deleted
full.example: segments: "Zero" changed
full.example: segments: "New" created
full.example: funnels: "Purchase" deleted
full.example: annotations: "2026-11-20 Launch: version 2" deleted
full.example: annotations: "2026-11-21 ~" deleted
full.example: annotations: "2026-11-22 Later" created
svck_aaaaaaaaaaaaaaaaaaaaaaaa: policy: "{\"baseMs\":1500,\"free\":3,\"automation\":\"LIMIT\",\"attackMode\":\"ON\"}", was "{\"baseMs\":1500,\"free\":3,\"automation\":\"LIMIT\",\"strict\":true,\"attackMode\":\"ON\",\"exempt\":[\"198.51.100.0/24\"]}"
svck_aaaaaaaaaaaaaaaaaaaaaaaa: domains: "[]", was "[a.example localhost]"
`
		if status != 0 || out != want {
			t.Errorf("status %d, %s\nwant %s", status, out, want)
		}
	})
}

// How export-config treats a column. Every other text is the reason for leaving it out.
const (
	isExported = "exported"
	isIdentity = "identity of a row"
	isSecret   = "secret"
	isHistory  = "history"
	isState    = "state, which an action sets and ends"
)

// settingColumns classifies the columns of the tables with settings.
var settingColumns = map[string]map[string]string{
	"accounts": {
		"id": isIdentity, "name": isExported, "created_at": isHistory, "captcha_plan": isExported, "site_limit": isExported,
		"mail_day": isHistory, "invitations_mailed": isHistory, "notices_mailed": isHistory,
		"cell": "of the installation", "cell_closed": "of the installation",
		"require_second_factor": "members must have a second factor first", "require_provider": "members must have a provider first",
		"suspended_at": isState, "suspension_reason": isState,
	},
	"sites": {
		"cell": "of the installation", "cell_closed": "of the installation",
		"id": isIdentity, "account_id": isIdentity, "site_key": isExported, "domain": isExported, "name": isExported,
		"plan": isExported, "monthly_pageviews": isExported, "measure_site_search": isExported,
		"visit_details": isExported, "excluded_countries": isExported, "excluded_paths": isExported, "shields": isExported,
		"small_group":       isExported,
		"measure_ecommerce": isExported, "allow_pseudonymous_user_id": isExported, "automatic_events": isExported,
		"conversion_webhook_url": isExported, "daily_export_url": isExported, "time_zone": isExported,
		"server_secret_hash": isSecret, "server_secret_hint": isSecret, "conversion_webhook_secret": isSecret,
		"old_server_secret_hash": isSecret, "old_server_secret_hint": isSecret, "old_server_secret_until": isSecret,
		"old_webhook_secret": isSecret, "old_webhook_secret_until": isSecret,
		"created_at": isHistory, "daily_export_day": isHistory, "paused_at": isState, "deleted_at": isState,
	},
	"sitekeys": {
		"policy": isExported, "attack": isHistory,
		"id": isIdentity, "account_id": isIdentity, "sitekey": isExported, "name": isExported, "domains": isExported,
		"secret_hash": isSecret, "secret_hint": isSecret, "old_secret_hash": isSecret, "old_secret_hint": isSecret,
		"old_secret_until": isSecret, "created_at": isHistory, "claim_space": isIdentity,
	},
	"site_domains":       {"site_id": isIdentity, "domain": isExported},
	"registered_events":  {"site_id": isIdentity, "name": isExported},
	"key_events":         {"site_id": isIdentity, "name": isExported},
	"excluded_addresses": {"site_id": isIdentity, "network": isExported},
	"segments":           {"id": isIdentity, "site_id": isIdentity, "name": isExported, "filters": isExported},
	"funnels":            {"id": isIdentity, "site_id": isIdentity, "name": isExported, "steps": isExported},
	"annotations": {
		"id": isIdentity, "site_id": isIdentity, "day": isExported, "text": isExported, "created_at": isHistory,
	},
}

// otherTables are the tables without settings that the file can hold, with the reason.
var otherTables = map[string]string{
	"shared_links": isSecret, "report_views": "each user's own choice",
	"hidden_notices": "each user's own choice", "idempotency_keys": isHistory,
	"alert_channels": isSecret, "alerts": isHistory, "alert_messages": isHistory, "alert_attempts": isHistory,

	"users": "people", "memberships": "people", "guests": "people", "invitations": "people", "sessions": "people", "api_tokens": isSecret,
	"password_resets": isSecret, "passkeys": isSecret, "totp_secrets": isSecret, "account_providers": isSecret, "identities": "people",
	"recovery_codes":  isSecret,
	"used_challenges": isHistory, "email_changes": isSecret,
	"pending_sign_ups": isSecret, "signin_failures": isHistory,

	"cells": "of the installation, not of an account", "site_moves": isHistory,
	"account_moves": isHistory, "claim_spaces": isHistory,
	"certificate_files": isSecret, "certificate_hosts": isHistory, "task_runs": isHistory,
	"settings": "of the installation, not of an account", "schema_migrations": isHistory, "changes": isHistory,
	"sqlite_sequence": isHistory, "detached_partitions": isHistory, "day_salts_0": isSecret, "day_salts_1": isSecret, "day_salts_2": isSecret,
	"day_salts_3": isSecret,

	"visits": isHistory, "pageviews": isHistory, "engagement": isHistory, "events": isHistory, "transactions": isHistory,
	"user_erasures": isHistory, "deleted_sites": isHistory, "site_usage": isHistory, "site_usage_days": isHistory,
	"rejections": isHistory, "unknown_events": isHistory, "captcha_usage": isHistory, "captcha_spent": isHistory,
	"captcha_counts": isHistory, "quota_notices": isHistory, "deliveries": isHistory, "delivery_attempts": isHistory,
	"mails": isHistory, "failure_notices": isHistory, "webhook_notices": isHistory, "audit_log": isHistory, "report_days": isHistory,
	"report_segments": isHistory, "report_imports": isHistory, "import_figures": isHistory, "import_segments": isHistory,
	"import_jobs": isHistory, "import_chunks": isHistory,
}

// wantClassified checks that every column of a table with settings is classified, every other table
// has a reason, and every exported column has a value that a new object does not have: otherwise
// the test of the round trip would not notice its loss.
func wantClassified(t *testing.T, a *applier) {
	t.Helper()

	tables, err := dbtest.Tables(a.db)
	testkit.NoError(t, err)

	for _, table := range slices.Sorted(maps.Keys(tables)) {
		columns, hasSettings := settingColumns[table]
		if !hasSettings {
			if otherTables[table] == "" {
				t.Errorf("the table %s is not classified: add it to settingColumns or otherTables", table)
			}
			continue
		}

		for _, column := range tables[table] {
			switch columns[column] {
			case "":
				t.Errorf("the column %s.%s is not classified: add it to settingColumns", table, column)
			case isExported:
				values, err := dbtest.Rows[string](a.db, fmt.Sprintf("SELECT DISTINCT CAST(%s AS text) FROM %s WHERE %[1]s IS NOT NULL",
					column, table))
				testkit.NoError(t, err)
				if blank := table == "sites"; len(values) == 0 || blank && len(values) == 1 && !nullInBlank[column] {
					t.Errorf("fullConfig has no value of its own for %s.%s: %q", table, column, values)
				}
			}
		}
	}
}

// nullInBlank are the columns of sites that are NULL in a new site.
var nullInBlank = map[string]bool{"conversion_webhook_url": true, "daily_export_url": true}
