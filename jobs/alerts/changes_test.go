package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/explain"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// explained is an Explainer that notes what it was asked.
type explained struct {
	mu    sync.Mutex
	asked []string
	err   error
}

func (e *explained) add(what string) (*model.Change, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, what)
	return &model.Change{Metric: "VISITS", Before: 1, After: 2}, e.err
}

func (e *explained) Visits(_ context.Context, site *model.Site, from, to model.Day, _ model.Instant) (*model.Change, error) {
	return e.add(fmt.Sprint(site.Domain, " ", from, " ", to))
}

func (e *explained) Pageviews(_ context.Context, site *model.Site, before, after explain.Span, _ model.Instant) (*model.Change, error) {
	const form = "02T15:04"
	return e.add(fmt.Sprint(site.Domain, " ", before.From.Format(form), " ", before.To.Format(form), " ", after.From.Format(form), " ",
		after.To.Format(form)))
}

func (*explained) Summary(context.Context, *model.Site, model.Day, model.Day) (*model.ReportSummary, error) {
	return &model.ReportSummary{}, nil
}

func (*explained) LiveVisitors(context.Context, *model.Site, model.Instant) (int64, error) {
	return 101, nil
}

// TestThresholdsNameCauses checks that the messages of fixed thresholds are explained once for all
// channels of a site: a spike by the last hour and the same hour a week before in the site's time
// zone, which has changed its clocks between them, a drop by its day.
func TestThresholdsNameCauses(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newAlertWorld(t, d)
		site, e := w.site("shop.example", 1_000*24*time.Hour), &explained{}
		now := model.At(time.Date(2026, 11, 3, 12, 10, 0, 0, time.UTC)) // 7:10 in New York, 8:10 UTC-4 a week before
		w.exec("UPDATE sites SET time_zone = 'America/New_York' WHERE id = ?", site.ID)
		w.exec(`UPDATE alert_channels SET site_id = ?, spike_above = 100, drop_below = 10, spike_due_at = ?, drop_due_at = ?
			WHERE account_id = ?`, site.ID, now, now, site.AccountID)
		w.addSecondChannel(site)

		changes := NewChanges(e, slog.New(slog.NewTextHandler(t.Output(), nil)))
		n, err := NewPlanner(d, e, changes).Plan(t.Context(), now)
		if err != nil || n != 4 {
			t.Fatalf("%d messages, %v; want 4", n, err)
		}
		want := []string{"shop.example 27T06:10 27T07:10 03T06:10 03T07:10", "shop.example 2026-11-02 2026-11-02"}
		testkit.EqualSlices(t, e.asked, want, "the explanations")
		for _, m := range w.messagesOf(site) {
			if m.Data.Figures.Change == nil || m.Data.Figures.Threshold == 0 || m.Data.Summary != nil {
				t.Errorf("the message %s has %+v", m.Event, m.Data)
			}
		}
	})
}

// addSecondChannel adds a copy of the channel of a site.
func (w *alertWorld) addSecondChannel(site *model.Site) {
	w.t.Helper()
	var channel model.AlertChannel
	testkit.NoError(w.t, w.d.Read.NewSelect().Model(&channel).Where("site_id = ?", site.ID).Scan(w.t.Context()))
	channel.ID, channel.Name = 0, "second"
	_, err := w.d.Write.NewInsert().Model(&channel).Exec(w.t.Context())
	testkit.NoError(w.t, err)
}

// messagesOf returns the messages of the channels of a site.
func (w *alertWorld) messagesOf(site *model.Site) (messages []model.AlertMessage) {
	w.t.Helper()
	testkit.NoError(w.t, w.d.Read.NewSelect().Model(&messages).
		Where("channel_id IN (SELECT id FROM alert_channels WHERE site_id = ?)", site.ID).Scan(w.t.Context()))
	return messages
}

// TestMessagesNameCauses checks that an alert and a summary are explained once for all channels, an
// alert by the spans that its rule has compared, that both are sent without an explanation after an
// error, and that the end of an alert keeps it.
func TestMessagesNameCauses(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newAlertWorld(t, d)
		for _, failure := range []error{nil, errors.New("too expensive")} {
			domain := fmt.Sprint("shop-", failure == nil, ".example")
			site, e := w.site(domain, 1_000*24*time.Hour), &explained{err: failure}
			w.hits(site, w.now.Add(-2*time.Hour), w.now, 30)
			w.exec("UPDATE alert_channels SET site_id = ?, weekly = true, weekly_due_at = ? WHERE account_id = ?", site.ID, w.now, site.AccountID)
			w.addSecondChannel(site)

			changes := NewChanges(e, slog.New(slog.NewTextHandler(t.Output(), nil)))
			watcher, planner := NewWatcher(d, changes), NewPlanner(d, e, changes)
			w.watch(watcher, w.now)
			w.watch(watcher, w.now.Add(5*time.Minute))
			n, err := planner.Plan(t.Context(), w.now)
			if err != nil || n != 2 {
				t.Fatalf("%d summaries, %v; want 2", n, err)
			}
			w.hits(site, w.now, w.now.Add(3*time.Hour), 310)
			for minutes := 10; minutes <= 120; minutes += 10 {
				w.watch(watcher, w.now.Add(time.Duration(minutes)*time.Minute))
			}

			if want := []string{domain + " 13T11:00 13T12:00 20T11:00 20T12:00"}; !slices.Equal(e.asked[:1], want) || len(e.asked) != 2 {
				t.Errorf("the explanations are %q, want %q and a summary", e.asked, want)
			}
			messages := w.messagesOf(site)
			for _, m := range messages {
				if hasChange := m.Data.Figures.Change != nil; hasChange != (failure == nil) {
					t.Errorf("with the error %v, the message %s %s has the change %+v", failure, m.Event, m.Phase, m.Data.Figures.Change)
				}
			}
			testkit.Equal(t, len(messages), 6, "messages")
			w.exec("UPDATE sites SET deleted_at = 1 WHERE id = ?", site.ID)
		}
	})
}

// TestTimeOfChanges checks that the explanations of a run end when its time is used up, and that
// the next run has time again.
func TestTimeOfChanges(t *testing.T) {
	t.Parallel()
	e := &explained{}
	changes, site := NewChanges(e, slog.New(slog.DiscardHandler)), &model.Site{}
	for _, step := range []struct {
		spent time.Duration
		want  int
	}{{0, 1}, {explainAllFor, 1}, {-explainAllFor, 2}} {
		if changes.begin(); step.spent > 0 {
			changes.spend(step.spent)
		}
		changes.visits(t.Context(), site, 1, 2, 3)
		testkit.Equal(t, len(e.asked), step.want, "after %s: explanations", step.spent)
	}

	changes = nil
	changes.begin()
	if got := changes.visits(t.Context(), site, 1, 2, 3); got != nil {
		t.Errorf("without an explainer: %+v", got)
	}
}
