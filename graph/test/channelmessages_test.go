package graph_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// TestTestAlerts sends tests: one at a time, with one attempt, also in quiet hours, and 20 an hour.
// The messages are listed newest first, with their attempts.
func TestTestAlerts(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")
		id := c.addChannel(site, "WEBHOOK", "https://hook.example/a",
			map[string]any{"quietHours": map[string]any{"from": 540, "to": 600, "timeZone": "UTC"}})

		first := c.test(id)
		want := map[string]any{
			"id": first, "event": "test", "phase": "once", "title": "example.com", "state": "PENDING", "nextAttemptAt": "2026-11-20T09:30:00Z",
			"createdAt": "2026-11-20T09:30:00Z", "attempts": []any{},
		}
		if got := c.message(first); !reflect.DeepEqual(got, want) {
			t.Errorf("the test: %v\nwant %v", got, want)
		}
		equal(t, c.testErrors(id), "alertChannelId:DELIVERY_IN_PROGRESS", "another test at once")

		// The only attempt fails, although alerts wait in these hours.
		if leased := a.attempt(id, broken); leased == nil || leased.MessageID != first || leased.Manual {
			t.Fatalf("the worker has %+v", leased)
		}
		failed := map[string]any{
			"at": "2026-11-20T09:30:00Z", "manual": false, "durationMs": 7.0, "status": 500.0, "error": "server_error",
			"answer": "sorry",
		}
		want["state"], want["nextAttemptAt"], want["attempts"] = "FAILED", nil, []any{failed}
		if got := c.message(first); !reflect.DeepEqual(got, want) {
			t.Errorf("after the attempt: %v\nwant %v", got, want)
		}

		// A manual attempt delivers it.
		equal(t, c.again(first)+c.again(first), "alertMessageId:DELIVERY_IN_PROGRESS", "sent again twice")
		if leased := a.attempt(id, delivered); leased == nil || !leased.Manual || leased.MessageID != first {
			t.Errorf("the worker has %+v", leased)
		}
		made := map[string]any{"at": "2026-11-20T09:30:00Z", "manual": true, "durationMs": 7.0, "status": 204.0, "error": nil, "answer": ""}
		want["state"], want["attempts"] = "DELIVERED", []any{failed, made}
		if got := c.message(first); !reflect.DeepEqual(got, want) {
			t.Errorf("after the manual attempt: %v\nwant %v", got, want)
		}

		ids := []string{first}
		for len(ids) < model.MaxTestsPerHour {
			ids = append(ids, c.test(id))
			a.attempt(id, delivered)
		}
		equal(t, c.testErrors(id), "alertChannelId:TOO_MANY_TESTS", "the 21st test")
		equal(t, c.testErrors(c.addChannel(site, "SLACK", "https://chat.example/a", nil)), "", "a test of another channel")

		page := c.query(`query($id: ID!) { node(id: $id) { ... on AlertChannel { messages(first: 3) {
			nodes { id } pageInfo { hasNextPage endCursor } } } } }`, "id", id).ok(t, "")
		next := c.query(`query($id: ID!, $after: String) { node(id: $id) { ... on AlertChannel { messages(after: $after) {
			nodes { id } pageInfo { hasNextPage } } } } }`, "id", id, "after", page.at("node.messages.pageInfo.endCursor")).ok(t, "")
		if page.at("node.messages.nodes.0.id") != ids[19] || page.at("node.messages.nodes.2.id") != ids[17] || page.at("node.messages.nodes.3") != nil ||
			page.at("node.messages.pageInfo.hasNextPage") != true {
			t.Errorf("the first page: %s", page.Body)
		}
		if next.at("node.messages.nodes.0.id") != ids[16] || next.at("node.messages.nodes.16.id") != first ||
			next.at("node.messages.pageInfo.hasNextPage") != false {
			t.Errorf("the next page: %s", next.Body)
		}

		a.clock.Add(time.Hour)
		equal(t, c.testErrors(id), "", "an hour later")
	})
}

// TestAlertMessageAgain sends an alert again while its scheduled attempts fail: manual attempts do
// not count towards these five, and there are at most 20.
func TestAlertMessageAgain(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")
		id := c.addChannel("", "DISCORD", "https://chat.example/a", map[string]any{"quietHours": map[string]any{"from": 540, "to": 600, "timeZone": "UTC"}})

		// The alert waits for the end of the quiet hours, and a manual attempt does not.
		a.alert(model.AlertQuota, c.account(), site)
		read := c.query(`query($id: ID!) { node(id: $id) { ... on AlertChannel { messages(last: 1) { nodes `+messageFields+` } } } }`, "id", id).ok(t, "")
		message := read.at("node.messages.nodes.0.id").(string)
		if got := c.message(message); got["event"] != "quota" || got["phase"] != "begun" || got["title"] != "example.com" ||
			got["nextAttemptAt"] != "2026-11-20T10:00:00Z" || a.attempt(id, broken) != nil {
			t.Errorf("in quiet hours: %v", got)
		}
		for range model.MaxRedeliveries / 2 {
			equal(t, c.again(message), "", "sent again")
			if leased := a.attempt(id, broken); leased == nil || !leased.Manual {
				t.Fatalf("the worker has %+v", leased)
			}
			equal(t, c.message(message)["state"], "PENDING", "after a manual attempt")
		}

		scheduled := 0
		for c.message(message)["state"] == "PENDING" && scheduled < 10 {
			a.clock.Add(24*time.Hour + 2*time.Hour) // beyond each pause, after the quiet hours
			if leased := a.attempt(id, broken); leased != nil && !leased.Manual {
				scheduled++
			}
		}
		if got := c.message(message); scheduled != 5 || got["state"] != "FAILED" || len(got["attempts"].([]any)) != model.ShownAttempts {
			t.Errorf("%d scheduled attempts, %v", scheduled, got)
		}

		for range model.MaxRedeliveries / 2 {
			equal(t, c.again(message), "", "sent again")
			a.attempt(id, broken)
		}
		if got := c.again(message); got != "alertMessageId:TOO_MANY_REDELIVERIES" || c.message(message)["state"] != "FAILED" {
			t.Errorf("the 21st time: %s", got)
		}
	})
}

// TestStoppedChannel: a receiver that was removed stops its channel and the messages that are due.
// A delivered test or a new URL resumes it; another URL ends due messages too.
func TestStoppedChannel(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site, account := c.siteOf("example.com"), c.account()
		id := c.addChannel("", "SLACK", "https://chat.example/a", nil)
		state := func(when, want string) {
			t.Helper()
			if got := c.channel(id); fmt.Sprint(got["state"], " ", got["stopReason"]) != want {
				t.Errorf("%s: %v %v, want %s", when, got["state"], got["stopReason"], want)
			}
		}
		removed := outbox.AttemptResult{Status: 404, Error: model.AttemptClientError}

		a.alert(model.AlertQuota, account, site)
		a.alert(model.AlertQuota, account, site)
		a.attempt(id, removed)
		state("after 404", "STOPPED gone")
		a.alert(model.AlertQuota, account, site)
		equal(t, fmt.Sprint(c.messages(id)), "[quota begun FAILED quota begun FAILED]", "the messages")

		c.test(id)
		a.attempt(id, broken)
		state("after a failed test", "STOPPED gone")
		c.test(id)
		a.attempt(id, delivered)
		state("after a delivered test", "ACTIVE <nil>")

		c.test(id)
		a.attempt(id, removed)
		equal(t, c.changeChannel(id, map[string]any{"name": "other"}), "", "another name")
		state("with another name", "STOPPED gone")
		equal(t, c.changeChannel(id, map[string]any{"address": "https://chat.example/b"}), "", "another URL")
		state("with another URL", "ACTIVE <nil>")

		a.alert(model.AlertQuota, account, site)
		c.changeChannel(id, map[string]any{"address": "https://chat.example/c"})
		if leased := a.attempt(id, delivered); leased != nil {
			t.Errorf("another receiver gets %+v", leased)
		}
		equal(t, c.messages(id)[0], "quota begun FAILED", "with another URL")
	})
}

// TestChannelsThatWait: the messages of a suspended account, and of a deleted site, wait. The
// channels of the site are unknown until it is restored.
func TestChannelsThatWait(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		operator, c := a.owner("operator@example.com"), a.owner("owner@example.com")
		site, account := c.siteOf("example.com"), c.account()
		ofSite, ofAccount := c.addChannel(site, "SLACK", "https://chat.example/a", nil), c.addChannel("", "SLACK", "https://chat.example/b", nil)
		mailed := c.addChannel("", "EMAIL", "duty@example.org", nil)
		c.onChannel("confirmAlertChannel", map[string]any{"token": a.mailedSecret("duty@example.org")}).ok(t, "confirmAlertChannel")
		message := c.test(ofSite)
		c.test(ofAccount)
		c.test(mailed)

		operator.done("suspendAccount", "accountId", account, "reason", "abuse")
		a.mailAlerts()
		if a.attempt(ofSite, delivered) != nil || a.attempt(ofAccount, delivered) != nil || a.mailsTo("duty@example.org") != "alert_confirm" {
			t.Error("a suspended account sends")
		}
		if c.channel(ofSite) == nil || c.channel(ofAccount) == nil || c.message(message) == nil {
			t.Error("the owner of a suspended account cannot read")
		}
		operator.done("resumeAccount", "accountId", account)

		c.query(deleteSiteMutation, "id", site, "confirm", "example.com").ok(t, "deleteSite")
		if a.attempt(ofSite, delivered) != nil || c.channel(ofSite) != nil || c.message(message) != nil {
			t.Error("a deleted site sends, or its channel is found")
		}
		errors := c.changeChannel(ofSite, map[string]any{"name": "x"}) + " " + c.testErrors(ofSite) + " " + c.again(message) + " " +
			c.onChannel("deleteAlertChannel", map[string]any{"alertChannelId": ofSite}).userErrors("deleteAlertChannel")
		if errors != "alertChannelId:NOT_FOUND alertChannelId:NOT_FOUND alertMessageId:NOT_FOUND alertChannelId:NOT_FOUND" {
			t.Errorf("of a deleted site: %s", errors)
		}
		a.mailAlerts()
		if a.attempt(ofAccount, delivered) == nil || a.mailsTo("duty@example.org") != "alert_confirm alert" {
			t.Error("a channel of the account waits for the site")
		}

		c.done("restoreSite", "siteId", site)
		if c.channel(ofSite) == nil || a.attempt(ofSite, delivered) == nil || c.message(message)["state"] != "DELIVERED" {
			t.Errorf("of a restored site: %v", c.message(message))
		}
	})
}

// TestChannelNets: URLs in a network that the operator allows are accepted, and others are not.
func TestChannelNets(t *testing.T) {
	eachAppWith(t, func(s *settings) { s.graph.WebhookNets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		id := c.addChannel("", "TEAMS", "https://10.0.0.1:9000/a", nil)
		if got := c.changeChannel(id, map[string]any{"address": "https://127.0.0.1/a"}); got != "address:INVALID_URL" {
			t.Errorf("of another network: %s", got)
		}
	})
}
