package jobs

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
)

// deleteSessions deletes sessions that nobody can use any more.
func (j *Jobs) deleteSessions(ctx context.Context) error {
	n, err := j.db.DeleteExpiredSessions(ctx, model.At(j.now()))
	j.report(ctx, "expired sessions deleted", n)
	return err
}

// deleteSignInFailures forgets failed sign-ins that no longer slow anybody down.
func (j *Jobs) deleteSignInFailures(ctx context.Context) error {
	n, err := j.db.DeleteOldSignInFailures(ctx, model.At(j.now()))
	j.report(ctx, "old sign-in failures deleted", n)
	return err
}

// deleteExpiredSecrets deletes password resets and invitations that nobody can use any more.
func (j *Jobs) deleteExpiredSecrets(ctx context.Context) error {
	n, err := j.db.DeleteExpiredSecrets(ctx, model.At(j.now()))
	j.report(ctx, "expired password resets and invitations deleted", n)
	return err
}

// purgeDeletedSites deletes what deleted sites have left: the rest of a large one, and hits that were on their way.
func (j *Jobs) purgeDeletedSites(ctx context.Context) error {
	n, err := j.db.PurgeDeletedSites(ctx, model.At(j.now()))
	j.report(ctx, "rows of deleted sites deleted", n)
	return err
}

// eraseUsers goes on with erasures of what was stored of a pseudonymous user id.
func (j *Jobs) eraseUsers(ctx context.Context) error {
	n, err := j.db.EraseUsers(ctx, model.At(j.now()))
	j.report(ctx, "rows of users erased on request", n)
	return err
}

// deleteSpent forgets captcha challenges and tokens that were used and have expired since.
func (j *Jobs) deleteSpent(ctx context.Context) error {
	n, err := j.db.DeleteSpent(ctx, model.At(j.now()))
	j.report(ctx, "used challenges and tokens deleted", n)
	return err
}

// destroyDaySalts destroys the salts of days that ended 24 hours ago or earlier: from then on nobody can compute that day's
// visitor ids again, even with the application key.
func (j *Jobs) destroyDaySalts(ctx context.Context) error {
	n, err := j.db.DestroyDaySalts(ctx, model.At(j.now()).Day()-1)
	j.report(ctx, "day salts destroyed", n)
	return err
}

// ensurePartitions makes the coming months' partitions.
func (j *Jobs) ensurePartitions(ctx context.Context) error {
	return j.db.EnsurePartitions(ctx, model.At(j.now()))
}

// dropOldData takes away visits, page views and events that are older than the installation keeps them: beside the current
// month it keeps as many whole months as it is told.
func (j *Jobs) dropOldData(ctx context.Context) error {
	if j.retentionMonths == 0 {
		return nil
	}
	thisMonth := model.At(j.now()).Month().Start()
	dropped, err := j.db.DropOldData(ctx, model.At(thisMonth.AddDate(0, -j.retentionMonths, 0)).Month())
	j.report(ctx, "partitions of old months dropped", dropped.Partitions)
	j.report(ctx, "rows of old months deleted", dropped.Rows)
	return err
}

// deleteOldRecords deletes counters and deliveries that nobody looks at any more.
func (j *Jobs) deleteOldRecords(ctx context.Context) error {
	n, err := j.db.DeleteOldRecords(ctx, model.At(j.now()))
	j.report(ctx, "old records deleted", n)
	return err
}

// report logs what a task did, when it did anything.
func (j *Jobs) report(ctx context.Context, what string, n int64) {
	if n > 0 {
		j.log.InfoContext(ctx, what, "count", n)
	}
}
