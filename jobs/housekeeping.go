package jobs

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// deleteSessions deletes expired sessions.
func (w *Worker) deleteSessions(ctx context.Context, now model.Instant) error {
	n, err := w.db.DeleteExpiredSessions(ctx, now)
	w.report(ctx, "expired sessions deleted", n)
	return err
}

// deleteSignInFailures deletes failed sign-ins that no longer throttle any caller.
func (w *Worker) deleteSignInFailures(ctx context.Context, now model.Instant) error {
	n, err := w.db.DeleteOldSignInFailures(ctx, now)
	w.report(ctx, "old sign-in failures deleted", n)
	return err
}

// deleteExpiredSecrets deletes expired password resets, invitations and pending sign-ups.
func (w *Worker) deleteExpiredSecrets(ctx context.Context, now model.Instant) error {
	n, err := w.db.DeleteExpiredSecrets(ctx, now)
	w.report(ctx, "expired password resets, invitations and sign-ups deleted", n)
	return err
}

// purgeDeletedSites deletes the remaining rows of deleted sites: those of large ones, and hits that
// were in flight.
func (w *Worker) purgeDeletedSites(ctx context.Context, now model.Instant) error {
	n, err := w.db.PurgeDeletedSites(ctx, now)
	w.report(ctx, "rows of deleted sites deleted", n)
	return err
}

// eraseUsers continues the erasures of the data of pseudonymous user ids.
func (w *Worker) eraseUsers(ctx context.Context, now model.Instant) error {
	n, err := w.db.EraseUsers(ctx, now)
	w.report(ctx, "rows of users erased on request", n)
	return err
}

// deleteSpent deletes captcha challenges and tokens that were consumed and have expired since.
func (w *Worker) deleteSpent(ctx context.Context, now model.Instant) error {
	n, err := w.db.DeleteSpent(ctx, now)
	w.report(ctx, "consumed challenges and tokens deleted", n)
	return err
}

// destroyDaySalts destroys the salts of days that ended at least 24 hours ago. After that the day's
// visitor ids cannot be computed again, even with the application key.
func (w *Worker) destroyDaySalts(ctx context.Context, now model.Instant) error {
	n, err := w.db.DestroyDaySalts(ctx, now.Day()-1)
	w.report(ctx, "day salts destroyed", n)
	return err
}

// ensurePartitions creates the partitions of the coming months.
func (w *Worker) ensurePartitions(ctx context.Context, now model.Instant) error {
	return w.db.EnsurePartitions(ctx, now)
}

// dropOldData removes visits, page views and events of months before the retention; see
// Options.RetentionMonths.
func (w *Worker) dropOldData(ctx context.Context, now model.Instant) error {
	if w.retentionMonths == 0 {
		return nil
	}
	dropped, err := w.db.DropOldData(ctx, now, w.retentionMonths)
	w.report(ctx, "partitions of old months detached", dropped.Partitions)
	w.report(ctx, "rows of old months deleted", dropped.Rows)
	return err
}

// dropDetached drops the partitions that dropOldData detached a day ago.
func (w *Worker) dropDetached(ctx context.Context, now model.Instant) error {
	n, err := w.db.DropDetached(ctx, now)
	w.report(ctx, "partitions of old months dropped", n)
	return err
}

// deleteOldRecords deletes old counters and deliveries.
func (w *Worker) deleteOldRecords(ctx context.Context, now model.Instant) error {
	n, err := w.db.DeleteOldRecords(ctx, now)
	w.report(ctx, "old records deleted", n)
	return err
}

// correctSchedule makes deliveries and mails due that a wrong clock has postponed too far.
func (w *Worker) correctSchedule(ctx context.Context, now model.Instant) error {
	n, err := w.db.CorrectSchedule(ctx, now)
	w.report(ctx, "deliveries and mails rescheduled that a wrong clock had postponed", n)
	return err
}

// correctDates corrects rows that a wrong clock has dated into the future.
func (w *Worker) correctDates(ctx context.Context, now model.Instant) error {
	n, err := w.db.CorrectDates(ctx, now)
	w.report(ctx, "rows corrected that a wrong clock had dated into the future", n)
	return err
}

// planDailyExports writes the deliveries of the days that have ended.
func (w *Worker) planDailyExports(ctx context.Context, now model.Instant) error {
	n, err := w.webhooks.PlanDailyExports(ctx, now)
	w.report(ctx, "parts of daily exports planned", int64(n))
	return err
}

// noteQuotas writes the notices of sites and captcha accounts that have used 80 % or 100 % of their
// quota. It also queues the mails of all notices, including those that the data plane wrote. The
// month of an hour ago is checked, too, for use in the last minutes of a month.
func (w *Worker) noteQuotas(ctx context.Context, now model.Instant) error {
	months := []model.Month{now.Add(-time.Hour).Month(), now.Month()}
	if months[0] == months[1] {
		months = months[:1]
	}

	for _, month := range months {
		if _, err := w.db.NoteSiteQuotas(ctx, month, now); err != nil {
			return err
		}
		if _, err := w.db.NoteCaptchaQuotas(ctx, month, now); err != nil {
			return err
		}
	}

	n, err := w.db.MailQuotaNotices(ctx, now)
	w.report(ctx, "quota notices mailed", int64(n))
	return err
}

// report logs what a task did, if it did anything.
func (w *Worker) report(ctx context.Context, what string, n int64) {
	if n > 0 {
		w.log.InfoContext(ctx, what, "count", n)
	}
}
