package outbox_test

import (
	"context"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// addMail stores a mail of an account to an address, and returns its id.
func addMail(t *testing.T, d *db.DB, accountID model.AccountID, address, kind, state string) int64 {
	t.Helper()
	mail := model.Mail{
		AccountID: accountID, Recipient: address, Language: model.English, Kind: kind, Data: "{}", State: state, CreatedAt: dbtest.Noon,
	}
	if _, err := d.Write.NewInsert().Model(&mail).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	return mail.ID
}

// TestMailsOfAStoppedChannel checks that mails that are not sent yet are not sent after the channel
// was stopped, and that their messages have failed.
func TestMailsOfAStoppedChannel(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		email := func(c *model.AlertChannel) { c.Kind = model.ChannelEmail }
		stopped, other := insertChannel(t, d, site, email), insertChannel(t, d, site, email)
		message := func(channel int64, mail string) (mailID int64) {
			t.Helper()
			m := model.AlertMessage{
				ChannelID: int64(channel), Event: model.MessageTest, Phase: model.AlertOnce, State: model.DeliveryPending, CreatedAt: dbtest.Noon,
			}
			if mail != "" {
				m.State, m.MailID = model.DeliveryDelivered, addMail(t, d, site.AccountID, "duty@example.org", model.MailAlert, mail)
			}
			if _, err := d.Write.NewInsert().Model(&m).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			return m.MailID
		}
		sent := message(stopped, model.MailSent)
		message(stopped, "")
		message(stopped, model.MailPending)
		others := message(other, model.MailPending)
		message(other, "")

		err := d.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error { return outbox.FailPendingMessages(ctx, tx, int64(stopped)) })
		testkit.NoError(t, err)
		mails, err := dbtest.Rows[int64](d, "SELECT id FROM mails ORDER BY id")
		if want := []int64{sent, others}; err != nil || !slices.Equal(mails, want) {
			t.Errorf("the mails %v are left, want %v, %v", mails, want, err)
		}
		states, err := dbtest.Rows[string](d, "SELECT state FROM alert_messages ORDER BY id")
		if want := []string{"delivered", "failed", "failed", "delivered", "pending"}; err != nil || !slices.Equal(states, want) {
			t.Errorf("the messages are %v, want %v, %v", states, want, err)
		}
	})
}

// TestDeleteMailsTo checks that the mails of channels stay when an address no longer belongs to the
// account: their recipient need not be a member, and their number is counted.
func TestDeleteMailsTo(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		const address = "person@example.org"
		want := []int64{
			addMail(t, d, site.AccountID, address, model.MailAlert, model.MailPending),
			addMail(t, d, site.AccountID, address, model.MailAlertConfirm, model.MailPending),
			addMail(t, d, site.AccountID, "another@example.org", model.MailInvitation, model.MailPending),
			addMail(t, d, other.AccountID, address, model.MailInvitation, model.MailPending),
		}
		addMail(t, d, site.AccountID, address, model.MailInvitation, model.MailPending)
		addMail(t, d, site.AccountID, address, model.MailDeliveryFailed, model.MailSent)
		addMail(t, d, site.AccountID, address, model.MailOwnAlert, model.MailPending)

		err := d.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return outbox.DeleteMailsTo(ctx, tx, site.AccountID, address)
		})
		testkit.NoError(t, err)
		mails, err := dbtest.Rows[int64](d, "SELECT id FROM mails ORDER BY id")
		if err != nil || !slices.Equal(mails, want) {
			t.Errorf("the mails %v are left, want %v, %v", mails, want, err)
		}
	})
}
