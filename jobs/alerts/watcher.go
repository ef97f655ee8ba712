// Package alerts decides what the channels of accounts and sites get: Watcher evaluates the rules
// of alerts, and Planner queues summaries and the messages of fixed thresholds. Package rules has
// the rules, and package texts what messages say.
package alerts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs/alerts/rules"
)

// Every is how often the rules of alerts are evaluated.
const Every = 5 * time.Minute

const (
	alertAccounts = 20 // accounts that are read at once
	alertSites    = 50 // sites with figures in memory at once
)

// Watcher evaluates the rules of alerts. It reads figures of sites with a channel that wants
// them, and of no other site.
type Watcher struct {
	store  *alerts.Store
	sites  *sites.Store
	ingest *ingest.Store
	files  *files.Store
	outbox *outbox.Store

	changes *Changes // nil: messages name no causes

	certificates *certificates.Store

	mu    sync.Mutex
	calls map[model.SiteID]callCount // by site
}

// NewWatcher returns the rules' evaluation for a database. changes may be nil.
func NewWatcher(d *db.DB, changes *Changes) *Watcher {
	return &Watcher{
		changes: changes,
		store:   alerts.New(d), sites: sites.New(d), ingest: ingest.New(d), files: files.New(d), outbox: outbox.New(d),
		certificates: certificates.New(d), calls: make(map[model.SiteID]callCount),
	}
}

// findings are what the rules have found, by what alerts of one account are about.
type findings map[alertAbout]rules.Finding

// alertAbout identifies an alert of an account.
type alertAbout struct {
	siteID    model.SiteID
	sitekeyID model.SitekeyID
	event     model.AlertEvent
	subject   string
}

func aboutOf(a *model.Alert) alertAbout { return alertAbout{a.SiteID, a.SitekeyID, a.Event, a.Subject} }

// Watch evaluates the rules of all accounts with channels, and of the installation. It returns how
// many alerts began or ended. The error of one account does not keep it from the others.
func (w *Watcher) Watch(ctx context.Context, now model.Instant) (int64, error) {
	w.changes.begin()
	changed, failed := w.store.EndOrphans(ctx, now)

	for after := model.AccountID(0); ; {
		accounts, err := w.store.Watched(ctx, after, alertAccounts)
		if err != nil || len(accounts) == 0 {
			failed = errors.Join(failed, err)
			break
		}
		after = accounts[len(accounts)-1].ID

		n, err := w.watchAccounts(ctx, accounts, now)
		changed += n
		if failed = errors.Join(failed, err); ctx.Err() != nil {
			return changed, failed
		}
	}

	n, err := w.watchInstallation(ctx, now)
	return changed + n, errors.Join(failed, err)
}

// watchAccounts evaluates the rules of some accounts.
func (w *Watcher) watchAccounts(ctx context.Context, accounts []*alerts.Account, now model.Instant) (int64, error) {
	found := make(map[model.AccountID]findings, len(accounts))
	var all []*alerts.Site
	for _, account := range accounts {
		found[account.ID] = make(findings)
		all = append(all, account.Sites...)
	}

	failed := w.attacks(ctx, accounts, now, found)
	for some := range slices.Chunk(all, alertSites) {
		failed = errors.Join(failed, w.findInSites(ctx, some, now, found))
	}

	var changed int64
	for _, account := range accounts {
		n, err := w.apply(ctx, account, found[account.ID], now)
		changed += n
		failed = errors.Join(failed, err)
	}
	return changed, failed
}

// apply begins and ends the alerts of an account. It also ends alerts that no channel wants any
// more.
func (w *Watcher) apply(ctx context.Context, account *alerts.Account, found findings, now model.Instant) (int64, error) {
	open := make(map[alertAbout]*model.Alert)
	var unwanted []int64
	for _, alert := range account.Open {
		if isWanted(account, alert) {
			open[aboutOf(alert)] = alert
		} else {
			unwanted = append(unwanted, alert.ID)
		}
	}

	changed, err := w.steps(ctx, account.ID, found, open, now)
	ended, endErr := w.store.EndUnwanted(ctx, unwanted, now)
	return changed + ended, errors.Join(err, endErr)
}

// steps makes the next step of each alert of an account, or of the installation (0), that lasts or
// that a rule was evaluated for. Without figures, which could not be read, an alert stays as it is
// for a while.
func (w *Watcher) steps(
	ctx context.Context, accountID model.AccountID, found findings, open map[alertAbout]*model.Alert, now model.Instant,
) (changed int64, failed error) {
	for about := range open {
		if _, ok := found[about]; !ok {
			found[about] = rules.Finding{Reading: rules.Unsure}
		}
	}

	var seen []int64
	for about, finding := range found {
		alert := model.Alert{
			AccountID: accountID, SiteID: about.siteID, SitekeyID: about.sitekeyID, Event: about.event,
			Subject: about.subject, Details: finding.Figures,
		}
		hasChanged, isSeen, err := w.step(ctx, alert, finding, open[about], now)
		if hasChanged {
			changed++
		}
		if isSeen {
			seen = append(seen, open[about].ID)
		}
		failed = errors.Join(failed, err)
	}
	return changed, errors.Join(failed, w.store.See(ctx, seen, now))
}

// step makes the next step of an alert. isSeen reports that its time is to be stored.
func (w *Watcher) step(
	ctx context.Context, alert model.Alert, finding rules.Finding, open *model.Alert, now model.Instant,
) (changed, isSeen bool, err error) {
	switch rules.Next(alert.Event, finding.Reading, open, now) {
	case rules.Begin:
		alert.Details.Change = w.explain(ctx, alert.SiteID, finding, now)
		changed, err = w.store.Begin(ctx, alert, now)
	case rules.End:
		changed, err = w.store.End(ctx, open.ID, now)
	case rules.See:
		isSeen = true
	}
	return changed, isSeen, err
}

// explain returns why the traffic of a site is unusual, or nil.
func (w *Watcher) explain(ctx context.Context, siteID model.SiteID, finding rules.Finding, now model.Instant) *model.Change {
	if w.changes == nil || finding.After == (rules.Span{}) {
		return nil
	}
	site, err := w.sites.Sites.AnySite(ctx, siteID)
	if err != nil {
		return nil // the alert itself reports the failure, or ends with the site
	}
	return w.changes.pageviews(ctx, site, finding, now)
}

// isWanted reports whether some channel wants an open alert.
func isWanted(account *alerts.Account, alert *model.Alert) bool {
	if account.Wants(alert.Event) {
		return true
	}
	return slices.ContainsFunc(account.Sites, func(s *alerts.Site) bool { return s.ID == alert.SiteID && s.Wants(alert.Event) })
}

// attacks finds attacks on the captcha of accounts.
func (w *Watcher) attacks(
	ctx context.Context, accounts []*alerts.Account, now model.Instant, found map[model.AccountID]findings,
) error {
	var ids []model.AccountID
	for _, account := range accounts {
		// An alert of a suspended account ends as an orphan.
		if account.Wants(model.AlertCaptchaAttack) {
			ids = append(ids, account.ID)
		}
	}

	attacks, err := w.store.Attacks(ctx, ids)
	for _, a := range attacks {
		about := alertAbout{sitekeyID: a.ID, event: model.AlertCaptchaAttack}
		found[a.AccountID][about] = rules.CaptchaAttack(a.Attack, now)
	}
	return err
}

// findInSites evaluates the rules of some sites.
func (w *Watcher) findInSites(
	ctx context.Context, some []*alerts.Site, now model.Instant, found map[model.AccountID]findings,
) error {
	traffic, silent := wanting(some, model.AlertTrafficSpike, model.AlertTrafficDrop), wanting(some, model.AlertNoHits)
	calls, deliveries := wanting(some, model.AlertCallsRefused), wanting(some, model.AlertDeliveriesFailed)
	return errors.Join(w.traffic(ctx, traffic, now, found), w.silence(ctx, silent, now, found),
		w.refused(ctx, calls, now, found), w.deliveries(ctx, deliveries, now, found))
}

// wanting returns the sites that want one of some events.
func wanting(some []*alerts.Site, events ...model.AlertEvent) []*alerts.Site {
	return slices.DeleteFunc(slices.Clone(some), func(s *alerts.Site) bool { return !slices.ContainsFunc(events, s.Wants) })
}

func idsOf(some []*alerts.Site) []model.SiteID {
	ids := make([]model.SiteID, len(some))
	for i, site := range some {
		ids[i] = site.ID
	}
	return ids
}
