package keys_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestRotationResealsChannels checks that the new key alone opens the addresses and secrets of
// alert channels, that a damaged address does not keep others from it, and that a value belongs to
// its channel and its use.
func TestRotationResealsChannels(t *testing.T) {
	t.Parallel()

	now := model.At(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		a := firstHolder(t, databaseURL)

		owner := world.New(t, a).User("owner@example.com")
		address, secret, other := "https://hook.example/one", "the secret of a channel", "https://hook.example/two"
		create := func(kind model.AlertChannelKind, secrets alerts.Secrets) int64 {
			t.Helper()
			channel, err := alerts.NewChannels(a).Create(t.Context(), model.AlertChannel{
				AccountID: owner.AccountID, Kind: kind, Name: "ops", Language: model.English, Events: []model.AlertEvent{},
			}, secrets, nil, now)
			testkit.NoError(t, err)
			return channel.ID
		}
		damaged := create(model.ChannelSlack, alerts.Secrets{Address: &other})
		signed := create(model.ChannelWebhook, alerts.Secrets{Address: &address, Signing: &secret})
		unsigned := create(model.ChannelTeams, alerts.Secrets{Address: &other})
		testkit.NoError(t, dbtest.Exec(a, "UPDATE alert_channels SET address = ? WHERE id = ?", []byte("damaged"), damaged))

		for range 2 {
			if _, err := keys.New(keyHolder(t, databaseURL, "b", "a")).RotateApplicationKey(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}

		b := keyHolder(t, databaseURL, "b")
		sealed := func(id int64) *model.AlertChannel {
			t.Helper()
			channel, err := alerts.NewChannels(b).Channel(t.Context(), owner.AccountID, id)
			testkit.NoError(t, err)
			return channel
		}
		for _, test := range []struct {
			secret func(channelID int64) keys.Secret
			id     int64
			sealed []byte
			want   string
		}{
			{keys.ChannelAddress, signed, sealed(signed).Address, address},
			{keys.ChannelSecret, signed, sealed(signed).Secret, secret},
			{keys.ChannelAddress, unsigned, sealed(unsigned).Address, other},
			{keys.ChannelSecret, unsigned, sealed(unsigned).Secret, ""},
		} {
			if got, err := keys.New(b).Open(test.secret(test.id), test.sealed); err != nil || got != test.want {
				t.Errorf("a secret of channel %d is %q, %v; want %q", test.id, got, err, test.want)
			}
			if len(test.sealed) == 0 {
				continue
			}
			if got, err := keys.New(b).Open(test.secret(test.id+1), test.sealed); err == nil {
				t.Errorf("another channel opens a secret as %q", got)
			}
		}
		if got, err := keys.New(b).Open(keys.ChannelSecret(signed), sealed(signed).Address); err == nil {
			t.Errorf("the address opens as the secret %q", got)
		}
		if got, err := keys.New(b).Open(keys.ChannelAddress(damaged), sealed(damaged).Address); err == nil {
			t.Errorf("the damaged address opens as %q", got)
		}
		if got, err := keys.New(keyHolder(t, databaseURL, "a")).Open(keys.ChannelAddress(signed), sealed(signed).Address); err == nil {
			t.Errorf("the replaced key opens the address as %q", got)
		}
	})
}
