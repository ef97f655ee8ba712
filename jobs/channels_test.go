package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// newChannel stores a channel of a site's account that wants quotas.
func newChannel(t *testing.T, d *db.DB, site *model.Site, kind model.AlertChannelKind, url, secret string) *model.AlertChannel {
	t.Helper()
	channel, err := alerts.NewChannels(d).Create(t.Context(), model.AlertChannel{
		AccountID: site.AccountID, Kind: kind, Name: "ops", Language: model.English, Events: []model.AlertEvent{model.AlertQuota},
	}, alerts.Secrets{Address: &url, Signing: &secret}, nil, model.At(noon))
	testkit.NoError(t, err)
	return channel
}

// beginAlert stores an alert about a site's quota with its messages.
func beginAlert(t *testing.T, d *db.DB, site *model.Site, subject string, now time.Time) {
	t.Helper()
	err := d.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		alert := model.Alert{AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertQuota, Subject: subject,
			BeganAt: model.At(now), SeenAt: model.At(now), Details: model.AlertFigures{Value: 80, Threshold: 100, Percent: 80}}
		if _, err := tx.NewInsert().Model(&alert).Exec(ctx); err != nil {
			return err
		}
		return outbox.New(d).QueueAlert(ctx, tx, &alert, model.AlertBegun, model.At(now))
	})
	testkit.NoError(t, err)
}

// awaitMessage waits until the last message of a channel is no longer pending, and returns it with
// its attempts. It skips the long pauses of the schedule.
func awaitMessage(t *testing.T, d *db.DB, clock *fastClock, channelID int64) (*model.AlertMessage, []*model.DeliveryAttempt) {
	t.Helper()
	store := alerts.NewChannels(d)
	var last *model.AlertMessage
	awaitThat(t, func() (string, bool) {
		lists, err := store.Messages(t.Context(), []int64{channelID}, db.Page{Limit: 1, Descending: true})
		if err != nil || len(lists[channelID]) == 0 {
			t.Fatalf("%d messages, %v", len(lists[channelID]), err)
		}

		last = lists[channelID][0]
		if pause := last.NextAttemptAt.Time().Sub(clock.Now()); last.State == model.DeliveryPending &&
			last.LeasedUntil == 0 && pause > 2*time.Hour {
			clock.Add(pause)
		}
		return fmt.Sprintf("message %+v is still pending", last), last.State != model.DeliveryPending
	})

	attempts, err := outbox.New(d).MessageAttempts(t.Context(), []int64{last.ID})
	testkit.NoError(t, err)
	return last, attempts[last.ID]
}

// TestChannelReceivers checks the outcome of a message for each behaviour of a receiver, and
// whether it stops the channel.
func TestChannelReceivers(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	elsewhere := newReceiver(t, a, status(200))
	redirect := func(_ int, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	}
	cases := []struct {
		name   string
		kind   model.AlertChannelKind
		answer func(int, http.ResponseWriter, *http.Request)
		url    string // instead of a receiver
		state  string
		error  string // of the last attempt
		tries  int
		stops  bool
	}{
		{name: "Slack", kind: model.ChannelSlack, answer: status(200), state: "delivered", tries: 1},
		{name: "Discord", kind: model.ChannelDiscord, answer: status(204), state: "delivered", tries: 1},
		{name: "Teams", kind: model.ChannelTeams, answer: status(202), state: "delivered", tries: 1},
		{name: "webhook", kind: model.ChannelWebhook, answer: status(200), state: "delivered", tries: 1},
		{name: "Slack 404", kind: model.ChannelSlack, answer: status(404), state: "failed", error: "client_error", tries: 1, stops: true},
		{name: "Discord 410", kind: model.ChannelDiscord, answer: status(410), state: "failed", error: "gone", tries: 1, stops: true},
		{name: "webhook 410", kind: model.ChannelWebhook, answer: status(410), state: "failed", error: "gone", tries: 1, stops: true},
		{name: "webhook 404", kind: model.ChannelWebhook, answer: status(404), state: "failed", error: "client_error", tries: 5},
		{name: "redirect", kind: model.ChannelSlack, answer: redirect, state: "failed", error: "redirect", tries: 5},
		{name: "500 once", kind: model.ChannelSlack, answer: func(n int, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader([]int{500, 200}[min(n, 1)])
		}, state: "delivered", tries: 2},
		{name: "private address", kind: model.ChannelSlack, url: "https://10.0.0.1/hook", state: "failed", error: "no_address", tries: 5},
		{name: "no connection", kind: model.ChannelTeams, url: "https://" + refusingAddress(t) + "/hook", state: "failed",
			error: "connect", tries: 5},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := newFastClock(speed)
		site := newSite(t, d, "shop.example", "https://hook.example/", "")
		channels := make([]*model.AlertChannel, len(cases))
		receivers := make([]*receiver, len(cases))
		for i, c := range cases {
			url := c.url
			if url == "" {
				receivers[i] = newReceiver(t, a, c.answer)
				url = receivers[i].URL + "/services/0123456789abcdef"
			}
			secret := ""
			if c.kind == model.ChannelWebhook {
				secret = "a secret of a channel"
			}
			channels[i] = newChannel(t, d, site, c.kind, url, secret)
		}
		beginAlert(t, d, site, "80", clock.Now())

		// Two workers share the messages.
		startQuick(t, d, a, clock.Now)
		startQuick(t, d, a, clock.Now)

		for i, c := range cases {
			last, attempts := awaitMessage(t, d, clock, channels[i].ID)
			if last.State != c.state || len(attempts) != c.tries || attempts[len(attempts)-1].Error != c.error {
				t.Errorf("%s: %s after %d attempts, %+v", c.name, last.State, len(attempts), attempts[len(attempts)-1])
			}
			channel, err := alerts.NewChannels(d).Channel(t.Context(), site.AccountID, channels[i].ID)
			if err != nil || (channel.StoppedAt != 0) != c.stops {
				t.Errorf("%s: the channel is %+v, %v", c.name, channel, err)
			}
			if receivers[i] == nil {
				continue
			}

			calls := receivers[i].all()
			testkit.Equal(t, len(calls), c.tries, "%s: calls", c.name)
			for _, call := range calls {
				if call.body != calls[0].body || call.id() != calls[0].id() || !json.Valid([]byte(call.body)) {
					t.Errorf("%s: call %+v", c.name, call)
				}
			}
			if c.kind == model.ChannelWebhook {
				checkSigned(t, calls[0], "a secret of a channel")
			} else if calls[0].header.Get("webhook-signature") != "" {
				t.Errorf("%s: a signature", c.name)
			}
		}
		if n := len(elsewhere.all()); n != 0 {
			t.Errorf("the target of a redirect was called %d times", n)
		}
	})
}

// checkSigned checks the signature of a call with the library of Standard Webhooks.
func checkSigned(t *testing.T, call received, secret string) {
	t.Helper()
	webhook, err := standardwebhooks.NewWebhookRaw([]byte(secret))
	testkit.NoError(t, err)
	testkit.Succeeds(t, webhook.VerifyIgnoringTimestamp([]byte(call.body), call.header), "call %+v", call)
	var event struct{ Type, ID, Event, Phase string }
	if err := json.Unmarshal([]byte(call.body), &event); err != nil || event.ID != call.id() || event.Event != "quota" ||
		event.Phase != "begun" || event.Type != "alert" {
		t.Errorf("body %s, %v", call.body, err)
	}
}

// TestChannelRetryAfter checks that a channel waits for the time that its receiver asks for, also
// for fractions of seconds as Discord sends them, and no more than the limit.
func TestChannelRetryAfter(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		clock := newFastClock(speed)
		site := newSite(t, d, "shop.example", "https://hook.example/", "")
		for after, want := range map[string]time.Duration{"900.5": 900500 * time.Millisecond, "999999": model.MaxRetryAfter} {
			limited := func(n int, w http.ResponseWriter, _ *http.Request) {
				if n == 0 {
					w.Header().Set("Retry-After", after)
					w.WriteHeader(http.StatusTooManyRequests)
				}
			}
			channel := newChannel(t, d, site, model.ChannelDiscord, newReceiver(t, a, limited).URL+"/0123456789abcdef", "")
			beginAlert(t, d, site, after, clock.Now())
			worker := startQuick(t, d, a, clock.Now)
			_, attempts := awaitMessage(t, d, clock, channel.ID)
			if len(attempts) != 2 || attempts[0].Error != model.AttemptRateLimited || attempts[1].At.Sub(attempts[0].At) < want {
				t.Errorf("Retry-After %s: attempts %+v", after, attempts)
			}
			_ = worker
			if _, err := alerts.NewChannels(d).Delete(t.Context(), site.AccountID, channel.ID); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestChannelMails checks that an address gets one request to confirm and nothing else before it is
// confirmed, that the link of a mail stops the channel, and that held accounts get nothing.
func TestChannelMails(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := newSite(t, d, "shop.example", "https://hook.example/", "")
		store, out := alerts.NewChannels(d), outbox.New(d)
		address, token := "duty@example.org", model.NewSecret(model.AlertTokenPrefix)
		channel, err := store.Create(t.Context(), model.AlertChannel{
			AccountID: site.AccountID, Kind: model.ChannelEmail, Name: "duty", Language: model.German,
			Events: []model.AlertEvent{model.AlertQuota},
		}, alerts.Secrets{Address: &address}, &alerts.Confirmation{Token: token, URL: "https://stats.example/confirm-alerts#" + token}, model.At(noon))
		testkit.NoError(t, err)

		kinds := func() string {
			rows, err := dbtest.Rows[string](d, "SELECT kind FROM mails WHERE recipient = 'duty@example.org' ORDER BY id")
			testkit.NoError(t, err)
			return strings.Join(rows, " ")
		}
		step := func(subject, want string) {
			t.Helper()
			beginAlert(t, d, site, subject, noon)
			if _, err := out.MailMessages(t.Context(), model.At(noon)); err != nil {
				t.Fatal(err)
			}
			testkit.Equal(t, kinds(), want, "%s: mails", subject)
		}

		step("unconfirmed", "alert_confirm")
		wrong := model.NewSecret(model.AlertTokenPrefix)
		if err := store.Confirm(t.Context(), wrong, model.At(noon)); model.KindOf(err) != model.Invalid {
			t.Errorf("a wrong token: %v", err)
		}
		if err := store.Confirm(t.Context(), token, model.At(noon).Add(model.AlertConfirmLifetime)); model.KindOf(err) != model.Invalid {
			t.Errorf("an expired token: %v", err)
		}
		testkit.NoError(t, store.Confirm(t.Context(), token, model.At(noon)))
		if err := store.Confirm(t.Context(), token, model.At(noon)); model.KindOf(err) != model.Invalid {
			t.Errorf("a used token: %v", err)
		}

		step("confirmed", "alert_confirm alert")
		testkit.NoError(t, dbtest.Exec(d, "UPDATE accounts SET suspended_at = 1 WHERE id = ?", site.AccountID))
		step("suspended", "alert_confirm alert")
		testkit.NoError(t, dbtest.Exec(d, "UPDATE accounts SET suspended_at = 0 WHERE id = ?", site.AccountID))
		step("resumed", "alert_confirm alert alert alert")

		// Mails that are not sent yet are not sent any more.
		testkit.NoError(t, dbtest.Exec(d, "UPDATE mails SET state = ? WHERE id = (SELECT min(id) FROM mails WHERE kind = 'alert')", model.MailSent))
		testkit.NoError(t, store.Stop(t.Context(), channel.ID, model.At(noon), model.At(noon)))
		step("stopped", "alert_confirm alert")
		if _, err := store.Test(t.Context(), site.AccountID, channel.ID, model.At(noon)); err == nil {
			t.Error("a stopped channel is tested")
		}
	})
}
