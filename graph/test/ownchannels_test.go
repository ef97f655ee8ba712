package graph_test

import (
	"maps"
	"testing"

	"github.com/tallygate/tallygate/db"
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
	body := c.query(`query($id: ID!) { site(id: $id) { ownAlertChannel {
		target language state events weekly monthly spikeAbove dropBelow } } }`, "id", site).ok(c.t, "").Body
	return body[len(prefix) : len(body)-len(`}}}`)]
}

// ownID returns the id of the caller's own channel.
func (c *client) ownID(site string) string {
	c.t.Helper()
	id, _ := c.query(`query($id: ID!) { site(id: $id) { ownAlertChannel { id } } }`, "id", site).ok(c.t, "").
		at("site.ownAlertChannel.id").(string)
	return id
}

// TestOwnChannels checks that each member and guest has an own channel, which only they read and
// change, that a refused change changes nothing, and that a channel that wants nothing is deleted.
func TestOwnChannels(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		site := owner.siteOf("shop.example")
		viewer := a.join(owner, "viewer@example.com", model.RoleViewer)
		guest := a.guest(owner, "guest@example.com", site)

		for want, change := range map[string]map[string]any{
			"spikeAbove:INVALID_THRESHOLD": {"weekly": true, "spikeAbove": 0},
			"dropBelow:INVALID_THRESHOLD":  {"weekly": true, "dropBelow": 1_000_000_001},
			"events:INVALID_ALERT_EVENT":   {"weekly": true, "events": []string{"NEW_SIGN_IN"}},
		} {
			if got := viewer.setOwn(site, change); got != want {
				t.Errorf("%v: %q, want %q", change, got, want)
			}
		}
		if got := viewer.own(site); got != "null" {
			t.Errorf("after refused changes: %s", got)
		}

		events := []string{"DELIVERIES_FAILED", "TRAFFIC_SPIKE", "TRAFFIC_DROP", "NO_HITS", "CALLS_REFUSED", "QUOTA"}
		for name, c := range map[string]*client{"viewer": viewer, "guest": guest} {
			if got := c.setOwn(site, map[string]any{"weekly": true, "spikeAbove": 100, "events": events}); got != "" {
				t.Errorf("the %s: %s", name, got)
			}
			want := `{"target":"` + name + `@example.com","language":"EN","state":"ACTIVE","events":["TRAFFIC_SPIKE","TRAFFIC_DROP",` +
				`"NO_HITS","CALLS_REFUSED","QUOTA","DELIVERIES_FAILED"],"weekly":true,"monthly":false,"spikeAbove":100,"dropBelow":null}`
			if got := c.own(site); got != want {
				t.Errorf("the %s's channel: %s", name, got)
			}
		}

		// Other users do not find it, not even the owner.
		if got := owner.own(site); got != "null" {
			t.Errorf("the owner's channel: %s", got)
		}
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
				if got[i] != field+":NOT_FOUND" {
					t.Errorf("the owner's mutation %d of the %s's channel: %s", i, name, got[i])
				}
			}
		}
		if got := owner.query(`query($id: ID!) { site(id: $id) { alertChannels { id } } }`, "id", site); got.Body != `{"data":{"site":{"alertChannels":[]}}}` {
			t.Errorf("the site's channels: %s", got.Body)
		}

		change := map[string]any{"weekly": false, "monthly": true, "spikeAbove": nil, "dropBelow": 5, "events": []string{}}
		if got := viewer.setOwn(site, change); got != "" {
			t.Error(got)
		}
		want := `{"target":"viewer@example.com","language":"EN","state":"ACTIVE","events":[],"weekly":false,"monthly":true,"spikeAbove":null,"dropBelow":5}`
		if got := viewer.own(site); got != want {
			t.Errorf("changed: %s", got)
		}
		if got := viewer.setOwn(site, map[string]any{"monthly": false, "dropBelow": nil}); got != "" || viewer.own(site) != "null" {
			t.Errorf("a channel that wants nothing: %q, %s", got, viewer.own(site))
		}
		if n, err := dbtest.Count(d, "alert_channels"); err != nil || n != 1 {
			t.Errorf("%d channels, %v; want the guest's", n, err)
		}
	})
}

// TestOwnChannelMails checks that mails go to the user's present address in the present language,
// without a confirmation, that the secret of a mail stops the channel, which only its user resumes,
// and that no mail leaves after the user has left.
func TestOwnChannelMails(t *testing.T) {
	t.Parallel()
	type mail struct{ Recipient, Language, Kind string }
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
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
			rows, err := dbtest.Rows[mail](d, "SELECT recipient, language, kind FROM mails WHERE kind = 'own_alert' AND state = 'pending' ORDER BY id")
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		stop := func() {
			t.Helper()
			a.client().query(`mutation($token: String!) { stopAlertMails(input: {token: $token}) { userErrors { field code } } }`,
				"token", secret).ok(t, "stopAlertMails")
		}

		if err := dbtest.Exec(d, "UPDATE users SET email = 'new@example.com', language = 'de' WHERE email = 'viewer@example.com'"); err != nil {
			t.Fatal(err)
		}
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
		if got := viewer.channel(own)["state"]; got != "STOPPED" {
			t.Errorf("stopped again: %v", got)
		}

		if got := viewer.setOwn(site, map[string]any{}); got != "" || len(mailed()) != 1 {
			t.Errorf("resumed again: %q", got)
		}
		viewer.query(leaveMutation, "id", account)
		if got := mailed(); len(got) != 0 {
			t.Errorf("mails after leaving: %v", got)
		}
		if n, err := dbtest.Count(d, "alert_channels"); err != nil || n != 0 {
			t.Errorf("%d channels after leaving, %v", n, err)
		}
	})
}
