package graph_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestChannelRecipient follows an e-mail channel: its recipient gets one mail and no alert before
// the link in it is used, which works once. The link of an alert stops the channel for good.
func TestChannelRecipient(t *testing.T) {
	const address = "duty@example.org"
	type mail struct{ Recipient, Language, Kind, Data string }

	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site, account := c.siteOf("shop.example"), c.account()
		mails := func() []mail {
			t.Helper()
			rows := value(dbtest.Rows[mail](a.db, "SELECT recipient, language, kind, data FROM mails WHERE recipient = ? ORDER BY id", address))(t)
			return rows
		}
		confirm := func(token string) string {
			t.Helper()
			return a.client().onChannel("confirmAlertChannel", map[string]any{"token": token}).userErrors("confirmAlertChannel")
		}

		id := c.addChannel(site, "EMAIL", "Duty@Example.org", map[string]any{"language": "DE"})
		sent := mails()
		if len(sent) != 1 || sent[0].Kind != "alert_confirm" || sent[0].Language != "de" ||
			!strings.Contains(sent[0].Data, "owner@example.com") || !strings.Contains(sent[0].Data, "shop.example") {
			t.Fatalf("mails: %v", sent)
		}
		token := a.mailedSecret(address)
		if !model.IsSecret(model.AlertTokenPrefix, token) {
			t.Errorf("the link has %q", token)
		}

		// Nothing else is sent before the confirmation.
		a.alert(model.AlertQuota, account, site)
		a.mailAlerts()
		if got := c.testErrors(id); got != "alertChannelId:CHANNEL_UNCONFIRMED" || len(mails()) != 1 || c.messages(id) != nil {
			t.Errorf("before the confirmation: test %s, mails %v, messages %v", got, mails(), c.messages(id))
		}
		for _, wrong := range []string{"", "x", token + "x", token[:len(token)-1], model.NewSecret(model.AlertTokenPrefix), id} {
			if got := confirm(wrong); got != "token:INVALID_TOKEN" || c.channel(id)["state"] != "UNCONFIRMED" {
				t.Errorf("the token %q: %s", wrong, got)
			}
		}

		if got := confirm(token); got != "" || c.channel(id)["state"] != "ACTIVE" {
			t.Fatalf("the token: %q, %v", got, c.channel(id))
		}
		equal(t, confirm(token), "token:INVALID_TOKEN", "the token again")

		a.alert(model.AlertQuota, account, site)
		a.mailAlerts()
		sent = mails()
		if len(sent) != 2 || sent[1].Kind != "alert" || sent[1].Language != sent[0].Language {
			t.Fatalf("mails after the confirmation: %v", sent)
		}
		equal(t, fmt.Sprint(c.messages(id)), "[quota begun PENDING]", "while the mail waits")

		// The mail's own values make its link, see package mail.
		var about outbox.AlertMail
		must(t, json.Unmarshal([]byte(sent[1].Data), &about))
		for range 2 {
			a.client().done("stopAlertMails", "token", a.ids.OfChannelStop(about.ChannelID, about.ConfirmedAt))
		}
		if got := c.channel(id); got["state"] != "STOPPED" || got["stopReason"] != "recipient" {
			t.Errorf("after the link was used: %v", got)
		}
		if got := fmt.Sprint(c.messages(id)); got != "[quota begun FAILED]" || len(mails()) != 1 {
			t.Errorf("after the link was used: messages %s, mails %v", got, mails())
		}

		// The members cannot resume it.
		a.alert(model.AlertQuota, account, site)
		a.mailAlerts()
		message := c.query(`query($id: ID!) { node(id: $id) { ... on AlertChannel { messages(first: 1) { nodes { id } } } } }`, "id", id).
			ok(t, "").at("node.messages.nodes.0.id").(string)
		got := []string{
			c.testErrors(id), c.again(message), c.changeChannel(id, map[string]any{"address": address}),
			c.changeChannel(id, map[string]any{"name": "x"}),
		}
		if want := []string{
			"alertChannelId:CHANNEL_STOPPED", "alertMessageId:CHANNEL_STOPPED", "address:INVALID_EMAIL", "",
		}; !slices.Equal(got, want) {
			t.Errorf("a stopped channel: %v, want %v", got, want)
		}
		if got := c.channel(id)["state"]; got != "STOPPED" || len(mails()) != 1 || len(c.messages(id)) != 1 {
			t.Errorf("a stopped channel: %v, mails %v", got, mails())
		}

		// Another channel of the address needs another confirmation.
		other := c.addChannel(site, "EMAIL", address, nil)
		if got := confirm(token); got != "token:INVALID_TOKEN" || c.channel(other)["state"] != "UNCONFIRMED" || len(mails()) != 2 {
			t.Errorf("another channel with the first token: %s, %v, mails %v", got, c.channel(other), mails())
		}
		if got := confirm(a.mailedSecret(address)); got != "" || c.channel(other)["state"] != "ACTIVE" || c.channel(id)["state"] != "STOPPED" {
			t.Errorf("another confirmation: %s, %v, %v", got, c.channel(other), c.channel(id))
		}
	})
}

// TestChannelLinks: a link that confirms ends after 7 days, or with its channel; the unsent mails
// of other channels stay. An address gets three links in 24 hours, of all accounts.
func TestChannelLinks(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c, second := a.owner("owner@example.com"), a.owner("second@example.com")
		confirm := func(token string) string {
			t.Helper()
			return a.client().onChannel("confirmAlertChannel", map[string]any{"token": token}).userErrors("confirmAlertChannel")
		}

		kept := c.addChannel("", "EMAIL", "duty@example.org", nil)
		keptToken := a.mailedSecret("duty@example.org")
		deleted := c.addChannel("", "EMAIL", "duty@example.org", nil)
		token := a.mailedSecret("duty@example.org")
		c.onChannel("deleteAlertChannel", map[string]any{"alertChannelId": deleted}).ok(t, "deleteAlertChannel")
		if got := a.mailedSecret("duty@example.org"); got != keptToken || a.mailsTo("duty@example.org") != "alert_confirm" {
			t.Errorf("after the deletion of one channel: %s", a.mailsTo("duty@example.org"))
		}
		equal(t, confirm(token), "token:INVALID_TOKEN", "the link of a deleted channel")

		second.addChannel("", "EMAIL", "duty@example.org", nil)
		second.addChannel("", "EMAIL", "duty@example.org", nil)
		before := a.dump()
		for _, client := range []*client{c, second} {
			input := map[string]any{"kind": "EMAIL", "name": "ops", "address": "duty@example.org", "events": []string{"QUOTA"}}
			client.onChannel("createAlertChannel", input).named("the fourth link").code(t, "RATE_LIMITED")
		}
		equal(t, a.dump(), before, "the refused channels changed something")
		c.addChannel("", "EMAIL", "another@example.org", nil)
		last := a.mailedSecret("another@example.org")

		a.clock.Add(24 * time.Hour)
		second.addChannel("", "EMAIL", "duty@example.org", nil)

		a.clock.Add(6*24*time.Hour - time.Millisecond)
		if got := confirm(keptToken); got != "" || c.channel(kept)["state"] != "ACTIVE" {
			t.Errorf("before the end of 7 days: %s, %v", got, c.channel(kept))
		}
		a.clock.Add(time.Millisecond)
		equal(t, confirm(last), "token:INVALID_TOKEN", "after 7 days")
	})
}

// TestMailedTest: a test of an e-mail channel lasts until its mail is sent, and has the state of
// the mail.
func TestMailedTest(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.addChannel("", "EMAIL", "duty@example.org", nil)
		a.client().onChannel("confirmAlertChannel", map[string]any{"token": a.mailedSecret("duty@example.org")}).ok(t, "confirmAlertChannel")

		message := c.test(id)
		equal(t, c.testErrors(id), "alertChannelId:DELIVERY_IN_PROGRESS", "another test before the mail is queued")
		a.mailAlerts()
		got := c.testErrors(id) + " " + c.again(message)
		if state := c.message(message)["state"]; got != "alertChannelId:DELIVERY_IN_PROGRESS alertMessageId:DELIVERY_IN_PROGRESS" || state != "PENDING" {
			t.Errorf("while the mail waits: %s, %v", got, state)
		}

		for mail, want := range map[string]string{"sent": "DELIVERED", "failed": "FAILED", "skipped": "FAILED"} {
			must(t, dbtest.Exec(a.db, "UPDATE mails SET state = ? WHERE kind = 'alert'", mail))
			if got := c.message(message)["state"]; got != want {
				t.Errorf("the mail is %s: %v, want %s", mail, got, want)
			}
		}
		equal(t, c.testErrors(id), "", "another test")
	})
}
