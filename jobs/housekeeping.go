package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
)

// housekeeping is what the schedule runs. Each task takes the database's time and is idempotent.
type housekeeping struct {
	db              *db.DB
	accounts        *accounts.Store
	outbox          *outbox.Store
	retention       *retention.Store
	log             *slog.Logger
	exports         exportPlanner
	reports         *reports.Store
	built           func(reports.Built) // counts what buildReports has done
	reportMails     *reportPlanner
	sites           *sites.Store
	cells           *cells.Store
	retentionMonths int // see Options
	reportMonths    int // see Options
}

// exportPlanner plans the daily exports.
type exportPlanner interface {
	PlanDailyExports(ctx context.Context, now model.Instant) (int, error)
}

// deleteSessions deletes expired sessions.
func (h *housekeeping) deleteSessions(ctx context.Context, now model.Instant) error {
	n, err := h.accounts.DeleteExpiredSessions(ctx, now)
	h.report(ctx, "expired sessions deleted", n)
	return err
}

// deleteSignInFailures deletes failed sign-ins that no longer throttle any caller.
func (h *housekeeping) deleteSignInFailures(ctx context.Context, now model.Instant) error {
	n, err := h.accounts.DeleteOldSignInFailures(ctx, now)
	h.report(ctx, "old sign-in failures deleted", n)
	return err
}

// deleteExpiredSecrets deletes expired password resets, invitations and pending sign-ups, and the old
// secrets of sites and sitekeys that have expired.
func (h *housekeeping) deleteExpiredSecrets(ctx context.Context, now model.Instant) error {
	n, err := h.accounts.DeleteExpiredSecrets(ctx, now)
	h.report(ctx, "expired password resets, invitations and sign-ups deleted", n)

	old, oldErr := h.sites.DeleteExpiredSecrets(ctx, now)
	h.report(ctx, "expired old secrets of sites and sitekeys deleted", old)

	return errors.Join(err, oldErr)
}

// purgeDeletedSites deletes the sites that can no longer be restored, and then the remaining rows of
// all sites that were deleted for good: those of large ones, and hits that were in flight.
func (h *housekeeping) purgeDeletedSites(ctx context.Context, now model.Instant) error {
	expired, err := h.sites.ExpireDeletedSites(ctx, now)
	h.report(ctx, "deleted sites that can no longer be restored", expired)
	if err != nil {
		return err
	}

	n, err := h.retention.PurgeDeletedSites(ctx, now)
	h.report(ctx, "rows of deleted sites deleted", n)
	return err
}

// eraseUsers continues the erasures of the data of pseudonymous user ids.
func (h *housekeeping) eraseUsers(ctx context.Context, now model.Instant) error {
	n, err := h.retention.EraseUsers(ctx, now)
	h.report(ctx, "rows of users erased on request", n)
	return err
}

// deleteConsumed deletes captcha challenges and tokens that were consumed and have expired since.
func (h *housekeeping) deleteConsumed(ctx context.Context, now model.Instant) error {
	n, err := h.retention.DeleteConsumed(ctx, now)
	h.report(ctx, "consumed challenges and tokens deleted", n)
	return err
}

// destroyDaySalts destroys the salts of days that ended at least 24 hours ago. After that the day's
// visitor ids cannot be computed again, even with the application key.
func (h *housekeeping) destroyDaySalts(ctx context.Context, now model.Instant) error {
	n, err := ingest.New(h.db).DestroyDaySalts(ctx, now.Day()-1)
	h.report(ctx, "day salts destroyed", n)
	return err
}

// ensurePartitions creates the partitions of the coming months.
func (h *housekeeping) ensurePartitions(ctx context.Context, now model.Instant) error {
	return h.retention.EnsurePartitions(ctx, now)
}

// dropOldData removes visits, page views and events of months before the retention; see
// Options.RetentionMonths. Months whose reports are not built yet wait.
func (h *housekeeping) dropOldData(ctx context.Context, now model.Instant) error {
	if h.retentionMonths == 0 {
		return nil
	}

	before, err := h.retention.KeptFrom(ctx, now, h.retentionMonths)
	if err != nil || before == 0 {
		return err
	}

	if err := h.buildReports(ctx, now); err != nil {
		return err
	}
	ready, err := h.reports.Seal(ctx, before, now)
	if err != nil {
		return err
	}

	if !ready {
		h.log.InfoContext(ctx, "old months are kept until their reports are built", "before", before.String())
		return nil
	}

	dropped, err := h.retention.DropOldData(ctx, now, h.retentionMonths)
	h.report(ctx, "partitions of old months detached", dropped.Partitions)
	h.report(ctx, "rows of old months deleted", dropped.Rows)
	return err
}

// buildTime bounds one run of buildReports. It ends before the task's own deadline.
const buildTime = 5 * time.Minute

// buildReports builds the reports of finished days and merges those of finished months. After an
// update from a release without reports the work of many runs is due.
func (h *housekeeping) buildReports(ctx context.Context, now model.Instant) error {
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
		return nil
	}
	return err
}

// errBuildTime is the cause that ends a run of buildReports.
var errBuildTime = errors.New("the time of one run is over")

// deleteOldReports deletes reports of months before their retention; see Options.ReportMonths.
func (h *housekeeping) deleteOldReports(ctx context.Context, now model.Instant) error {
	if h.reportMonths == 0 {
		return nil
	}
	n, err := h.retention.DeleteOldReports(ctx, now, h.reportMonths)
	h.report(ctx, "rows of old reports deleted", n)
	return err
}

// dropDetached drops the partitions that dropOldData detached a day ago.
func (h *housekeeping) dropDetached(ctx context.Context, now model.Instant) error {
	n, err := h.retention.DropDetached(ctx, now)
	h.report(ctx, "partitions of old months dropped", n)
	return err
}

// deleteOldRecords deletes old counters and deliveries, and the rest of interrupted imports.
func (h *housekeeping) deleteOldRecords(ctx context.Context, now model.Instant) error {
	n, err := h.retention.DeleteOldRecords(ctx, now)
	h.report(ctx, "old records deleted", n)
	return errors.Join(err, h.reports.AbandonImports(ctx, now))
}

// continueMoves carries on the moves of sites and accounts to other cells. While the default cell is the only one, it
// does nothing.
func (h *housekeeping) continueMoves(ctx context.Context) error {
	n, err := h.cells.Continue(ctx)
	h.report(ctx, "moves of sites and accounts to other cells finished", n)
	return err
}

// correctSchedule makes deliveries and mails due that a wrong clock has postponed too far.
func (h *housekeeping) correctSchedule(ctx context.Context, now model.Instant) error {
	n, err := h.retention.CorrectSchedule(ctx, now)
	h.report(ctx, "deliveries and mails rescheduled that a wrong clock had postponed", n)
	return err
}

// tendWaiting makes deliveries due whose site has got an address, and ends those that have waited for
// too long.
func (h *housekeeping) tendWaiting(ctx context.Context, now model.Instant) error {
	resumed, ended, err := h.outbox.TendWaiting(ctx, now)
	h.report(ctx, "waiting deliveries resumed", resumed)
	h.report(ctx, "deliveries failed that waited for an address", ended)
	return err
}

// correctDates corrects rows that a wrong clock has dated into the future.
func (h *housekeeping) correctDates(ctx context.Context, now model.Instant) error {
	n, err := h.retention.CorrectDates(ctx, now)
	h.report(ctx, "rows corrected that a wrong clock had dated into the future", n)
	return err
}

// planDailyExports writes the deliveries of the days that have ended.
func (h *housekeeping) planDailyExports(ctx context.Context, now model.Instant) error {
	n, err := h.exports.PlanDailyExports(ctx, now)
	h.report(ctx, "parts of daily exports planned", int64(n))
	return err
}

// countUsageDays counts each site's usage of the days that have ended.
func (h *housekeeping) countUsageDays(ctx context.Context, now model.Instant) error {
	n, err := h.sites.CountUsageDays(ctx, now)
	h.report(ctx, "days of usage counted", n)
	return err
}

// mailExpiringTokens queues the mails about API tokens that expire soon.
func (h *housekeeping) mailExpiringTokens(ctx context.Context, now model.Instant) error {
	n, err := h.accounts.MailExpiringTokens(ctx, now)
	h.report(ctx, "mails about expiring API tokens queued", n)
	return err
}

// planReportMails queues the summaries and traffic alerts that are due.
func (h *housekeeping) planReportMails(ctx context.Context, now model.Instant) error {
	n, err := h.reportMails.plan(ctx, now)
	h.report(ctx, "report mails queued", n)
	return err
}

// noteQuotas writes the notices of sites and captcha accounts that have used 80 % or 100 % of their
// quota. It also queues the mails of all notices, including those that the data plane wrote. Of the
// captcha, the month of an hour ago is checked, too, for use in the last minutes of a month.
func (h *housekeeping) noteQuotas(ctx context.Context, now model.Instant) error {
	months := []model.Month{now.Add(-time.Hour).Month(), now.Month()}
	if months[0] == months[1] {
		months = months[:1]
	}

	if _, err := h.outbox.NoteSiteQuotas(ctx, now); err != nil {
		return err
	}
	for _, month := range months {
		if _, err := h.outbox.NoteCaptchaQuotas(ctx, month, now); err != nil {
			return err
		}
	}

	n, err := h.outbox.MailQuotaNotices(ctx, now)
	h.report(ctx, "quota notices mailed", int64(n))
	return err
}

// report logs what a task did, if it did anything.
func (h *housekeeping) report(ctx context.Context, what string, n int64) {
	if n > 0 {
		h.log.InfoContext(ctx, what, "count", n)
	}
}
