package graph_test

import (
	"maps"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// setOwn sets the caller's own channel of a site, and returns the errors.
func (c *client) setOwn(site string, change map[string]any) string {
	c.t.Helper()
	input := map[string]any{"siteId": site}
	maps.Copy(input, change)
	got := c.query(`mutation($input: SetOwnAlertChannelInput!) { setOwnAlertChannel(input: $input) {
		alertChannel { id } userErrors { field code } } }`, "input", input)
	if got.codes() != "" {
		return got.codes()
	}
	return got.userErrors("setOwnAlertChannel")
}

// own returns the caller's own channel of a site as JSON.
func (c *client) own(site string) string {
	c.t.Helper()
	const prefix = `{"data":{"site":{"ownAlertChannel":`
	body := c.site(site, `ownAlertChannel {
		target language state events weekly monthly spikeAbove dropBelow }`).ok(c.t, "").Body
	return body[len(prefix) : len(body)-len(`}}}`)]
}

// ownID returns the id of the caller's own channel.
func (c *client) ownID(site string) string {
	c.t.Helper()
	id, _ := c.site(site, `ownAlertChannel { id }`).ok(c.t, "").
		at("site.ownAlertChannel.id").(string)
	return id
}

// TestOwnChannels checks that each member and guest has an own channel, which only they read and
// change, that a refused change changes nothing, and that a channel that wants nothing is deleted.
func TestOwnChannels(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		site := owner.siteOf("shop.example")
		viewer := a.join(owner, "viewer@example.com", model.RoleViewer)
		guest := a.guest(owner, "guest@example.com", site)

		for want, change := range map[string]map[string]any{
			"spikeAbove:INVALID_THRESHOLD": {"weekly": true, "spikeAbove": 0},
			"dropBelow:INVALID_THRESHOLD":  {"weekly": true, "dropBelow": 1_000_000_001},
			"events:INVALID_ALERT_EVENT":   {"weekly": true, "events": []string{"NEW_SIGN_IN"}},
		} {
			equal(t, viewer.setOwn(site, change), want, "%v", change)
		}
		equal(t, viewer.own(site), "null", "after refused changes")

		events := []string{"DELIVERIES_FAILED", "TRAFFIC_SPIKE", "TRAFFIC_DROP", "NO_HITS", "CALLS_REFUSED", "QUOTA"}
		for name, c := range map[string]*client{"viewer": viewer, "guest": guest} {
			equal(t, c.setOwn(site, map[string]any{"weekly": true, "spikeAbove": 100, "events": events}), "", "the %s", name)
			want := `{"target":"` + name + `@example.com","language":"EN","state":"ACTIVE","events":["TRAFFIC_SPIKE","TRAFFIC_DROP",` +
				`"NO_HITS","CALLS_REFUSED","QUOTA","DELIVERIES_FAILED"],"weekly":true,"monthly":false,"spikeAbove":100,"dropBelow":null}`
			equal(t, c.own(site), want, "the %s's channel", name)
		}

		// Other users do not find it, not even the owner.
		equal(t, owner.own(site), "null", "the owner's channel")
		for name, c := range map[string]*client{"viewer": viewer, "guest": guest} {
			id := c.ownID(site)
			if c.channel(id) == nil || owner.channel(id) != nil {
				t.Errorf("the %s's channel by its id: %v, and for the owner %v", name, c.channel(id), owner.channel(id))
			}
			got := []string{
				owner.changeChannel(id, map[string]any{"weekly": false}), owner.testErrors(id),
				owner.onChannel("deleteAlertChannel", map[string]any{"alertChannelId": id}).userErrors("deleteAlertChannel"),
			}
			for i, field := range []string{"alertChannelId", "alertChannelId", "alertChannelId"} {
				equal(t, got[i], field+":NOT_FOUND", "the owner's mutation %d of the %s's channel", i, name)
			}
		}
		owner.site(site, `alertChannels { id }`).named("the site's channels").is(t, `{"data":{"site":{"alertChannels":[]}}}`)

		change := map[string]any{"weekly": false, "monthly": true, "spikeAbove": nil, "dropBelow": 5, "events": []string{}}
		if got := viewer.setOwn(site, change); got != "" {
			t.Error(got)
		}
		want := `{"target":"viewer@example.com","language":"EN","state":"ACTIVE","events":[],"weekly":false,"monthly":true,"spikeAbove":null,"dropBelow":5}`
		equal(t, viewer.own(site), want, "changed")
		if got := viewer.setOwn(site, map[string]any{"monthly": false, "dropBelow": nil}); got != "" || viewer.own(site) != "null" {
			t.Errorf("a channel that wants nothing: %q, %s", got, viewer.own(site))
		}
		equal(t, value(dbtest.Count(a.db, "alert_channels"))(t), 1, "rows of alert_channels")
	})
}

// TestOwnChannelMails checks that mails go to the user's present address in the present language,
// without a confirmation, that the secret of a mail stops the channel, which only its user resumes,
// and that no mail leaves after the user has left.
func TestOwnChannelMails(t *testing.T) {
	type mail struct{ Recipient, Language, Kind string }
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		site, account := owner.siteOf("shop.example"), owner.account()
		viewer := a.join(owner, "viewer@example.com", model.RoleViewer)
		if got := viewer.setOwn(site, map[string]any{"events": []string{"QUOTA"}}); got != "" {
			t.Fatal(got)
		}
		own := viewer.ownID(site)
		number, _ := a.ids.Parse(nodeid.AlertChannel, own)
		secret := a.ids.OfChannelStop(number, model.At(a.clock.Now()))

		mailed := func() []mail {
			t.Helper()
			a.alert(model.AlertQuota, account, site)
			a.mailAlerts()
			rows := value(dbtest.Rows[mail](a.db, "SELECT recipient, language, kind FROM mails WHERE kind = 'own_alert' AND state = 'pending' ORDER BY id"))(t)
			return rows
		}
		stop := func() {
			t.Helper()
			a.client().done("stopAlertMails", "token", secret)
		}

		must(t, dbtest.Exec(a.db, "UPDATE users SET email = 'new@example.com', language = 'de' WHERE email = 'viewer@example.com'"))
		if got := mailed(); len(got) != 1 || got[0] != (mail{"new@example.com", "de", "own_alert"}) {
			t.Fatalf("mails %v", got)
		}

		for range 2 {
			stop()
			if got := mailed(); len(got) != 0 || viewer.channel(own)["state"] != "STOPPED" {
				t.Errorf("after the stop: mails %v, %v", got, viewer.channel(own))
			}
		}

		// The secret of earlier mails stops the resumed channel as well.
		if got := viewer.setOwn(site, map[string]any{"monthly": true}); got != "" || viewer.ownID(site) != own || len(mailed()) != 1 {
			t.Errorf("resumed: %q, %v", got, viewer.channel(own))
		}
		stop()
		equal(t, viewer.channel(own)["state"], "STOPPED", "stopped again")

		if got := viewer.setOwn(site, map[string]any{}); got != "" || len(mailed()) != 1 {
			t.Errorf("resumed again: %q", got)
		}
		viewer.query(leaveMutation, "id", account)
		if got := mailed(); len(got) != 0 {
			t.Errorf("mails after leaving: %v", got)
		}
		equal(t, value(dbtest.Count(a.db, "alert_channels"))(t), 0, "rows of alert_channels")
	})
}
