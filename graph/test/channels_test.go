package graph_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/testkit"
)

const (
	channelFields = `{ id site { id } kind name target signed language events weekly monthly quietHours { from to timeZone }
		state stopReason createdAt }`
	messageFields = `{ id event phase title state nextAttemptAt createdAt attempts { at manual durationMs status error answer } }`
)

// onChannel runs a mutation of alert channels.
func (c *client) onChannel(mutation string, input map[string]any) *answer {
	c.t.Helper()
	field := schema.Mutation.Fields.ForName(mutation)
	selected := map[string]string{
		"AlertChannelPayload": "alertChannel " + channelFields, "AlertMessagePayload": "alertMessage " + messageFields,
	}[field.Type.Name()]
	return c.query(fmt.Sprintf("mutation($input: %s) { %s(input: $input) { %s userErrors { field code } } }",
		field.Arguments.ForName("input").Type, mutation, selected), "input", input)
}

// addChannel creates a channel of the caller's default account or, if site is not empty, of the
// site, and returns its id. change has more fields of the input.
func (c *client) addChannel(site, kind, address string, change map[string]any) string {
	c.t.Helper()
	mutation, input := "createAlertChannel", map[string]any{"kind": kind, "name": kind, "address": address, "events": []string{"QUOTA"}}
	if site != "" {
		mutation, input["siteId"] = "createSiteAlertChannel", site
	}
	maps.Copy(input, change)
	return c.onChannel(mutation, input).ok(c.t, mutation).at(mutation + ".alertChannel.id").(string)
}

// changeChannel changes a channel, and returns its errors.
func (c *client) changeChannel(id string, change map[string]any) string {
	c.t.Helper()
	input := map[string]any{"alertChannelId": id}
	maps.Copy(input, change)
	got := c.onChannel("updateAlertChannel", input)
	if got.codes() != "" {
		return got.codes()
	}
	return got.userErrors("updateAlertChannel")
}

// channel reads a channel, or returns nil.
func (c *client) channel(id string) map[string]any {
	c.t.Helper()
	read, _ := c.query(`query($id: ID!) { node(id: $id) { ... on AlertChannel `+channelFields+` } }`, "id", id).ok(c.t, "").
		at("node").(map[string]any)
	return read
}

// message reads a message of a channel, or returns nil.
func (c *client) message(id string) map[string]any {
	c.t.Helper()
	read, _ := c.query(`query($id: ID!) { node(id: $id) { ... on AlertMessage `+messageFields+` } }`, "id", id).ok(c.t, "").
		at("node").(map[string]any)
	return read
}

// messages reads the newest messages of a channel, each as its event, phase and state.
func (c *client) messages(id string) (list []string) {
	c.t.Helper()
	got := c.query(`query($id: ID!) { node(id: $id) { ... on AlertChannel { messages(first: 50) { nodes { event phase state } } } } }`,
		"id", id).ok(c.t, "")
	for _, node := range got.at("node.messages.nodes").([]any) {
		m := node.(map[string]any)
		list = append(list, fmt.Sprint(m["event"], " ", m["phase"], " ", m["state"]))
	}
	return list
}

// test requests a test of a channel, and returns the message's id.
func (c *client) test(id string) string {
	c.t.Helper()
	got := c.onChannel("sendTestAlert", map[string]any{"alertChannelId": id}).ok(c.t, "sendTestAlert")
	return got.at("sendTestAlert.alertMessage.id").(string)
}

// testErrors requests a test of a channel that must be refused, and returns its errors.
func (c *client) testErrors(id string) string {
	c.t.Helper()
	return c.onChannel("sendTestAlert", map[string]any{"alertChannelId": id}).userErrors("sendTestAlert")
}

// again requests a manual attempt of a message, and returns its errors.
func (c *client) again(message string) string {
	c.t.Helper()
	return c.onChannel("redeliverAlertMessage", map[string]any{"alertMessageId": message}).userErrors("redeliverAlertMessage")
}

// attempt makes the due attempt of a message to a channel, as a worker does. It returns nil if none
// is due.
func (a *app) attempt(channel string, result outbox.AttemptResult) *outbox.Leased {
	a.t.Helper()
	number, _ := a.ids.Parse(nodeid.AlertChannel, channel)
	store, now := outbox.New(a.db), model.At(a.clock.Now())
	due, err := store.DueChannels(a.t.Context(), now, 100)
	testkit.NoError(a.t, err)
	if !slices.ContainsFunc(due, func(c outbox.DueDelivery) bool { return c.ChannelID == number }) {
		return nil
	}

	leased, err := store.LeaseDelivery(a.t.Context(), model.Lane{ChannelID: number}, nil, now, time.Minute)
	if err == nil && leased != nil {
		err = store.FinishAttempt(a.t.Context(), leased, result, now)
	}
	testkit.NoError(a.t, err)
	return leased
}

// mailAlerts queues the mails of due messages, as a worker does.
func (a *app) mailAlerts() {
	a.t.Helper()
	if _, err := outbox.New(a.db).MailMessages(a.t.Context(), model.At(a.clock.Now())); err != nil {
		a.t.Fatal(err)
	}
}

// alert begins an alert, as a worker does: about the site, or about the installation without one.
func (a *app) alert(event model.AlertEvent, account, site string) {
	a.t.Helper()
	a.clock.Add(time.Second)
	now := model.At(a.clock.Now())
	accountID, _ := nodeid.Parse[model.AccountID](a.ids, account)
	siteID, _ := nodeid.Parse[model.SiteID](a.ids, site)
	err := a.db.InTx(a.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		alert := model.Alert{AccountID: accountID, SiteID: siteID, Event: event, Subject: fmt.Sprint(now), BeganAt: now, SeenAt: now}
		if _, err := tx.NewInsert().Model(&alert).Exec(ctx); err != nil {
			return err
		}
		return outbox.New(a.db).QueueAlert(ctx, tx, &alert, model.AlertBegun, now)
	})
	testkit.NoError(a.t, err)
}

// stores reports whether a secret is in the database, as a text or as bytes.
func stores(dump, secret string) bool {
	return strings.Contains(dump, secret) || strings.Contains(dump, strings.Trim(fmt.Sprint([]byte(secret)), "[]"))
}

var (
	delivered = outbox.AttemptResult{Duration: 7 * time.Millisecond, Status: 204}
	broken    = outbox.AttemptResult{Duration: 7 * time.Millisecond, Status: 500, Error: model.AttemptServerError, Answer: "sorry"}
)

// TestChannelsAreReadBack creates channels of every kind, of an account and of a site, and reads
// them over each path. URLs and signing secrets reach the worker, and no reader, audit log or
// table.
func TestChannelsAreReadBack(t *testing.T) {
	kinds := []struct{ kind, address, target, secret string }{
		{"EMAIL", " Ops@Example.org ", "ops@example.org", ""},
		{"SLACK", "https://hooks.slack.com/services/T0/B0/confidential-slack", "hooks.slack.com/…lack", ""},
		{"SLACK", "https://chat.example/confidential-other", "chat.example/…ther", ""}, // with the same form
		{"DISCORD", "https://discord.com/api/webhooks/1/confidential-discord", "discord.com/…cord", ""},
		{"TEAMS", "https://prod-1.logic.azure.com/workflows/1?sig=confidential-teams", "prod-1.logic.azure.com/…eams", ""},
		{"WEBHOOK", "https://hook.example:8443/confidential-webhook", "hook.example:8443/…hook", "confidential signing secret"},
		{"WEBHOOK", "https://hook.example/confiden", "hook.example", ""}, // too short for a hint
	}

	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")

		answers := ""
		for _, of := range []string{"", site} {
			list := []any{}
			for _, k := range kinds {
				change := map[string]any{
					"name": " on duty ", "language": "DE", "events": []string{"NEW_SIGN_IN", "QUOTA", "CAPTCHA_ATTACK", "QUOTA"},
					"quietHours": map[string]any{"from": 1320, "to": 420, "timeZone": "Europe/Berlin"},
				}
				want := map[string]any{
					"site": nil, "kind": k.kind, "name": "on duty", "target": k.target, "signed": k.secret != "", "language": "DE",
					"events": []any{"QUOTA", "CAPTCHA_ATTACK", "NEW_SIGN_IN"}, "weekly": false, "monthly": false,
					"quietHours": map[string]any{"from": 1320.0, "to": 420.0, "timeZone": "Europe/Berlin"},
					"state":      "ACTIVE", "stopReason": nil, "createdAt": "2026-11-20T09:30:00Z",
				}
				if of != "" {
					change["events"], want["events"] = []string{"QUOTA", "TRAFFIC_DROP"}, []any{"TRAFFIC_DROP", "QUOTA"}
					change["monthly"], want["monthly"], want["site"] = true, true, map[string]any{"id": site}
				}
				if k.secret != "" {
					change["secret"] = k.secret
				}
				if k.kind == "EMAIL" {
					want["state"] = "UNCONFIRMED"
				}

				mutation, input := "createAlertChannel", map[string]any{"kind": k.kind, "address": k.address}
				if of != "" {
					mutation, input["siteId"] = "createSiteAlertChannel", of
				}
				maps.Copy(input, change)
				created := c.onChannel(mutation, input).ok(t, mutation)
				id := created.at(mutation + ".alertChannel.id").(string)
				want["id"] = id
				if got := created.at(mutation + ".alertChannel"); !reflect.DeepEqual(got, want) {
					t.Errorf("created: %v\nwant %v", got, want)
				}
				if got := c.channel(id); !reflect.DeepEqual(got, want) {
					t.Errorf("read: %v\nwant %v", got, want)
				}
				answers += created.Body
				list = append(list, want)

				if k.kind == "EMAIL" {
					continue
				}
				c.test(id)
				if leased := a.attempt(id, delivered); leased == nil || leased.URL != k.address || leased.Secret != k.secret {
					t.Errorf("%s: the worker has %+v", k.address, leased)
				}
			}

			query, path := `{ account { alertChannels `+channelFields+` } }`, "account.alertChannels"
			if of != "" {
				query, path = `{ site(id: "`+of+`") { alertChannels `+channelFields+` } }`, "site.alertChannels"
			}
			read := c.query(query).ok(t, "")
			if got := read.at(path); !reflect.DeepEqual(got, list) {
				t.Errorf("%s: %v\nwant %v", path, got, list)
			}
			answers += read.Body
		}

		log := c.query(`{ account { auditLog(first: 50) { nodes { action changes { name before after } } } } }`).ok(t, "").Body
		if !strings.Contains(log, "hooks.slack.com/…lack") {
			t.Errorf("the audit log names no channel: %s", log)
		}
		dump := a.dump()
		if !stores(dump, "hooks.slack.com/…lack") {
			t.Error("the hint is not stored")
		}
		if strings.Contains(answers+log, "confiden") || stores(dump, "confiden") {
			t.Error("a URL or a secret is shown or stored as it is")
		}

		// A channel with the required fields only.
		got := c.channel(c.addChannel(site, "DISCORD", "https://chat.example/a", map[string]any{"events": []string{"QUOTA"}}))
		if got["language"] != "EN" || got["quietHours"] != nil || got["weekly"] != false || got["monthly"] != false {
			t.Errorf("the defaults: %v", got)
		}
	})
}

// TestChannelUpdates changes each setting alone, and several at once: the others stay.
func TestChannelUpdates(t *testing.T) {
	night := map[string]any{"from": 1320, "to": 420, "timeZone": "Europe/Berlin"}
	steps := []struct{ change, want map[string]any }{
		{map[string]any{}, map[string]any{}},
		{map[string]any{"name": " night "}, map[string]any{"name": "night"}},
		{map[string]any{"language": "DE"}, map[string]any{"language": "DE"}},
		{map[string]any{"events": []string{"QUOTA", "NO_HITS", "QUOTA"}}, map[string]any{"events": []any{"NO_HITS", "QUOTA"}}},
		{map[string]any{"weekly": true}, map[string]any{"weekly": true}},
		{map[string]any{"monthly": true}, map[string]any{"monthly": true}},
		{map[string]any{"weekly": false}, map[string]any{"weekly": false}},
		{map[string]any{"quietHours": night}, map[string]any{"quietHours": map[string]any{"from": 1320.0, "to": 420.0, "timeZone": "Europe/Berlin"}}},
		{map[string]any{"secret": "the second signing secret"}, map[string]any{"signed": true}},
		{map[string]any{"secret": nil, "quietHours": nil}, map[string]any{"signed": false, "quietHours": nil}},
		{map[string]any{"secret": "the third signing secret"}, map[string]any{"signed": true}},
		{map[string]any{"address": "https://other.example/0123456789abcdef"}, map[string]any{"target": "other.example/…cdef"}},
		{map[string]any{"name": "all", "events": []string{}, "address": "https://hook.example/b"},
			map[string]any{"name": "all", "events": []any{}, "target": "hook.example"}},
	}

	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.addChannel(c.siteOf("example.com"), "WEBHOOK", "https://hook.example/a", map[string]any{"secret": "the first signing secret"})
		want := c.channel(id)
		for _, step := range steps {
			maps.Copy(want, step.want)
			equal(t, c.changeChannel(id, step.change), "", "%v", step.change)
			if got := c.channel(id); !reflect.DeepEqual(got, want) {
				t.Errorf("%v: %v\nwant %v", step.change, got, want)
			}
		}

		c.test(id)
		if leased := a.attempt(id, delivered); leased == nil || leased.URL != "https://hook.example/b" || leased.Secret != "the third signing secret" {
			t.Errorf("the worker has %+v", leased)
		}
	})
}

// TestDeletedChannel deletes a channel with its messages.
func TestDeletedChannel(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		deleted, kept := c.addChannel("", "SLACK", "https://chat.example/a", nil), c.addChannel("", "SLACK", "https://chat.example/b", nil)
		message, other := c.test(deleted), c.test(kept)

		was, input := c.channel(deleted), map[string]any{"alertChannelId": deleted}
		if got := c.onChannel("deleteAlertChannel", input).ok(t,
			"deleteAlertChannel").at("deleteAlertChannel.alertChannel"); !reflect.DeepEqual(got, any(was)) {
			t.Errorf("deleted: %v, was %v", got, was)
		}
		if c.channel(deleted) != nil || c.message(message) != nil || a.attempt(deleted, delivered) != nil {
			t.Error("the channel or its message can be found")
		}
		if c.channel(kept) == nil || c.message(other) == nil || a.attempt(kept, delivered) == nil {
			t.Error("the other channel or its message cannot be found")
		}
		c.onChannel("deleteAlertChannel", input).named("deleted again").fails(t, "deleteAlertChannel", "alertChannelId:NOT_FOUND")
		if got := c.changeChannel(deleted, map[string]any{"name": "x"}) + " " + c.testErrors(deleted) + " " + c.again(message); got !=
			"alertChannelId:NOT_FOUND alertChannelId:NOT_FOUND alertMessageId:NOT_FOUND" {
			t.Errorf("after the deletion: %s", got)
		}
	})
}
