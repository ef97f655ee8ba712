package jobs

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
)

// deleteSessions deletes sessions that nobody can use any more.
func (j *Jobs) deleteSessions(ctx context.Context, now model.Instant) error {
	n, err := j.accounts.DeleteExpiredSessions(ctx, now)
	j.report(ctx, "expired sessions deleted", n)
	return err
}

// deleteSignInFailures forgets failed sign-ins that no longer slow anybody down.
func (j *Jobs) deleteSignInFailures(ctx context.Context, now model.Instant) error {
	n, err := j.accounts.DeleteOldSignInFailures(ctx, now)
	j.report(ctx, "old sign-in failures deleted", n)
	return err
}

// deleteExpiredSecrets deletes expired password resets, invitations and pending sign-ups.
func (j *Jobs) deleteExpiredSecrets(ctx context.Context, now model.Instant) error {
	n, err := j.accounts.DeleteExpiredSecrets(ctx, now)
	j.report(ctx, "expired password resets, invitations and sign-ups deleted", n)
	return err
}

// purgeDeletedSites deletes what deleted sites have left: the rest of a large one, and hits that
// were on their way.
func (j *Jobs) purgeDeletedSites(ctx context.Context, now model.Instant) error {
	n, err := j.retention.PurgeDeletedSites(ctx, now)
	j.report(ctx, "rows of deleted sites deleted", n)
	return err
}

// eraseUsers goes on with erasures of what was stored of a pseudonymous user id.
func (j *Jobs) eraseUsers(ctx context.Context) error {
	now, err := j.dbNow(ctx)
	if err != nil {
		return err
	}
	n, err := j.retention.EraseUsers(ctx, now)
	j.report(ctx, "rows of users erased on request", n)
	return err
}

// deleteSpent forgets captcha challenges and tokens that were used and have expired since.
func (j *Jobs) deleteSpent(ctx context.Context, now model.Instant) error {
	n, err := j.retention.DeleteSpent(ctx, now)
	j.report(ctx, "used challenges and tokens deleted", n)
	return err
}

// destroyDaySalts destroys the salts of days that ended 24 hours ago or earlier: from then on
// nobody can compute that day's visitor ids again, even with the application key.
func (j *Jobs) destroyDaySalts(ctx context.Context, now model.Instant) error {
	n, err := j.db.DestroyDaySalts(ctx, now.Day()-1)
	j.report(ctx, "day salts destroyed", n)
	return err
}

// ensurePartitions makes the coming months' partitions.
func (j *Jobs) ensurePartitions(ctx context.Context) error {
	now, err := j.dbNow(ctx)
	if err != nil {
		return err
	}
	return j.retention.EnsurePartitions(ctx, now)
}

// dropOldData takes away visits, page views and events that are older than the installation keeps
// them: beside the current month it keeps as many whole months as it is told.
func (j *Jobs) dropOldData(ctx context.Context, now model.Instant) error {
	if j.retentionMonths == 0 {
		return nil
	}
	dropped, err := j.retention.DropOldData(ctx, now, j.retentionMonths)
	j.report(ctx, "partitions of old months detached", dropped.Partitions)
	j.report(ctx, "rows of old months deleted", dropped.Rows)
	return err
}

// dropDetached drops partitions that dropOldData detached a day ago.
func (j *Jobs) dropDetached(ctx context.Context, now model.Instant) error {
	n, err := j.retention.DropDetached(ctx, now)
	j.report(ctx, "partitions of old months dropped", n)
	return err
}

// deleteOldRecords deletes counters and deliveries that nobody looks at any more.
func (j *Jobs) deleteOldRecords(ctx context.Context, now model.Instant) error {
	n, err := j.retention.DeleteOldRecords(ctx, now)
	j.report(ctx, "old records deleted", n)
	return err
}

// correctSchedule brings deliveries and mails back that a wrong clock has put off for long.
func (j *Jobs) correctSchedule(ctx context.Context) error {
	now, err := j.dbNow(ctx)
	if err != nil {
		return err
	}
	n, err := j.retention.CorrectSchedule(ctx, now)
	j.report(ctx, "deliveries and mails that a wrong clock had put off", n)
	return err
}

// correctDates brings back what a wrong clock has dated into the future.
func (j *Jobs) correctDates(ctx context.Context, now model.Instant) error {
	n, err := j.retention.CorrectDates(ctx, now)
	j.report(ctx, "rows that a wrong clock had dated into the future", n)
	return err
}

// report logs what a task did, when it did anything.
func (j *Jobs) report(ctx context.Context, what string, n int64) {
	if n > 0 {
		j.log.InfoContext(ctx, what, "count", n)
	}
}
