package jobs_test

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// newMailChannel stores a channel with a confirmed e-mail address that wants quotas.
func newMailChannel(t *testing.T, d *db.DB, site *model.Site, address string) *model.AlertChannel {
	t.Helper()
	store, token := alerts.NewChannels(d), model.NewSecret(model.AlertTokenPrefix)
	channel, err := store.Create(t.Context(), model.AlertChannel{
		AccountID: site.AccountID, Kind: model.ChannelEmail, Name: "duty", Language: model.English,
		Events: []model.AlertEvent{model.AlertQuota},
	}, alerts.Secrets{Address: &address},
		&alerts.Confirmation{Token: token, URL: "https://app.example/confirm-alerts#" + token}, model.At(noon))
	if err == nil {
		err = store.Confirm(t.Context(), token, model.At(noon))
	}
	testkit.NoError(t, err)
	return channel
}

// TestChannelMailArrives checks the mail of an alert as an SMTP server receives it from two
// workers: one mail, its subject, both parts, and the address with which mail programs stop the
// channel.
func TestChannelMailArrives(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := newSite(t, d, "shop.example", "https://hook.example/", "")
		channel := newMailChannel(t, d, site, "duty@example.org")
		testkit.NoError(t, dbtest.Exec(d, "DELETE FROM mails"))
		beginAlert(t, d, site, "<b>pageviews</b>", noon)

		box := newMailbox(t, a, false, welcome)
		for range 2 {
			startMailer(t, d, testkit.NewClock(noon).Now, box.server(t, a, "smtp", "p%40ss%20word"), nil)
		}
		awaitStates(t, d, "sent 1")
		box.mu.Lock()
		defer box.mu.Unlock()
		if len(box.mails) != 1 || box.to[0] != "duty@example.org" {
			t.Fatalf("mails to %v, want one", box.to)
		}

		header, text, html := parts(t, box.mails[0])
		subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
		if err != nil || subject != "Quota of shop.example" {
			t.Errorf("subject %q, %v", subject, err)
		}
		for _, want := range []string{"80% of the month's quota of 100 is used.", "<b>pageviews</b>", "the alert channel “duty”", "/usage"} {
			if !strings.Contains(text, want) {
				t.Errorf("the text %q has no %q", text, want)
			}
		}
		if !strings.Contains(html, "quota of 100 is used.") || !strings.Contains(html, "&lt;b&gt;pageviews") || strings.Contains(html, "<b>pageviews") {
			t.Errorf("HTML %q", html)
		}

		// Both the header and the text have the channel's own secret.
		stop := strings.Trim(header.Get("List-Unsubscribe"), "<>")
		if header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" ||
			!strings.HasPrefix(stop, "https://app.example"+model.StopMailPath+"?token=") {
			t.Errorf("header %v", header)
		}
		ids, err := keys.New(d).NodeIDs(t.Context())
		testkit.NoError(t, err)
		shown := regexp.MustCompile(`https://app\.example/\S+\?token=\S+`).FindString(text)
		for _, link := range []string{stop, shown} {
			address, err := url.Parse(link)
			testkit.NoError(t, err)
			if id, at, ok := ids.ParseChannelStop(address.Query().Get("token")); !ok || id != channel.ID || at != model.At(noon) {
				t.Errorf("the link %q stops channel %d of %d, %t", link, id, at, ok)
			}
		}
	})
}

// TestChannelMailsOnce checks that concurrent workers turn each message into one mail.
func TestChannelMailsOnce(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := newSite(t, d, "shop.example", "https://hook.example/", "")
		newMailChannel(t, d, site, "duty@example.org")
		for _, subject := range []string{"a", "b", "c"} {
			beginAlert(t, d, site, subject, noon)
		}

		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				if _, err := outbox.New(d).MailMessages(t.Context(), model.At(noon)); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
		mails, err := dbtest.Rows[string](d, "SELECT kind FROM mails WHERE kind = 'alert'")
		if err != nil || len(mails) != 3 {
			t.Errorf("%d mails, %v; want 3", len(mails), err)
		}
	})
}

// TestSlowChannel checks that a channel gets all attempts if its receiver does not answer in time,
// is not stopped, and another channel gets its message.
func TestSlowChannel(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := newFastClock(speed)
		site := newSite(t, d, "shop.example", "https://hook.example/", "")
		slow := newReceiver(t, a, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		fast := newReceiver(t, a, status(200))
		stuck := newChannel(t, d, site, model.ChannelSlack, slow.URL+"/hook", "")
		other := newChannel(t, d, site, model.ChannelSlack, fast.URL+"/hook", "")
		beginAlert(t, d, site, "80", clock.Now())
		startQuick(t, d, a, clock.Now, jobs.CallTimeout(time.Second))

		// On a busy machine a call of the other channel can time out as well, but not each time.
		if last, attempts := awaitMessage(t, d, clock, other.ID); last.State != model.DeliveryDelivered {
			t.Errorf("the other channel: %s after %d attempts", last.State, len(attempts))
		}
		last, attempts := awaitMessage(t, d, clock, stuck.ID)
		if last.State != model.DeliveryFailed || len(attempts) != model.MaxAttempts {
			t.Errorf("%s after %d attempts", last.State, len(attempts))
		}
		for _, attempt := range attempts {
			if attempt.Error != model.AttemptTimeout || attempt.Status != 0 {
				t.Errorf("attempt %+v, want a timeout", *attempt)
			}
		}
		if channel, err := alerts.NewChannels(d).Channel(t.Context(), site.AccountID, stuck.ID); err != nil || channel.StoppedAt != 0 {
			t.Errorf("the channel is %+v, %v", channel, err)
		}
	})
}

// TestRemovedChannels checks that a channel that is removed while its messages wait, or during an
// attempt, gets no further call, and that nothing of it is left.
func TestRemovedChannels(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := newFastClock(speed)
		site := newSite(t, d, "shop.example", "https://hook.example/", "")
		store := alerts.NewChannels(d)
		remove := func(id int64) {
			if _, err := store.Delete(context.WithoutCancel(t.Context()), site.AccountID, id); err != nil {
				t.Error(err)
			}
		}

		var during *model.AlertChannel
		busy := newReceiver(t, a, func(_ int, w http.ResponseWriter, _ *http.Request) {
			remove(during.ID)
			w.WriteHeader(http.StatusInternalServerError)
		})
		receiver := newReceiver(t, a, status(200))
		waiting := newChannel(t, d, site, model.ChannelSlack, receiver.URL+"/waiting", "")
		mailed := newMailChannel(t, d, site, "duty@example.org")
		during = newChannel(t, d, site, model.ChannelSlack, busy.URL+"/during", "")
		beginAlert(t, d, site, "80", clock.Now())
		remove(waiting.ID)
		remove(mailed.ID)

		startQuick(t, d, a, clock.Now)
		awaitThat(t, func() (string, bool) {
			n, err := dbtest.Count(d, "alert_channels")
			return "the channel is still there", err == nil && n == 0 && len(busy.all()) == 1
		})

		// The worker serves channels that were added since.
		kept := newChannel(t, d, site, model.ChannelSlack, receiver.URL+"/kept", "")
		beginAlert(t, d, site, "100", clock.Now())
		if last, attempts := awaitMessage(t, d, clock, kept.ID); last.State != model.DeliveryDelivered || len(attempts) != 1 {
			t.Errorf("%s after %d attempts", last.State, len(attempts))
		}
		testkit.Equal(t, len(receiver.all()), 1, "calls")
		testkit.Equal(t, len(busy.all()), 1, "calls of the channel that was removed in an attempt")
		for table, want := range map[string]int{"alert_messages": 1, "alert_attempts": 1} {
			dbtest.HasRows(t, d, table, want, "%s: rows", table)
		}
		if mails, err := dbtest.Rows[string](d, "SELECT kind FROM mails WHERE kind = 'alert'"); err != nil || len(mails) != 0 {
			t.Errorf("%d mails, %v", len(mails), err)
		}
	})
}
