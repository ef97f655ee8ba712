package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// insertChannel stores a channel of the kind webhook that wants page view drops, as change leaves
// it.
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

// queueAlert stores an alert in its phase, with its messages, and returns how many of the new ones
// are due.
func queueAlert(t *testing.T, d *db.DB, alert *model.Alert, phase model.AlertPhase, now model.Instant) int {
	t.Helper()
	messages := func(due string) int {
		t.Helper()
		rows, err := dbtest.Rows[int](d, "SELECT count(*) FROM alert_messages WHERE created_at = ? AND state = 'pending' AND "+due, now, now)
		testkit.NoError(t, err)
		return rows[0]
	}
	before := messages("next_attempt_at <= ?")
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

		return outbox.New(d).QueueAlert(ctx, tx, alert, phase, now)
	})
	testkit.NoError(t, err)
	return messages("next_attempt_at <= ?") - before
}

// messagesOf returns the messages of a channel as texts, oldest first.
func messagesOf(t *testing.T, d *db.DB, channelID int64) (texts []string) {
	t.Helper()
	var messages []model.AlertMessage
	err := d.Read.NewSelect().Model(&messages).Where("channel_id = ?", channelID).Order("id").Scan(t.Context())
	testkit.NoError(t, err)
	for _, m := range messages {
		texts = append(texts, fmt.Sprintf("%s %s at %s", m.Event, m.Phase, m.NextAttemptAt.Time().UTC().Format("15:04")))
	}
	return texts
}

// TestQueueAlert checks which channels get a message about an alert, and what quiet hours change.
func TestQueueAlert(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		now := dbtest.Noon
		quiet := model.QuietHours{From: 11 * 60, To: 14 * 60, Zone: "UTC"}

		type wanted struct {
			change func(*model.AlertChannel)
			want   []string
		}
		both := []string{"traffic_drop both at 12:00"}
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
				[]string{"traffic_drop both at 12:00"}},
		}
		ids := map[string]int64{}
		for name, c := range channels {
			ids[name] = insertChannel(t, d, site, c.change)
		}

		alert := &model.Alert{
			AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertTrafficDrop, BeganAt: now, SeenAt: now,
			Details: model.AlertFigures{Value: 3, Usual: 100, Percent: 3},
		}
		testkit.Equal(t, queueAlert(t, d, alert, model.AlertBegun, now), 3, "messages are due at the beginning")
		testkit.Equal(t, queueAlert(t, d, alert, model.AlertEnded, now.Add(30*time.Minute)), 0, "messages are due at the end")

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

// TestOneOpenAlert checks that the database refuses a second open alert about the same, also of no
// site.
func TestOneOpenAlert(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
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
			testkit.Succeeds(t, insert(change), "%s", name)
		}
		if err := insert(func(*model.Alert) {}); err == nil {
			t.Error("a second open alert is stored")
		}
	})
}

// TestAlertsOfOperators checks that alerts of the installation reach operators' channels only.
func TestAlertsOfOperators(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		user := func(email string, operator bool) (id model.UserID) {
			u := model.User{Email: email, Operator: operator, Language: model.English, CreatedAt: 1}
			if _, err := d.Write.NewInsert().Model(&u).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			return u.ID
		}
		wants := func(createdBy, operator model.UserID) func(*model.AlertChannel) {
			return func(c *model.AlertChannel) {
				c.CreatedBy, c.OperatorID, c.Events = createdBy, operator, []model.AlertEvent{model.AlertJobsFailed}
			}
		}

		// An operator has added the event to a member's channel; another one has lost the role
		// since.
		op, member := user("op@example.org", true), user("member@example.org", false)
		operators := insertChannel(t, d, site, wants(member, op))
		members := insertChannel(t, d, site, wants(op, member))
		alert := &model.Alert{Event: model.AlertJobsFailed, Subject: "backup", BeganAt: 1, SeenAt: 1}
		testkit.Equal(t, queueAlert(t, d, alert, model.AlertBegun, dbtest.Noon), 1, "messages are due")
		if got := messagesOf(t, d, operators); len(got) != 1 {
			t.Errorf("the operator got %v", got)
		}
		if got := messagesOf(t, d, members); got != nil {
			t.Errorf("another user got %v", got)
		}
	})
}

// TestChannelMessagesAreBounded checks the limit of a channel's messages, which ends do not count
// for.
func TestChannelMessagesAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		channel := insertChannel(t, d, site, func(c *model.AlertChannel) { c.Events = []model.AlertEvent{model.AlertNewSignIn} })
		now := dbtest.Noon
		signIn := func(at model.Instant) int {
			alert := &model.Alert{AccountID: site.AccountID, Event: model.AlertNewSignIn, BeganAt: at, EndedAt: at, SeenAt: at}
			return queueAlert(t, d, alert, model.AlertOnce, at)
		}

		// Ends of alerts, tests and summaries do not count.
		ended := &model.Alert{AccountID: site.AccountID, Event: model.AlertTrafficDrop, BeganAt: now, EndedAt: now, SeenAt: now}
		if _, err := d.Write.NewInsert().Model(ended).Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		var others []model.AlertMessage
		for range model.MaxChannelMessages {
			other := model.AlertMessage{ChannelID: int64(channel), State: model.DeliveryDelivered, CreatedAt: now, NextAttemptAt: now}
			end, test := other, other
			end.AlertID, end.Event, end.Phase = ended.ID, string(ended.Event), model.AlertEnded
			test.Event, test.Phase = model.MessageTest, model.AlertOnce
			others = append(others, end, test)
		}
		if _, err := d.Write.NewInsert().Model(&others).Exec(t.Context()); err != nil {
			t.Fatal(err)
		}

		for range model.MaxChannelMessages {
			testkit.Require(t, signIn(now), 1, "a message within the limit is not queued")
		}
		testkit.Equal(t, signIn(now.Add(23*time.Hour)), 0, "a message beyond the limit is queued")
		testkit.Equal(t, signIn(now.Add(24*time.Hour)), 1, "no message is queued on the next day")
		// Members see one dropped message an hour.
		if got := len(messagesOf(t, d, channel)); got != len(others)+model.MaxChannelMessages+2 {
			t.Errorf("the channel has %d messages", got)
		}
		for range 5 {
			testkit.Equal(t, signIn(now.Add(23*time.Hour+59*time.Minute)), 0, "a message beyond the limit is queued")
		}
		dropped := "SELECT count(*) FROM alert_messages m JOIN alert_attempts a ON a.message_id = m.id WHERE m.state = 'failed' AND a.error = 'rate_limited'"
		if rows, err := dbtest.Rows[int](d, dropped); err != nil || rows[0] != 1 {
			t.Errorf("%v dropped messages, %v, want 1", rows, err)
		}

		// The end of a dropped beginning is not sent, whether the beginning is stored or not.
		testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_messages SET created_at = ? WHERE next_attempt_at > 0", now.Add(30*time.Hour)))
		testkit.NoError(t, dbtest.Exec(d, `UPDATE alert_channels SET events = '["traffic_drop"]'`))
		for subject, messages := range map[string]int{"stored": 1, "not stored": 0} {
			at := now.Add(30 * time.Hour)
			testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_messages SET created_at = ? WHERE next_attempt_at = 0",
				at.Add(-time.Duration(messages*2)*time.Hour)))
			before := len(messagesOf(t, d, channel))
			alert := &model.Alert{AccountID: site.AccountID, Event: model.AlertTrafficDrop, Subject: subject, BeganAt: at, SeenAt: at}
			queueAlert(t, d, alert, model.AlertBegun, at)
			queueAlert(t, d, alert, model.AlertEnded, at.Add(time.Minute))
			testkit.Equal(t, len(messagesOf(t, d, channel))-before, messages, "%s: messages", subject)
		}
	})
}

// begunAndLeased stores a channel and an alert about the site, and leases its message.
func begunAndLeased(t *testing.T, d *db.DB, site *model.Site, change func(*model.AlertChannel)) (*model.Alert, *outbox.Leased) {
	t.Helper()
	channel := insertChannel(t, d, site, func(c *model.AlertChannel) { c.SiteID = site.ID; change(c) })
	alert := &model.Alert{AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertTrafficDrop, BeganAt: dbtest.Noon, SeenAt: dbtest.Noon}
	queueAlert(t, d, alert, model.AlertBegun, dbtest.Noon)
	return alert, leaseOf(t, d, channel, dbtest.Noon)
}

// leaseOf leases a message of a channel, or returns nil.
func leaseOf(t *testing.T, d *db.DB, channel int64, now model.Instant) *outbox.Leased {
	t.Helper()
	leased, err := outbox.New(d).LeaseDelivery(t.Context(), model.Lane{Kind: model.DeliveryAlert, ChannelID: int64(channel)}, nil, now, lease)
	testkit.NoError(t, err)
	return leased
}

// TestEndFollowsBeginning checks the end of alerts with beginnings that were delivered, have failed
// once or for good, or are being attempted.
func TestEndFollowsBeginning(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ok, once, gone := outbox.AttemptResult{}, outbox.AttemptResult{Error: model.AttemptTimeout}, outbox.AttemptResult{Error: model.AttemptGone}
		for i, test := range []struct {
			name   string
			result outbox.AttemptResult
			early  bool // the alert ends during the attempt
			want   string
		}{
			{"delivered", ok, false, "begun delivered, ended pending"},
			{"delivered later", ok, true, "begun delivered, ended pending"},
			{"failed once", once, false, "both pending"},
			{"fails later", once, true, "both pending"},
			{"failed for good", gone, false, "begun failed"},
			{"fails for good later", gone, true, "begun failed"},
		} {
			site := world.New(t, d).Site(fmt.Sprintf("shop%d.example", i), world.Webhook)
			alert, leased := begunAndLeased(t, d, site, func(*model.AlertChannel) {})
			end := func() {
				queueAlert(t, d, alert, model.AlertEnded, dbtest.Noon.Add(time.Second))
			}
			if test.early {
				end()
				if next := leaseOf(t, d, leased.Channel.ID, dbtest.Noon.Add(lease-1)); next != nil {
					t.Errorf("%s: %s is sent while the beginning is", test.name, next.Message.Phase)
				}
			}
			testkit.NoError(t, outbox.New(d).FinishAttempt(t.Context(), leased, test.result, dbtest.Noon.Add(time.Second)))
			if !test.early {
				end()
			}

			rows, err := dbtest.Rows[string](d, "SELECT phase || ' ' || state FROM alert_messages WHERE alert_id = ? ORDER BY id", alert.ID)
			if got := strings.Join(rows, ", "); err != nil || got != test.want {
				t.Errorf("%s: %s, %v, want %s", test.name, got, err, test.want)
			}
		}
	})
}

// TestQuietRetries checks that retries, and messages that a suspension held, wait for the end of
// quiet hours, and that manual attempts do not.
func TestQuietRetries(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("mail.example", world.Webhook)
		quiet := model.QuietHours{From: 12*60 + 1, To: 14 * 60, Zone: "UTC"}
		_, leased := begunAndLeased(t, d, site, func(c *model.AlertChannel) { c.Quiet = quiet })
		fail := func(leased *outbox.Leased, at model.Instant) {
			t.Helper()
			testkit.NoError(t, outbox.New(d).FinishAttempt(t.Context(), leased, outbox.AttemptResult{Error: model.AttemptTimeout}, at))
		}
		wantNext := func(when string, channel int64, want string) {
			t.Helper()
			if got := fmt.Sprint(messagesOf(t, d, channel)); got != "[traffic_drop begun at "+want+"]" {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}

		fail(leased, dbtest.Noon.Add(time.Minute-time.Millisecond))
		channel := leased.Channel.ID
		wantNext("a retry", channel, "14:00")

		// A message that became due during a suspension.
		held := dbtest.Noon.Add(time.Hour)
		testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_messages SET next_attempt_at = ?", dbtest.Noon))
		if leaseOf(t, d, channel, held) != nil {
			t.Error("a message is sent in quiet hours")
		}
		wantNext("a held message", channel, "14:00")

		testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_messages SET next_attempt_at = ?, fallback = 'pending'", dbtest.Noon))
		if leaseOf(t, d, channel, held) == nil {
			t.Error("a manual attempt waits for the end of quiet hours")
		}

		// The same of a mail.
		mail := insertChannel(t, d, other, func(c *model.AlertChannel) {
			c.SiteID, c.Kind, c.Quiet = other.ID, model.ChannelEmail, quiet
		})
		alert := &model.Alert{AccountID: other.AccountID, SiteID: other.ID, Event: model.AlertTrafficDrop, BeganAt: 1, SeenAt: 1}
		queueAlert(t, d, alert, model.AlertBegun, dbtest.Noon)
		if _, err := outbox.New(d).MailMessages(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		wantNext("a held mail", mail, "14:00")
	})
}

// TestMailsAfterAFault checks that a message that cannot be read does not keep the others from
// being mailed.
func TestMailsAfterAFault(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		insertChannel(t, d, site, func(c *model.AlertChannel) { c.Kind = model.ChannelEmail })
		for i := range 3 {
			alert := &model.Alert{AccountID: site.AccountID, Event: model.AlertTrafficDrop, Subject: fmt.Sprint(i), BeganAt: 1, SeenAt: 1}
			queueAlert(t, d, alert, model.AlertBegun, dbtest.Noon)
		}
		testkit.NoError(t, dbtest.Exec(d, "UPDATE alert_messages SET data = 'x' WHERE id = (SELECT min(id) FROM alert_messages)"))
		if n, err := outbox.New(d).MailMessages(t.Context(), dbtest.Noon); n != 2 || err == nil {
			t.Errorf("%d messages are mailed, %v, want 2 and an error", n, err)
		}
	})
}

// TestChannelIsLockedFirst checks that a finished attempt waits for a change of its channel without
// a lock of the message. On SQLite a transaction excludes all others.
func TestChannelIsLockedFirst(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		if !d.IsPostgres() {
			return
		}
		site := world.New(t, d).Site("shop.example", world.Webhook)
		_, leased := begunAndLeased(t, d, site, func(*model.AlertChannel) {})

		finished := make(chan error, 1)
		err := d.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			if err := tx.LockRowFor(ctx, "UPDATE", "alert_channels", leased.Channel.ID); err != nil {
				return err
			}
			go func() {
				finished <- outbox.New(d).FinishAttempt(t.Context(), leased, outbox.AttemptResult{Status: 410, Error: model.AttemptGone}, dbtest.Noon)
			}()
			for waiting := 0; waiting == 0; {
				// A transaction reads pg_stat_activity once.
				err := d.Read.NewRaw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").
					Scan(t.Context(), &waiting)
				if err != nil {
					return err
				}
				if len(finished) > 0 {
					return errors.New("the attempt is finished during a change of its channel")
				}
			}
			_, err := tx.ExecContext(ctx, "SELECT 1 FROM alert_messages WHERE id = ? FOR UPDATE NOWAIT", leased.ID)
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if err := <-finished; err != nil {
			t.Error(err)
		}
	})
}

// TestBacklogOfMessages checks that the backlog counts messages to channels: due ones, those that
// wait for the end of quiet hours, and none of a deleted site or a suspended account.
func TestBacklogOfMessages(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, now := world.New(t, d).Site("shop.example", world.Webhook), dbtest.Noon
		insertChannel(t, d, site, func(c *model.AlertChannel) { c.SiteID = site.ID })
		insertChannel(t, d, site, func(c *model.AlertChannel) {
			c.Quiet = model.QuietHours{From: 11 * 60, To: 14 * 60, Zone: "UTC"}
		})
		alert := &model.Alert{AccountID: site.AccountID, SiteID: site.ID, Event: model.AlertTrafficDrop, BeganAt: now, SeenAt: now}
		queueAlert(t, d, alert, model.AlertBegun, now)

		all := outbox.Backlog{Pending: 2, Due: 1, Oldest: now}
		for _, step := range []struct {
			change string
			want   outbox.Backlog
		}{
			{"UPDATE sites SET deleted_at = 1", outbox.Backlog{Pending: 1}}, // to the account's channel
			{"UPDATE sites SET deleted_at = 0", all},
			{"UPDATE accounts SET suspended_at = 1", outbox.Backlog{}},
		} {
			testkit.NoError(t, dbtest.Exec(d, step.change))
			backlog, err := outbox.New(d).DeliveryBacklog(t.Context(), now.Add(time.Hour))
			if err != nil || backlog != step.want {
				t.Errorf("%s: the backlog is %+v, %v; want %+v", step.change, backlog, err, step.want)
			}
		}
	})
}
