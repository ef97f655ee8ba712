package outbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// insertChannel stores a channel of the kind webhook that wants page view drops, as change leaves it.
func insertChannel(t *testing.T, d *db.DB, site *model.Site, change func(*model.AlertChannel)) int64 {
	t.Helper()
	channel := model.AlertChannel{
		AccountID: site.AccountID, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
		Events: []model.AlertEvent{model.AlertTrafficDrop}, ConfirmedAt: 1, CreatedAt: 1,
	}
	change(&channel)
	if _, err := d.Write.NewInsert().Model(&channel).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	return channel.ID
}

// queueAlert stores an alert in its phase, with its messages, and returns how many are due.
func queueAlert(t *testing.T, d *db.DB, alert *model.Alert, phase model.AlertPhase, now model.Instant) int {
	t.Helper()
	var due []model.AlertMessage
	err := d.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if alert.ID == 0 {
			if _, err := tx.NewInsert().Model(alert).Exec(ctx); err != nil {
				return err
			}
		} else {
			alert.EndedAt = now
			if _, err := tx.NewUpdate().Model(alert).WherePK().Exec(ctx); err != nil {
				return err
			}
		}

		var err error
		due, err = outbox.New(d).QueueAlert(ctx, tx, alert, phase, now)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(due)
}

// messagesOf returns the messages of a channel as texts, oldest first.
func messagesOf(t *testing.T, d *db.DB, channelID int64) (texts []string) {
	t.Helper()
	var messages []model.AlertMessage
	err := d.Read.NewSelect().Model(&messages).Where("channel_id = ?", channelID).Order("id").Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		texts = append(texts, fmt.Sprintf("%s %s at %s", m.Event, m.Phase, m.NextAttemptAt.Time().UTC().Format("15:04")))
	}
	return texts
}

// TestQueueAlert checks which channels get a message about an alert, and what quiet hours change.
func TestQueueAlert(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site, other := dbtest.OutboxSite(t, d, "shop.example"), dbtest.OutboxSite(t, d, "other.example")
		now := dbtest.Noon
		quiet := model.QuietHours{From: 11 * 60, To: 14 * 60, Zone: "UTC"}

		type wanted struct {
			change func(*model.AlertChannel)
			want   []string
		}
		both := []string{"traffic_drop begun at 12:00", "traffic_drop ended at 12:30"}
		channels := map[string]wanted{
			"of the account":   {func(*model.AlertChannel) {}, both},
			"of the site":      {func(c *model.AlertChannel) { c.SiteID = site.ID }, both},
			"of another site":  {func(c *model.AlertChannel) { c.SiteID = other.ID }, nil},
			"unconfirmed":      {func(c *model.AlertChannel) { c.ConfirmedAt = 0 }, nil},
			"stopped":          {func(c *model.AlertChannel) { c.StoppedAt = 1 }, nil},
			"for other events": {func(c *model.AlertChannel) { c.Events = []model.AlertEvent{model.AlertQuota} }, nil},
			"for no events":    {func(c *model.AlertChannel) { c.Events = []model.AlertEvent{} }, nil},
			"quiet": {func(c *model.AlertChannel) { c.Quiet = quiet },
				[]string{"traffic_drop both at 14:00"}},
			"quiet later": {func(c *model.AlertChannel) { c.Quiet = model.QuietHours{From: 12*60 + 10, To: 13 * 60, Zone: "UTC"} },
				[]string{"traffic_drop begun at 12:00", "traffic_drop ended at 13:00"}},
		}
		ids := map[string]int64{}
		for name, c := range channels {
			ids[name] = insertChannel(t, d, site, c.change)
		}

		alert := &model.Alert{
			AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertTrafficDrop, BeganAt: now, SeenAt: now,
			Details: model.AlertFigures{Value: 3, Usual: 100, Percent: 3},
		}
		if due := queueAlert(t, d, alert, model.AlertBegun, now); due != 3 {
			t.Errorf("%d messages are due at the beginning, want 3", due)
		}
		if due := queueAlert(t, d, alert, model.AlertEnded, now.Add(30*time.Minute)); due != 2 {
			t.Errorf("%d messages are due at the end, want 2", due)
		}

		for name, c := range channels {
			if got := messagesOf(t, d, ids[name]); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("the channel %s got %v, want %v", name, got, c.want)
			}
		}

		var message model.AlertMessage
		err := d.Read.NewSelect().Model(&message).Where("channel_id = ?", ids["quiet"]).Scan(t.Context())
		want := model.AlertData{BeganAt: now, EndedAt: now.Add(30 * time.Minute), Figures: alert.Details, Account: message.Data.Account}
		want.Site, want.SiteID = "shop.example", site.ID
		if err != nil || message.Data != want || message.AlertID != alert.ID {
			t.Errorf("the message has %+v, %v, want %+v", message.Data, err, want)
		}
	})
}

// TestOneOpenAlert checks that the database refuses a second open alert about the same, also of no site.
func TestOneOpenAlert(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.OutboxSite(t, d, "shop.example")
		insert := func(change func(*model.Alert)) error {
			alert := model.Alert{AccountID: site.AccountID, Event: model.AlertQuota, BeganAt: 1, SeenAt: 1}
			change(&alert)
			_, err := d.Write.NewInsert().Model(&alert).Exec(t.Context())
			return err
		}

		for name, change := range map[string]func(*model.Alert){
			"the first":      func(*model.Alert) {},
			"an ended one":   func(a *model.Alert) { a.EndedAt = 2 },
			"of a site":      func(a *model.Alert) { a.SiteID = site.ID },
			"of a subject":   func(a *model.Alert) { a.Subject = "80" },
			"of other event": func(a *model.Alert) { a.Event = model.AlertNoHits },
		} {
			if err := insert(change); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := insert(func(*model.Alert) {}); err == nil {
			t.Error("a second open alert is stored")
		}
	})
}

// TestAlertsOfOperators checks that alerts of the installation reach operators' channels only.
func TestAlertsOfOperators(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.OutboxSite(t, d, "shop.example")
		user := func(email string, operator bool) (id int64) {
			u := model.User{Email: email, Operator: operator, Language: model.English, CreatedAt: 1}
			if _, err := d.Write.NewInsert().Model(&u).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			return u.ID
		}
		wants := func(by int64) func(*model.AlertChannel) {
			return func(c *model.AlertChannel) {
				c.CreatedBy, c.Events = by, []model.AlertEvent{model.AlertJobsFailed}
			}
		}

		operators := insertChannel(t, d, site, wants(user("op@example.org", true)))
		members := insertChannel(t, d, site, wants(user("member@example.org", false)))
		alert := &model.Alert{Event: model.AlertJobsFailed, Subject: "backup", BeganAt: 1, SeenAt: 1}
		if due := queueAlert(t, d, alert, model.AlertBegun, dbtest.Noon); due != 1 {
			t.Errorf("%d messages are due, want 1", due)
		}
		if got := messagesOf(t, d, operators); len(got) != 1 {
			t.Errorf("the operator got %v", got)
		}
		if got := messagesOf(t, d, members); got != nil {
			t.Errorf("another user got %v", got)
		}
	})
}

// TestChannelMessagesAreBounded checks the limit of a channel's messages, which ends do not count for.
func TestChannelMessagesAreBounded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := dbtest.OutboxSite(t, d, "shop.example")
		channel := insertChannel(t, d, site, func(c *model.AlertChannel) { c.Events = []model.AlertEvent{model.AlertNewSignIn} })
		now := dbtest.Noon
		signIn := func(at model.Instant) int {
			alert := &model.Alert{AccountID: site.AccountID, Event: model.AlertNewSignIn, BeganAt: at, EndedAt: at, SeenAt: at}
			return queueAlert(t, d, alert, model.AlertOnce, at)
		}

		for range model.MaxChannelMessages {
			if signIn(now) != 1 {
				t.Fatal("a message within the limit is not queued")
			}
		}
		if signIn(now.Add(23*time.Hour)) != 0 {
			t.Error("a message beyond the limit is queued")
		}
		if signIn(now.Add(24*time.Hour)) != 1 {
			t.Error("no message is queued on the next day")
		}
		if got := len(messagesOf(t, d, channel)); got != model.MaxChannelMessages+1 {
			t.Errorf("the channel got %d messages", got)
		}
	})
}

// TestBacklogOfMessages checks that the backlog counts messages to channels: due ones, those that wait for the end of
// quiet hours, and none of a suspended account.
func TestBacklogOfMessages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site, now := dbtest.OutboxSite(t, d, "shop.example"), dbtest.Noon
		insertChannel(t, d, site, func(*model.AlertChannel) {})
		insertChannel(t, d, site, func(c *model.AlertChannel) {
			c.Quiet = model.QuietHours{From: 11 * 60, To: 14 * 60, Zone: "UTC"}
		})
		alert := &model.Alert{AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertTrafficDrop, BeganAt: now, SeenAt: now}
		queueAlert(t, d, alert, model.AlertBegun, now)

		for _, want := range []outbox.Backlog{{Pending: 2, Due: 1, Oldest: now}, {}} {
			backlog, err := outbox.New(d).DeliveryBacklog(t.Context(), now.Add(time.Hour))
			if err != nil || backlog != want {
				t.Errorf("the backlog is %+v, %v; want %+v", backlog, err, want)
			}
			if err := dbtest.Exec(d, "UPDATE accounts SET suspended_at = 1"); err != nil {
				t.Fatal(err)
			}
		}
	})
}
