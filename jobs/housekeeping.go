package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs/alerts"
	"github.com/tallygate/tallygate/jobs/webhook"
)

// housekeeping is what the schedule runs: the stores, and here the tasks that are more than one
// call of a store.
type housekeeping struct {
	db              *db.DB
	accounts        *accounts.Store
	resolver        *net.Resolver
	outbox          *outbox.Store
	retention       *retention.Store
	log             *slog.Logger
	exports         *webhook.Deliverer
	reports         *reports.Store
	imports         *imports.Store
	built           func(reports.Built) // counts what buildReports has done
	planner         *alerts.Planner
	sites           *sites.Store
	cells           *cells.Store
	watcher         *alerts.Watcher
	retentionMonths int // see Options
	reportMonths    int // see Options
	usedQuotas      atomic.Pointer[usedQuotas]
}

// deleteExpiredSecrets deletes expired password resets, invitations and pending sign-ups, and the
// old secrets of sites and sitekeys that have expired.
func (h *housekeeping) deleteExpiredSecrets(ctx context.Context, now model.Instant) (int64, error) {
	n, err := h.accounts.DeleteExpiredSecrets(ctx, now)
	h.report(ctx, "expired password resets, invitations and sign-ups deleted", n)

	old, oldErr := h.sites.Sites.DeleteExpiredSecrets(ctx, now)
	return old, errors.Join(err, oldErr)
}

// purgeDeletedSites deletes the sites that can no longer be restored, and then the remaining rows
// of all sites that were deleted for good: those of large ones, and hits that were in flight.
func (h *housekeeping) purgeDeletedSites(ctx context.Context, now model.Instant) (int64, error) {
	expired, err := h.sites.Sites.ExpireDeletedSites(ctx, now)
	h.report(ctx, "deleted sites that can no longer be restored", expired)
	if err != nil {
		return 0, err
	}

	return h.retention.PurgeDeletedSites(ctx, now)
}

// destroyDaySalts destroys the salts of days that ended at least 24 hours ago. After that the day's
// visitor ids cannot be computed again, even with the application key.
func (h *housekeeping) destroyDaySalts(ctx context.Context, now model.Instant) (int64, error) {
	return ingest.New(h.db).DestroyDaySalts(ctx, now.Day()-1)
}

// ensurePartitions creates the partitions of the coming months.
func (h *housekeeping) ensurePartitions(ctx context.Context, now model.Instant) (int64, error) {
	return 0, h.retention.EnsurePartitions(ctx, now)
}

// dropOldData removes visits, page views and events of months before the retention; see
// Options.RetentionMonths. Months whose reports are not built yet wait.
func (h *housekeeping) dropOldData(ctx context.Context, now model.Instant) (int64, error) {
	if h.retentionMonths == 0 {
		return 0, nil
	}

	before, err := h.retention.KeptFrom(ctx, now, h.retentionMonths)
	if err != nil || before == 0 {
		return 0, err
	}

	if _, err := h.buildReports(ctx, now); err != nil {
		return 0, err
	}
	ready, err := h.reports.Seal(ctx, before, now)
	if err != nil {
		return 0, err
	}

	if !ready {
		h.log.InfoContext(ctx, "old months are kept until their reports are built", "before", before.String())
		return 0, nil
	}

	dropped, err := h.retention.DropOldData(ctx, now, h.retentionMonths)
	h.report(ctx, "partitions of old months detached", dropped.Partitions)
	return dropped.Rows, err
}

// buildTime bounds one run of buildReports. It ends before the task's own deadline.
const buildTime = 5 * time.Minute

// buildReports builds the reports of finished days and merges those of finished months. After an
// update from a release without reports the work of many runs is due.
func (h *housekeeping) buildReports(ctx context.Context, now model.Instant) (int64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, buildTime, errBuildTime)
	defer cancel()

	var built reports.Built
	planned, err := h.reports.Plan(ctx, now)
	if err == nil {
		built, err = h.reports.BuildDue(ctx)
	}

	h.built(built)
	h.report(ctx, "days entered for reports", planned)
	h.report(ctx, "months of reports merged", built.Months)
	if built.Lost > 0 {
		h.log.WarnContext(ctx, "page views or events without a visit are in no report", "count", built.Lost)
	}

	if err != nil && context.Cause(ctx) == errBuildTime {
		// The next run continues.
		return 0, nil
	}
	return 0, err
}

// errBuildTime is the cause that ends a run of buildReports.
var errBuildTime = errors.New("the time of one run is over")

// deleteOldReports deletes reports of months before their retention; see Options.ReportMonths.
func (h *housekeeping) deleteOldReports(ctx context.Context, now model.Instant) (int64, error) {
	if h.reportMonths == 0 {
		return 0, nil
	}
	return h.retention.DeleteOldReports(ctx, now, h.reportMonths)
}

// deleteOldRecords deletes old counters and deliveries, and the rest of interrupted imports.
func (h *housekeeping) deleteOldRecords(ctx context.Context, now model.Instant) (int64, error) {
	n, err := h.retention.DeleteOldRecords(ctx, now)
	return n, errors.Join(err, h.reports.AbandonImports(ctx, now))
}

// tendImports ends imports that wait for too long, and deletes the uploads of finished ones and the
// rows of undone imports.
func (h *housekeeping) tendImports(ctx context.Context, now model.Instant) (int64, error) {
	n, err := h.imports.Tend(ctx, now)
	return n, errors.Join(err, h.reports.PurgeUndone(ctx))
}

// checkDomains looks up the DNS records of providers' domains.
func (h *housekeeping) checkDomains(ctx context.Context, now model.Instant) (int64, error) {
	return h.accounts.Providers.CheckDomains(ctx, h.resolver, now)
}

// continueMoves carries on the moves of sites and accounts to other cells. While the default cell
// is the only one, it does nothing.
func (h *housekeeping) continueMoves(ctx context.Context, _ model.Instant) (int64, error) {
	return h.cells.Continue(ctx)
}

// endWaiting makes deliveries due after their site has got an address, and ends deliveries that
// waited for too long.
func (h *housekeeping) endWaiting(ctx context.Context, now model.Instant) (int64, error) {
	resumed, ended, err := h.outbox.TendWaiting(ctx, now)
	h.report(ctx, "waiting deliveries resumed", resumed)
	return ended, err
}

// planDailyExports writes the deliveries of the days that have ended.
func (h *housekeeping) planDailyExports(ctx context.Context, now model.Instant) (int64, error) {
	n, err := h.exports.PlanDailyExports(ctx, now)
	return int64(n), err
}

// noteQuotas writes the notices of sites and captcha accounts that have used 80 % or 100 % of their
// quota. It also logs all notices and queues their mails, also for those that the data plane wrote,
// and counts the used quotas for QuotaWarning. Of the captcha, the month of an hour ago is checked, too, for use in the last minutes of a month.
func (h *housekeeping) noteQuotas(ctx context.Context, now model.Instant) (int64, error) {
	months := []model.Month{now.Add(-time.Hour).Month(), now.Month()}
	if months[0] == months[1] {
		months = months[:1]
	}

	if _, err := h.outbox.NoteSiteQuotas(ctx, now); err != nil {
		return 0, err
	}
	for _, month := range months {
		if _, err := h.outbox.NoteCaptchaQuotas(ctx, month, now); err != nil {
			return 0, err
		}
	}

	mailed, err := h.outbox.MailQuotaNotices(ctx, now)
	for _, n := range mailed {
		h.log.WarnContext(ctx, "a monthly quota is nearly used up", "product", n.Product, "account", n.AccountID,
			"site", n.Site, "percent", n.Threshold, "quota", n.Quota, "month", n.Month.String())
	}
	if err != nil {
		return 0, err
	}

	used, err := h.outbox.UsedQuotas(ctx, now.Month())
	h.usedQuotas.Store(&usedQuotas{len(used), time.Now()})
	return 0, err
}

// usedQuotas is how many quotas were nearly used up at a time.
type usedQuotas struct {
	n  int
	at time.Time
}

// quotasLast is how long a count of used quotas holds: the task that counts runs every five minutes,
// in a process of its own choice.
const quotasLast = 15 * time.Minute

// quotaWarning is QuotaWarning. It names no site, because anyone can read it.
func (h *housekeeping) quotaWarning() string {
	used := h.usedQuotas.Load()
	if used == nil || used.n == 0 || time.Since(used.at) > quotasLast {
		return ""
	}
	return fmt.Sprintf("%d monthly quotas are used to 80 %% or more", used.n)
}

// report logs what a task did in addition to what its row of the schedule names.
func (h *housekeeping) report(ctx context.Context, what string, n int64) {
	logDone(ctx, h.log, what, n)
}
