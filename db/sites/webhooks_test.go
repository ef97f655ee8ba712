package sites_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// webhookMails returns the mails about changed addresses as "recipient: data", in the order of
// their ids.
func webhookMails(t *testing.T, d *db.DB) []string {
	t.Helper()

	rows, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails WHERE kind = ? ORDER BY id", model.MailWebhookChanged)
	testkit.NoError(t, err)

	var all []string
	for _, m := range rows {
		var data outbox.WebhookChangedMail
		testkit.NoError(t, json.Unmarshal([]byte(m.Data), &data))

		all = append(all, fmt.Sprintf("%s: %+v", m.Recipient, data))
	}

	return all
}

// TestOwnersAreMailedWhenAnAddressChanges checks that each owner gets one mail for each change,
// with only the hosts of the addresses. Members, viewers and other accounts get none, and a change
// without effect is not mailed.
func TestOwnersAreMailedWhenAnAddressChanges(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		site := world.New(t, d).Site("shop.example")
		world.New(t, d).User("other@example.org")

		for _, user := range []string{"second@example.com OWNER", "member@example.com MEMBER", "viewer@example.com VIEWER"} {
			email, role, _ := strings.Cut(user, " ")
			world.New(t, d).Member(site.AccountID, email, model.Role(role))
		}

		first, err := dbtest.Rows[string](d, "SELECT email FROM users "+
			"JOIN memberships ON user_id = id WHERE account_id = ? ORDER BY id LIMIT 1", site.AccountID)
		testkit.NoError(t, err)

		by := model.ChangedBy{Name: "admin", At: dbtest.Start}
		conversion := func(address string, secret *string) func() error {
			return func() error {
				return sites.New(d).Sites.SetConversionWebhook(ctx, site.AccountID, site.ID, address, secret, by)
			}
		}

		daily := func(address string) func() error {
			return func() error {
				return sites.New(d).Sites.SetDailyExportWebhook(ctx, site.AccountID, site.ID, address, by)
			}
		}

		whisper := strings.Repeat("whisper ", 2)
		for _, step := range []struct {
			change        func() error
			kind, old, is string // of the mail; no kind: no mail
		}{
			{conversion("https://Hook.Example/secret?key=secret", nil), "conversion", "", "hook.example"},
			{conversion("https://Hook.Example/secret?key=secret", &whisper), "", "", ""},
			{daily("https://daily.example:8443/secret"), "daily_export", "", "daily.example:8443"},
			{conversion("https://bücher.example/secret", nil), "conversion", "hook.example", "xn--bcher-kva.example"},
			{daily("https://daily.example:8443/another-secret"), "daily_export", "daily.example:8443", "daily.example:8443"},
			{func() error {
				return sites.New(d).Sites.SetWebhookSecret(ctx, site.AccountID, site.ID, &whisper, model.ChangedBy{})
			}, "", "", ""},
			{conversion("", nil), "conversion", "xn--bcher-kva.example", ""},
			{conversion("", nil), "", "", ""},
		} {
			before := webhookMails(t, d)

			testkit.NoError(t, step.change())

			var want []string

			if step.kind != "" {
				data := outbox.WebhookChangedMail{
					MailSite: model.MailSite{Site: "shop.example", SiteID: site.ID}, Kind: step.kind, By: by.Name, At: dbtest.Start, Old: step.old, New: step.is,
					Last: len(before)/2+1 == outbox.MaxWebhookMails,
				}

				want = []string{fmt.Sprintf("%s: %+v", first[0], data), fmt.Sprintf("second@example.com: %+v", data)}
			}

			testkit.EqualSlices(t, webhookMails(t, d)[len(before):], want, "%+v: mails", step)
		}
	})
}

// TestMailsAboutAddressesAreBounded checks that only the first changes of a site on a day are
// mailed, that the last of these mails says so, and that the next day starts again.
func TestMailsAboutAddressesAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example")
		change := func(n int, at model.Instant) {
			t.Helper()
			address := fmt.Sprintf("https://host%d.example/", n)
			if err := sites.New(d).Sites.SetConversionWebhook(t.Context(), site.AccountID, site.ID, address, nil,
				model.ChangedBy{Name: "x", At: at}); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 3 * outbox.MaxWebhookMails {
			change(n, dbtest.Start)
		}

		mails := webhookMails(t, d)
		testkit.Require(t, len(mails), outbox.MaxWebhookMails, "mails")

		for i, mail := range mails {
			testkit.Equal(t, strings.Contains(mail, "Last:true"), (i == outbox.MaxWebhookMails-1), "mail %d: %s", i, mail)
		}

		change(100, dbtest.Start.Add(24*time.Hour))

		if got := webhookMails(t, d); len(got) != outbox.MaxWebhookMails+1 || strings.Contains(got[len(got)-1], "Last:true") {
			t.Errorf("the next day: %q", got)
		}
	})
}

// TestAShortSecretStillSigns checks that a secret stored before the minimum length existed is still
// used, and that another short one is refused and changes nothing.
func TestAShortSecretStillSigns(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		key := []byte(strings.Repeat("key!", 8))
		d.UseApplicationKey(key)

		site := world.New(t, d).Site("shop.example")
		if err := sites.New(d).Sites.SetConversionWebhook(ctx, site.AccountID, site.ID, "https://shop.example/hook", nil,
			model.ChangedBy{}); err != nil {
			t.Fatal(err)
		}
		testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET conversion_webhook_secret = ? WHERE id = ?",
			sealedAsBefore(t, key, site.ID, "x"), site.ID))
		if _, err := outbox.New(d).QueueTestWebhook(ctx, site.AccountID, site.ID, model.DeliveryConversion, dbtest.Start); err != nil {
			t.Fatal(err)
		}

		short := strings.Repeat("y", 15)
		dbtest.WantCode(t, sites.New(d).Sites.SetWebhookSecret(ctx, site.AccountID, site.ID, &short, model.ChangedBy{}), model.Invalid,
			"secret_too_short", "secret")

		leased, err := outbox.New(d).LeaseDelivery(ctx, model.Lane{SiteID: site.ID, Kind: model.DeliveryTest}, nil,
			dbtest.Start, time.Minute)
		if err != nil || leased == nil || leased.Secret != "x" || leased.Fault != nil {
			t.Errorf("leased %+v, %v; want the short secret", leased, err)
		}
	})
}

// sealedAsBefore encrypts a webhook secret in the same way as the database.
func sealedAsBefore(t *testing.T, key []byte, siteID model.SiteID, secret string) []byte {
	t.Helper()

	derived, err := hkdf.Key(sha256.New, key, nil, "webhook secrets", 32)
	testkit.NoError(t, err)

	block, err := aes.NewCipher(derived)
	testkit.NoError(t, err)

	gcm, err := cipher.NewGCM(block)
	testkit.NoError(t, err)

	nonce := make([]byte, gcm.NonceSize())
	return gcm.Seal(nonce, nonce, []byte(secret), binary.BigEndian.AppendUint64(nil, uint64(siteID)))
}
