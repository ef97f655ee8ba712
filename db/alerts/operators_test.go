package alerts_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/world"
)

// TestOperatorsState checks which channels are counted, and that a message that waits does not hide
// a failed one.
func TestOperatorsState(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		// The first user of an installation is an operator.
		site, member := world.New(t, d).Site("shop.example"), world.New(t, d).User("member@example.com")
		operator := model.User{Email: "op@example.com", Operator: true, Language: model.English, CreatedAt: 1}
		if _, err := d.Write.NewInsert().Model(&operator).Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		add := func(change func(*model.AlertChannel), states ...string) {
			t.Helper()
			channel := model.AlertChannel{
				AccountID: site.AccountID, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
				Events: []model.AlertEvent{model.AlertJobsFailed}, ConfirmedAt: 1, CreatedAt: 1, OperatorID: operator.ID,
			}
			change(&channel)
			if _, err := d.Write.NewInsert().Model(&channel).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, state := range states {
				message := model.AlertMessage{ChannelID: channel.ID, Event: model.MessageTest, Phase: model.AlertOnce, State: state, CreatedAt: 1}
				if _, err := d.Write.NewInsert().Model(&message).Exec(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		const failed, delivered, pending = model.DeliveryFailed, model.DeliveryDelivered, model.DeliveryPending
		same := func(*model.AlertChannel) {}

		add(same)
		add(same, failed, delivered)
		add(same, delivered, failed, pending)
		add(func(c *model.AlertChannel) { c.Events = []model.AlertEvent{model.AlertCertificateFailed} }, failed)
		add(func(c *model.AlertChannel) { c.StoppedAt = 1 }, failed)

		// Channels that get nothing about the installation.
		add(func(c *model.AlertChannel) { c.ConfirmedAt = 0 }, failed)
		add(func(c *model.AlertChannel) { c.OperatorID = member.ID }, failed)
		add(func(c *model.AlertChannel) { c.OperatorID, c.CreatedBy = 0, operator.ID }, failed)
		add(func(c *model.AlertChannel) { c.SiteID = site.ID }, failed)
		add(func(c *model.AlertChannel) { c.Events = []model.AlertEvent{model.AlertQuota} }, failed)

		want := alerts.OperatorsState{Channels: 5, Stopped: 1, Failing: 2}
		if state, err := alerts.NewChannels(d).OperatorsState(t.Context()); err != nil || state != want {
			t.Errorf("%+v, %v; want %+v", state, err, want)
		}
	})
}
