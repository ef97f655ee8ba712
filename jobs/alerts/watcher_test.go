package alerts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/alerts/rules"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// alertWorld is a database with sites that have the same traffic in each of four earlier weeks.
type alertWorld struct {
	t    *testing.T
	d    *db.DB
	now  model.Instant
	zone *time.Location
}

const weekAgo = 7 * 24 * time.Hour

func newAlertWorld(t *testing.T, d *db.DB) *alertWorld {
	t.Helper()
	w := &alertWorld{t: t, d: d, now: dbtest.Noon, zone: time.UTC}
	w.exec("INSERT INTO settings (name, value) VALUES ('usage_day_counted', ?)", fmt.Sprint(int(w.now.Day()-1)))
	return w
}

func (w *alertWorld) exec(statement string, args ...any) {
	w.t.Helper()
	testkit.NoError(w.t, dbtest.Exec(w.d, statement, args...))
}

// site creates a site of an age whose account has a channel for all events.
func (w *alertWorld) site(domain string, age time.Duration) *model.Site {
	w.t.Helper()
	site := world.New(w.t, w.d).Site(domain, world.Webhook)
	w.exec("UPDATE sites SET created_at = ? WHERE id = ?", w.now.Add(-age), site.ID)
	channel := model.AlertChannel{
		AccountID: site.AccountID, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
		Events: model.AlertEvents, ConfirmedAt: 1, CreatedAt: 1,
	}
	if _, err := w.d.Write.NewInsert().Model(&channel).Exec(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}

	for day := w.now.Day() - rules.DaysRead; day < w.now.Day() && day >= w.now.Add(-age).Day(); day++ {
		w.exec("INSERT INTO site_usage_days (site_id, day, used) VALUES (?, ?, 5000)", site.ID, day)
	}
	for week := 1; week <= rules.Weeks; week++ {
		if at := w.now.Add(-time.Duration(week) * weekAgo); at.Add(-3*time.Hour) > w.now.Add(-age) {
			w.hits(site, at.Add(-3*time.Hour), at.Add(3*time.Hour), 300)
		}
	}
	return site
}

// hits stores page views of a site from one time to another one, evenly.
func (w *alertWorld) hits(site *model.Site, from, to model.Instant, perHour int) {
	w.t.Helper()
	n := int(to.Sub(from).Hours()*float64(perHour)) - 1
	w.exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
SELECT CAST(? AS integer), CAST(? AS bigint) + CAST(i AS bigint) * CAST(? AS bigint), CAST(i AS bigint), 1, 1, 0, false, '/' FROM n`,
		n, site.ID, from, (time.Hour / time.Duration(perHour)).Microseconds())
}

// alerts returns the site's alerts with the phases of their messages.
func (w *alertWorld) alerts(accountID model.AccountID) string {
	w.t.Helper()
	var rows []model.Alert
	err := w.d.Read.NewSelect().Model(&rows).Where("coalesce(account_id, 0) = ?", accountID).Order("id").Scan(w.t.Context())
	testkit.NoError(w.t, err)

	var texts []string
	for _, a := range rows {
		var phases []string
		testkit.NoError(w.t, w.d.Read.NewSelect().Table("alert_messages").Column("phase").Where("alert_id = ?", a.ID).Order("id").
			Scan(w.t.Context(), &phases))
		text := string(a.Event) + " open"
		if a.EndedAt > 0 {
			text = string(a.Event) + " " + a.EndedAt.Sub(a.BeganAt).String()
		}
		texts = append(texts, text+fmt.Sprint(phases))
	}
	return strings.Join(texts, ", ")
}

func (w *alertWorld) want(site *model.Site, want string) {
	w.t.Helper()
	if got := w.alerts(site.AccountID); got != want {
		w.t.Errorf("%s has the alerts %q, want %q", site.Domain, got, want)
	}
}

// watch evaluates the rules, after the messages so far were delivered.
func (w *alertWorld) watch(watcher *Watcher, now model.Instant) {
	w.t.Helper()
	w.exec("UPDATE alert_messages SET state = 'delivered'")
	if _, err := watcher.Watch(w.t.Context(), now); err != nil {
		w.t.Fatal(err)
	}
}

// TestTrafficAlerts checks the alerts of sites with usual, little, much and no traffic, of a young
// site and of a paused one. Two workers evaluate the rules at once, and the clock is set back once.
func TestTrafficAlerts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newAlertWorld(t, d)
		const years = 1_000 * 24 * time.Hour
		usual, dropped, spiked := w.site("usual.example", years), w.site("dropped.example", years), w.site("spiked.example", years)
		silent, young, paused := w.site("silent.example", years), w.site("young.example", 15*24*time.Hour), w.site("paused.example", years)

		before, after := w.now.Add(-2*time.Hour), w.now.Add(3*time.Hour)
		w.hits(usual, before, after, 280)
		w.hits(dropped, before, w.now, 30)
		w.hits(dropped, w.now, after, 310)
		w.hits(spiked, before, w.now, 1_500)
		w.hits(spiked, w.now, after, 300)
		w.hits(silent, before, w.now.Add(-32*time.Minute), 300)
		w.hits(silent, w.now.Add(2*time.Minute), after, 300)
		for _, site := range []*model.Site{young, paused} {
			w.hits(site, before, after, 30)
		}

		one, two := NewWatcher(d, nil), NewWatcher(d, nil)
		var group sync.WaitGroup
		for _, watcher := range []*Watcher{one, two} {
			group.Go(func() {
				if _, err := watcher.Watch(t.Context(), w.now); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		w.want(usual, "")
		w.want(dropped, "traffic_drop open[begun]")
		w.want(spiked, "traffic_spike open[begun]")
		w.want(silent, "no_hits open[begun]")
		w.want(young, "")
		w.want(paused, "traffic_drop open[begun]")

		// An alert of a stopped site ends without a message.
		w.exec("UPDATE sites SET paused_at = 1 WHERE id = ?", paused.ID)
		for minutes := 5; minutes <= 120; minutes += 5 {
			w.watch(one, w.now.Add(time.Duration(minutes)*time.Minute))
			if minutes == 5 {
				w.watch(two, w.now.Add(-time.Hour))
			}
		}
		w.want(usual, "")
		w.want(dropped, "traffic_drop 1h0m0s[begun ended]")
		w.want(spiked, "traffic_spike 1h20m0s[begun ended]")
		w.want(silent, "no_hits 10m0s[begun ended]")
		w.want(young, "")
		w.want(paused, "traffic_drop 5m0s[begun]")
	})
}

// TestOtherAlerts checks the alerts about refused calls, deliveries and the captcha, and those that
// no channel wants.
func TestOtherAlerts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newAlertWorld(t, d)
		site, unwanted := w.site("shop.example", weekAgo), w.site("unwanted.example", weekAgo)
		w.exec("UPDATE alert_channels SET events = '[\"quota\"]' WHERE account_id = ?", unwanted.AccountID)

		watcher := NewWatcher(d, nil)
		w.watch(watcher, w.now)
		attack := fmt.Sprintf(`{"level":1,"since":%[1]d,"seen":%[1]d,"networks":90}`, int64(w.now.Add(4*time.Minute)))
		for _, s := range []*model.Site{site, unwanted} {
			w.exec("INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (?, ?, 'collect', 'bad_json', 300), (?, ?, 'collect', 'bot', 900)",
				s.ID, w.now.Day(), s.ID, w.now.Day())
			w.exec("INSERT INTO site_usage (site_id, month, used) VALUES (?, ?, 700)", s.ID, w.now.Month())
			w.exec(`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
VALUES (?, ?, 'conversion', 'e', 'failed', 5, ?, 0, '')`, s.ID, model.NewTimeID(w.now), w.now)
			w.exec(`INSERT INTO sitekeys (account_id, sitekey, name, domains, secret_hash, secret_hint, created_at, attack)
VALUES (?, ?, 'form', '[]', ?, '', 1, ?)`, s.AccountID, s.Domain, []byte(s.Domain), attack)
		}

		w.watch(watcher, w.now.Add(5*time.Minute))
		got := w.alerts(site.AccountID)
		for _, want := range []string{"calls_refused open[begun]", "deliveries_failed open[begun]", "captcha_attack open[begun]"} {
			if !strings.Contains(got, want) || strings.Count(got, ",") != 2 {
				t.Errorf("the alerts are %q, want %s and two others", got, want)
			}
		}
		w.want(unwanted, "")

		// The receiver answers again, and the calls are right again.
		w.exec(`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
VALUES (?, ?, 'conversion', 'e', 'delivered', 1, ?, 0, '')`, site.ID, model.NewTimeID(w.now.Add(time.Minute)), w.now)
		for minutes := 10; minutes <= 240; minutes += 5 {
			w.exec("UPDATE site_usage SET used = used + 50 WHERE site_id = ?", site.ID)
			w.watch(watcher, w.now.Add(time.Duration(minutes)*time.Minute))
		}
		for _, want := range []string{
			"calls_refused 1h55m0s[begun ended]", "deliveries_failed 1h0m0s[begun ended]", "captcha_attack 35m0s[begun ended]",
		} {
			if got := w.alerts(site.AccountID); !strings.Contains(got, want) || strings.Count(got, ",") != 2 {
				t.Errorf("the alerts are %q, want %s and two others", got, want)
			}
		}

		// A channel that no longer wants an event.
		w.exec("UPDATE sitekeys SET attack = ? WHERE account_id = ?",
			strings.ReplaceAll(attack, fmt.Sprint(int64(w.now.Add(4*time.Minute))), fmt.Sprint(int64(w.now.Add(5*time.Hour)))), site.AccountID)
		w.watch(watcher, w.now.Add(5*time.Hour))
		w.exec("UPDATE alert_channels SET events = '[]' WHERE account_id = ?", site.AccountID)
		w.watch(watcher, w.now.Add(5*time.Hour+5*time.Minute))
		if got := w.alerts(site.AccountID); !strings.HasSuffix(got, "captcha_attack 5m0s[begun]") {
			t.Errorf("the alerts are %q, want an end without a message", got)
		}
	})
}

// operatorsChannel stores a channel of an operator that wants the installation's events.
func (w *alertWorld) operatorsChannel() {
	w.t.Helper()
	site := world.New(w.t, w.d).Site("operator.example", world.Webhook)
	operator := model.User{Email: "op@example.org", Operator: true, Language: model.English, CreatedAt: 1}
	if _, err := w.d.Write.NewInsert().Model(&operator).Exec(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	channel := model.AlertChannel{
		AccountID: site.AccountID, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
		Events: []model.AlertEvent{model.AlertJobsFailed, model.AlertQuotasUsed}, OperatorID: operator.ID, ConfirmedAt: 1, CreatedAt: 1,
	}
	if _, err := w.d.Write.NewInsert().Model(&channel).Exec(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// TestInstallationAlerts checks the alerts about tasks and backups, with their messages. Two
// workers run the task and evaluate the rules in turn.
func TestInstallationAlerts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newAlertWorld(t, d)
		w.operatorsChannel()
		fails := true
		at := w.now
		var runs [2]func(context.Context) error
		watchers := [2]*Watcher{NewWatcher(d, nil), NewWatcher(d, nil)}
		for i := range runs {
			worker := NewTaskRuns(d, func() time.Time { return at.Time() })
			runs[i] = worker.Noted("reports:build", func(context.Context) error {
				if fails {
					return errors.New("no space left")
				}
				return nil
			})
		}

		testkit.NoError(t, files.New(d).RecordBackup(t.Context(), w.now.Add(-47*time.Hour)))
		steps := 0
		step := func(wantAlerts string) {
			t.Helper()
			if err := runs[steps%2](t.Context()); (err != nil) != fails {
				t.Fatal(err)
			}
			w.watch(watchers[steps/2%2], at)
			steps++
			if got := w.alerts(0); got != wantAlerts {
				t.Errorf("at %s the alerts are %q, want %q", at.Time().Format("15:04"), got, wantAlerts)
			}
			at = at.Add(5 * time.Minute)
		}

		step("")
		step("")
		step("jobs_failed open[begun]")
		step("jobs_failed open[begun]")
		fails = false
		for range 5 {
			step("jobs_failed open[begun]")
		}
		step("jobs_failed 35m0s[begun ended]")

		at = w.now.Add(2 * time.Hour)
		step("jobs_failed 35m0s[begun ended], jobs_failed open[begun]")
		testkit.NoError(t, files.New(d).RecordBackup(t.Context(), at))
		at = at.Add(time.Hour)
		step("jobs_failed 35m0s[begun ended], jobs_failed 1h5m0s[begun ended]")

		// A quota that is nearly used up, until a larger plan.
		site := world.New(t, d).Site("shop.example")
		err := dbtest.Exec(d, "INSERT INTO quota_notices (account_id, site_id, product, month, threshold, created_at, quota) "+
			"VALUES (?, ?, 'analytics', ?, 80, 1, ?)", site.AccountID, site.ID, at.Month(), site.MonthlyPageviews)
		testkit.NoError(t, err)
		const before = "jobs_failed 35m0s[begun ended], jobs_failed 1h5m0s[begun ended], "
		step(before + "quotas_used open[begun]")
		step(before + "quotas_used open[begun]")
		testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET monthly_pageviews = 100000 WHERE id = ?", site.ID))
		step(before + "quotas_used 10m0s[begun ended]")

		// A run that ends with its process is no failure.
		ending, cancel := context.WithCancel(t.Context())
		cancel()
		fails = true
		_ = runs[0](ending)
		rows, err := dbtest.Rows[int](d, "SELECT failures FROM task_runs")
		if err != nil || len(rows) != 1 || rows[0] != 0 {
			t.Errorf("the stored failures are %v, %v", rows, err)
		}
	})
}

// TestOldCallCounts checks that calls of more than two hours give no alert about the last hour.
func TestOldCallCounts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newAlertWorld(t, d)
		site, watcher := w.site("shop.example", weekAgo), NewWatcher(d, nil)
		refuse := func() {
			w.exec(`INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (?, ?, 'collect', 'bad_json', 300)
ON CONFLICT (site_id, day, endpoint, code) DO UPDATE SET count = rejections.count + 300`, site.ID, w.now.Day())
		}

		w.watch(watcher, w.now)
		refuse()
		w.watch(watcher, w.now.Add(2*time.Hour+time.Minute))
		if got := w.alerts(site.AccountID); strings.Contains(got, "calls_refused") {
			t.Errorf("the alerts are %q", got)
		}
		refuse()
		w.watch(watcher, w.now.Add(4*time.Hour))
		if got := w.alerts(site.AccountID); !strings.Contains(got, "calls_refused open[begun]") {
			t.Errorf("after two hours the alerts are %q", got)
		}
	})
}

// TestCertificateAlerts checks the alerts about TLS certificates: of a host without one, of one
// that is renewed late, and of a host that is no longer configured. They reach operators' channels
// only.
func TestCertificateAlerts(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newAlertWorld(t, d)
		operators := w.site("operator.example", time.Hour)
		w.site("member.example", time.Hour)
		operator := model.User{Email: "op@example.org", Operator: true, Language: model.English, CreatedAt: 1}
		if _, err := d.Write.NewInsert().Model(&operator).Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.exec("UPDATE alert_channels SET operator_id = ? WHERE account_id = ?", operator.ID, operators.AccountID)

		store, watcher := certificates.New(d), NewWatcher(d, nil)
		at := w.now
		step := func(want string) {
			t.Helper()
			w.watch(watcher, at)
			if got := w.alerts(0); got != want {
				t.Errorf("at %s the alerts are %q, want %q", at.Time().Format(time.DateTime), got, want)
			}
			at = at.Add(5 * time.Minute)
		}
		see := func(host string, left time.Duration) {
			t.Helper()
			state := certificates.Host{Host: host, IssuedAt: at.Add(left - 90*24*time.Hour), ExpiresAt: at.Add(left)}
			if left == 0 {
				state.IssuedAt, state.ExpiresAt = 0, 0
			}
			testkit.NoError(t, store.See(t.Context(), state, at))
		}

		// A host without a certificate, and with one.
		step("")
		see("app.example", 0)
		step("certificate_failed open[begun]")
		see("app.example", 90*24*time.Hour)
		step("certificate_failed 5m0s[begun ended]")

		// Renewals that fail until less than 14 days are left.
		see("app.example", 14*24*time.Hour)
		step("certificate_failed 5m0s[begun ended]")
		see("app.example", 14*24*time.Hour-time.Second)
		step("certificate_failed 5m0s[begun ended], certificate_failed open[begun]")
		see("app.example", 90*24*time.Hour)
		step("certificate_failed 5m0s[begun ended], certificate_failed 5m0s[begun ended]")

		// Another host, which the settings no longer name a day later.
		see("old.example", 0)
		ended := strings.Repeat("certificate_failed 5m0s[begun ended], ", 2)
		step(ended + "certificate_failed open[begun]")
		at = at.Add(25 * time.Hour)
		see("app.example", 80*24*time.Hour)
		step(ended + "certificate_failed 25h5m0s[begun]")
		step(ended + "certificate_failed 25h5m0s[begun]")

		hosts, err := dbtest.Rows[string](d, "SELECT subject FROM alerts ORDER BY id")
		if err != nil || fmt.Sprint(hosts) != "[app.example app.example old.example]" {
			t.Errorf("the alerts are about %v, %v", hosts, err)
		}
	})
}
