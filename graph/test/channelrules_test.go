package graph_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// channelMistake is a field of an input that is refused.
type channelMistake struct {
	kind  string // of the channel; "": WEBHOOK
	field string
	value any
	want  string
}

// channelMistakes are the mistakes that creating and changing a channel have in common.
func channelMistakes() []channelMistake {
	var list []channelMistake
	add := func(kind, field, want string, values ...any) {
		for _, value := range values {
			list = append(list, channelMistake{kind, field, value, want})
		}
	}
	quiet := func(from, to int, zone string) any { return map[string]any{"from": from, "to": to, "timeZone": zone} }

	add("", "name", "name:INVALID_NAME", "", " \t ", strings.Repeat("é", 101), "a\nb", "\u200b")
	add("", "secret", "secret:SECRET_TOO_SHORT", strings.Repeat("x", 15), "whsec_"+strings.Repeat("x", 15))
	add("", "secret", "secret:INVALID_SECRET", strings.Repeat("x", 257), "a signing\nsecret with two lines")
	for _, kind := range []string{"SLACK", "DISCORD", "TEAMS", "EMAIL"} {
		add(kind, "secret", "secret:INVALID_SECRET", "a secret that signs calls")
	}
	for _, kind := range []string{"", "SLACK", "DISCORD", "TEAMS"} {
		add(kind, "address", "address:INVALID_URL", "", "hook.example/a", "ops@example.org", "http://hook.example/a", "ftp://hook.example/a",
			"https://user:password@hook.example/a", "https://user@hook.example/a", "https://hook.example:8080/a", "https:///a",
			"https://hook/a", "https://localhost/a", "https://hook.localhost/a", "https://127.0.0.1/a", "https://10.0.0.1/a",
			"https://192.168.1.1/a", "https://169.254.169.254/latest/", "https://[::1]/a", "https://[fd00::1]/a", "https://[::ffff:10.0.0.1]/a",
			"https://2130706433/a", "https://0x7f.0.0.1/a", "https://hook.example/"+strings.Repeat("a", 5000))
	}
	add("", "quietHours", "quietHours:INVALID_QUIET_HOURS", quiet(-1, 60, "UTC"), quiet(0, 1440, "UTC"), quiet(60, 60, "UTC"),
		quiet(0, 0, ""), quiet(0, 60, ""), quiet(0, 60, "Local"), quiet(0, 60, "Mars/Base"), quiet(0, 60, "../etc/passwd"))
	add("", "events", "events:INVALID_ALERT_EVENT", []string{"JOBS_FAILED"}, []string{"QUOTA", "CERTIFICATE_FAILED"})
	return list
}

// TestChannelMistakes creates and changes channels with wrong input: it is refused, all mistakes
// are reported, and nothing changes.
func TestChannelMistakes(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")

		inputs, ids := map[string]map[string]any{}, map[string]string{}
		for _, of := range []string{"", site} {
			for _, kind := range []string{"EMAIL", "SLACK", "DISCORD", "TEAMS", "WEBHOOK"} {
				input := map[string]any{"kind": kind, "name": "ops", "address": "https://hook.example/a", "events": []string{"QUOTA"}}
				if kind == "EMAIL" {
					input["address"] = "ops@example.org"
				}
				if of != "" {
					input["siteId"] = of
				}
				inputs[of+kind], ids[of+kind] = input, c.addChannel(of, kind, input["address"].(string), nil)
			}
		}
		before := a.dump()

		create := func(of, kind string, change map[string]any, want string) {
			t.Helper()
			mutation, input := "createAlertChannel", maps.Clone(inputs[of+kind])
			if of != "" {
				mutation = "createSiteAlertChannel"
			}
			maps.Copy(input, change)
			if got := c.onChannel(mutation, input); got.userErrors(mutation) != want || got.at(mutation+".alertChannel") != nil {
				t.Errorf("%s of %s with %.200v: %s, want %s", mutation, kind, change, got.Body, want)
			}
		}
		update := func(of, kind string, change map[string]any, want string) {
			t.Helper()
			equal(t, c.changeChannel(ids[of+kind], change), want, "%s with %.200v is changed", kind, change)
		}

		for i, m := range channelMistakes() {
			// Both owners of channels have the same checks.
			of, kind := []string{"", site}[i%2], m.kind
			if kind == "" {
				kind = "WEBHOOK"
			}
			change := map[string]any{m.field: m.value}
			create(of, kind, change, m.want)
			update(of, kind, change, m.want)
		}

		for _, email := range []string{"", "ops", "ops@", "a b@example.org", "Ops <ops@example.org>", "ops@example.org, b@example.org",
			"https://hook.example/a", strings.Repeat("o", 250) + "@example.org"} {
			create("", "EMAIL", map[string]any{"address": email}, "address:INVALID_EMAIL")
		}
		update("", "EMAIL", map[string]any{"address": "other@example.org"}, "address:INVALID_EMAIL")
		for _, event := range []string{"NEW_SIGN_IN", "CAPTCHA_ATTACK"} {
			create(site, "SLACK", map[string]any{"events": []string{"QUOTA", event}}, "events:INVALID_ALERT_EVENT")
			update(site, "SLACK", map[string]any{"events": []string{event}}, "events:INVALID_ALERT_EVENT")
		}
		update("", "SLACK", map[string]any{"weekly": true, "monthly": true}, "weekly:INVALID_ALERT_EVENT monthly:INVALID_ALERT_EVENT")

		// One answer has every mistake.
		all := map[string]any{
			"name": "", "address": "http://hook.example/", "secret": "short", "events": []string{"JOBS_FAILED"},
			"quietHours": map[string]any{"from": 0, "to": 0, "timeZone": "UTC"},
		}
		const everyField = "address events name quietHours secret"
		for _, got := range []string{
			c.onChannel("createAlertChannel", merged(inputs["WEBHOOK"], all)).userErrors("createAlertChannel"), c.changeChannel(ids["WEBHOOK"], all),
		} {
			fields := strings.Fields(got)
			for i, field := range fields {
				fields[i], _, _ = strings.Cut(field, ":")
			}
			if slices.Sort(fields); strings.Join(fields, " ") != everyField {
				t.Errorf("every mistake: %s", got)
			}
		}

		equal(t, a.dump(), before, "the mistakes changed something")

		// A channel wants something: an event, or a summary of its site.
		for _, of := range []string{"", site} {
			create(of, "SLACK", map[string]any{"events": []string{}}, "events:NO_ALERT_EVENT")
			update(of, "SLACK", map[string]any{"events": []string{}}, "events:NO_ALERT_EVENT")
		}
		update(site, "SLACK", map[string]any{"events": []string{}, "weekly": true}, "")
		update(site, "SLACK", map[string]any{"weekly": false}, "events:NO_ALERT_EVENT")
		update(site, "SLACK", map[string]any{"name": "summaries"}, "")
		update(site, "SLACK", map[string]any{"name": "ops", "events": []string{"QUOTA"}, "weekly": false}, "")

		// The longest values are accepted.
		longest := map[string]any{
			"name": strings.Repeat("é", 100), "secret": strings.Repeat("é", 256), "quietHours": map[string]any{"from": 1439, "to": 0, "timeZone": "UTC"},
		}
		update("", "WEBHOOK", longest, "")
		update("", "WEBHOOK", map[string]any{"secret": strings.Repeat("x", 16)}, "")
	})
}

// merged returns an input with changes.
func merged(input, change map[string]any) map[string]any {
	all := maps.Clone(input)
	maps.Copy(all, change)
	return all
}

// TestChannelLimits fills an account and a site with channels, which are counted apart. A deleted
// channel makes room.
func TestChannelLimits(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		site, other := c.siteOf("example.com"), c.siteOf("other.example")
		input := map[string]any{"kind": "SLACK", "name": "ops", "address": "https://chat.example/a", "events": []string{"QUOTA"}}

		last := map[string]string{}
		for of, most := range map[string]int{"": model.MaxAlertChannels, site: model.MaxSiteAlertChannels} {
			for range most {
				last[of] = c.addChannel(of, "SLACK", "https://chat.example/a", nil)
			}
		}
		before := a.dump()
		refused := c.onChannel("createAlertChannel", input)
		if refused.userErrors("createAlertChannel") != ":TOO_MANY_ALERT_CHANNELS" || refused.at("createAlertChannel.alertChannel") != nil {
			t.Errorf("the 21st channel of an account: %s", refused.Body)
		}
		ofSite := merged(input, map[string]any{"siteId": site})
		c.onChannel("createSiteAlertChannel", ofSite).
			named("the 11th channel of a site").fails(t, "createSiteAlertChannel", ":TOO_MANY_ALERT_CHANNELS")
		equal(t, a.dump(), before, "the refused channels changed something")

		c.addChannel(other, "SLACK", "https://chat.example/a", nil)
		for of, id := range last {
			c.onChannel("deleteAlertChannel", map[string]any{"alertChannelId": id}).ok(t, "deleteAlertChannel")
			c.addChannel(of, "SLACK", "https://chat.example/a", nil)
		}
	})
}

// TestChannelCallers calls the mutations with ids of real channels as callers with fewer rights
// than a member. A refused call changes nothing.
func TestChannelCallers(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		operator, c := a.owner("operator@example.com"), a.owner("owner@example.com")
		site, other := c.siteOf("example.com"), c.siteOf("other.example")
		ofAccount, ofSite := c.addChannel("", "SLACK", "https://chat.example/a", nil), c.addChannel(site, "SLACK", "https://chat.example/b", nil)
		message := c.test(ofAccount)
		a.attempt(ofAccount, broken)

		// A caller has a session or a token.
		type caller struct {
			name   string
			client *client
			token  string
		}
		run := func(by caller, document string) *answer {
			t.Helper()
			if by.token != "" {
				return a.with(by.token, document)
			}
			return by.client.query(document)
		}
		calls := []struct{ mutation, input string }{
			{"updateAlertChannel", `alertChannelId: "ACCOUNT", name: "changed"`},
			{"updateAlertChannel", `alertChannelId: "SITE", name: "changed"`},
			{"sendTestAlert", `alertChannelId: "ACCOUNT"`},
			{"sendTestAlert", `alertChannelId: "SITE"`},
			{"redeliverAlertMessage", `alertMessageId: "MESSAGE"`},
			{"createAlertChannel", `accountId: "OWN", kind: SLACK, name: "x", address: "https://chat.example/", events: [QUOTA]`},
			{"createSiteAlertChannel", `siteId: "OF", kind: SLACK, name: "x", address: "https://chat.example/", events: [QUOTA]`},
			{"deleteAlertChannel", `alertChannelId: "ACCOUNT"`},
			{"deleteAlertChannel", `alertChannelId: "SITE"`},
		}
		stored := func() (all string) {
			t.Helper()
			for _, table := range []string{"alert_channels", "alert_messages", "audit_log"} {
				rows := value(dbtest.Dump(a.db, table))(t)
				slices.Sort(rows)
				all += strings.Join(rows, "\n")
			}
			return all
		}
		ids := strings.NewReplacer("ACCOUNT", ofAccount, "SITE", ofSite, "MESSAGE", message, "OWN", c.account(), "OF", site)

		const no, unknown, ok = "FORBIDDEN", "NOT_FOUND", ""
		for _, test := range []struct {
			caller
			account, site bool     // whether the channel can be read
			want          []string // of each call
		}{
			{caller{"a viewer", a.join(c, "viewer@example.com", model.RoleViewer), ""}, true, true, []string{no, no, no, no, no, no, no, no, no}},
			{caller{"a token that reads", nil, c.createToken("READ").secret}, true, true, []string{no, no, no, no, no, no, no, no, no}},
			{caller{"a token that configures", nil, c.createToken("WRITE").secret}, true, true, []string{no, no, ok, ok, ok, no, no, ok, ok}},
			{
				caller: caller{"a token that also exports", nil, c.createToken("WRITE", "EXPORT").secret}, account: true,
				site: true, want: []string{ok, ok, ok, ok, ok, ok, ok, ok, ok},
			},
			{
				caller: caller{"a token of the site", nil, c.restrictedToken(site)}, account: false, site: true,
				want: []string{unknown, ok, unknown, ok, unknown, no, ok, unknown, ok},
			},
			{caller{"a token of another site", nil, c.restrictedToken(other)}, false, false,
				[]string{unknown, unknown, unknown, unknown, unknown, no, unknown, unknown, unknown}},
			{caller{"a member", a.join(c, "member@example.com", model.RoleMember), ""}, true, true, []string{ok, ok, ok, ok, ok, ok, ok, ok, ok}},
			{caller{"a guest", a.guest(c, "guest@example.com", site), ""}, false, false, []string{no, no, no, no, no, no, no, no, no}},
			{caller{"the operator, of another account", operator, ""}, false, false,
				[]string{unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown}},
		} {
			for id, readable := range map[string]bool{ofAccount: test.account, ofSite: test.site, message: test.account} {
				if got := run(test.caller, `{ node(id: "`+id+`") { id } }`); (got.at("node") != nil) != readable || got.codes() != "" {
					t.Errorf("%s reads %s, want that it is found: %t", test.name, got.Body, readable)
				}
			}

			for i, call := range calls {
				input := ids.Replace(call.input)
				if test.want[i] == ok && call.mutation == "deleteAlertChannel" {
					// Delete a new channel, so that the next caller finds the others.
					of := ""
					if strings.Contains(call.input, "SITE") {
						of = site
					}
					input = fmt.Sprintf("alertChannelId: %q", c.addChannel(of, "SLACK", "https://chat.example/c", nil))
				}

				before := stored()
				got := run(test.caller, fmt.Sprintf("mutation { %s(input: {%s}) { userErrors { code } } }", call.mutation, input))
				code := got.codes()
				if code == "" {
					_, code, _ = strings.Cut(got.userErrors(call.mutation), ":")
				}
				if code != test.want[i] {
					t.Errorf("%s calls %s(%s): %s, want %q", test.name, call.mutation, call.input, got.Body, test.want[i])
				}
				if changed := stored() != before; changed != (test.want[i] == ok) {
					t.Errorf("%s calls %s(%s), which changes something: %t", test.name, call.mutation, call.input, changed)
				}

				a.attempt(ofAccount, broken)
				a.attempt(ofSite, broken)
			}
		}
	})
}

// TestOperatorsChannel: alerts of the installation go to channels to which an operator has added
// them, while this user is an operator. Other members change the rest, and not the address.
func TestOperatorsChannel(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		operator := a.owner("operator@example.com")
		owner, member := a.join(operator, "owner@example.com", model.RoleOwner), a.join(operator, "member@example.com", model.RoleMember)
		setOperator := func(email string, is bool) {
			t.Helper()
			must(t, dbtest.Exec(a.db, "UPDATE users SET operator = ? WHERE email = ?", is, email))
		}
		receives := func(id string) bool {
			t.Helper()
			before := len(operator.messages(id))
			a.alert(model.AlertJobsFailed, "", "")
			return len(operator.messages(id)) > before
		}
		both, jobs := []string{"JOBS_FAILED", "CERTIFICATE_FAILED"}, []string{"QUOTA", "JOBS_FAILED"}

		id := operator.addChannel("", "WEBHOOK", "https://hook.example/0123456789abcdef", map[string]any{"events": jobs})
		if !receives(id) {
			t.Error("the operator's channel gets nothing")
		}
		site := map[string]any{
			"siteId": operator.siteOf("example.com"), "kind": "SLACK", "name": "x", "address": "https://chat.example/",
			"events": jobs,
		}
		operator.onChannel("createSiteAlertChannel", site).
			named("of a site").fails(t, "createSiteAlertChannel", "events:INVALID_ALERT_EVENT")

		for _, who := range []*client{owner, member} {
			before, was := a.dump(), operator.channel(id)
			for _, change := range []map[string]any{{"address": "https://hook.example/another"}, {"address": "https://hook.example/another", "events": jobs},
				{"name": "x", "address": "https://hook.example/0123456789abcdef"}} {
				equal(t, who.changeChannel(id, change), "address:INVALID_ALERT_EVENT", "another member changes %v", change)
			}
			if got := who.changeChannel(id, map[string]any{"events": both}); got != "events:INVALID_ALERT_EVENT" {
				t.Errorf("another member adds events: %s", got)
			}
			equal(t, a.dump(), before, "the refused calls changed something")

			// The events stay with another name.
			if got := who.changeChannel(id, map[string]any{"name": "renamed", "events": jobs, "secret": "another signing secret"}); got != "" {
				t.Errorf("another member changes the rest: %s", got)
			}
			was["name"], was["signed"] = "renamed", true
			if got := operator.channel(id); !reflect.DeepEqual(got, was) || !receives(id) {
				t.Errorf("after another member's change: %v, want %v", got, was)
			}
		}

		// An API token has no rights of an operator.
		token := operator.createToken("WRITE", "EXPORT").secret
		before := value(dbtest.Dump(a.db, "alert_channels"))(t)
		for _, call := range []string{
			`createAlertChannel(input: {kind: SLACK, name: "x", address: "https://chat.example/", events: [JOBS_FAILED]})`,
			fmt.Sprintf(`updateAlertChannel(input: {alertChannelId: %q, address: "https://chat.example/"})`, id),
			fmt.Sprintf(`updateAlertChannel(input: {alertChannelId: %q, events: [JOBS_FAILED, CERTIFICATE_FAILED]})`, id),
		} {
			a.with(token, "mutation { "+call+" { userErrors { code } } }").
				named("an operator's token calls %s", call).shows(t, "INVALID_ALERT_EVENT")
		}
		if after, err := dbtest.Dump(a.db, "alert_channels"); err != nil || !slices.Equal(after, before) {
			t.Errorf("an operator's token has changed %v to %v, %v", before, after, err)
		}

		// The alerts end with the role of the operator who has added them, and not with another
		// operator's role.
		setOperator("owner@example.com", true)
		if owner.changeChannel(id, map[string]any{"address": "https://hook.example/owners"}) != "" {
			t.Error("another operator cannot change the address")
		}
		setOperator("operator@example.com", false)
		if !receives(id) {
			t.Error("nothing is sent while the other operator is one")
		}
		setOperator("operator@example.com", true)
		setOperator("owner@example.com", false)
		if receives(id) {
			t.Error("the channel of a former operator gets alerts of the installation")
		}
		if got := operator.changeChannel(id, map[string]any{"events": both}); got != "" || !receives(id) {
			t.Errorf("an operator adds the events again: %s", got)
		}

		// Without the events a member changes the address, and cannot add them again.
		if got := member.changeChannel(id, map[string]any{"events": []string{"QUOTA"}, "address": "https://hook.example/members"}); got != "" {
			t.Errorf("a member removes the events: %s", got)
		}
		if got := member.changeChannel(id, map[string]any{"events": jobs}); got != "events:INVALID_ALERT_EVENT" || receives(id) {
			t.Errorf("a member adds them again: %s", got)
		}

		// An operator's e-mail address needs its confirmation, too.
		mail := operator.addChannel("", "EMAIL", "duty@example.org", map[string]any{"events": jobs})
		if receives(mail) {
			t.Error("an unconfirmed address gets alerts of the installation")
		}
		a.client().onChannel("confirmAlertChannel", map[string]any{"token": a.mailedSecret("duty@example.org")}).ok(t, "confirmAlertChannel")
		if !receives(mail) {
			t.Error("a confirmed address gets no alerts of the installation")
		}
	})
}
