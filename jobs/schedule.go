package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/queue"
)

// newSchedule returns all periodic tasks. A task that deletes or that happens once must not run
// while the time is uncertain; the others only delay work if they err.
func (w *Worker) newSchedule() []queue.Periodic {
	return []queue.Periodic{
		{Name: "housekeeping:sessions", Every: time.Hour, Run: w.whenCertain(w.deleteSessions)},
		{Name: "housekeeping:sign-in-failures", Every: time.Hour, Run: w.whenCertain(w.deleteSignInFailures)},
		{Name: "housekeeping:expired-secrets", Every: time.Hour, Run: w.whenCertain(w.deleteExpiredSecrets)},
		{Name: "housekeeping:deleted-sites", Every: time.Minute, Run: w.whenCertain(w.purgeDeletedSites)},
		{Name: "housekeeping:user-erasures", Every: time.Minute, Run: w.now(w.eraseUsers)},
		{Name: "housekeeping:captcha-spent", Every: 10 * time.Minute, Run: w.whenCertain(w.deleteSpent)},
		{Name: "housekeeping:day-salts", Every: time.Hour, Run: w.whenCertain(w.destroyDaySalts)},
		{Name: "housekeeping:partitions", Every: time.Hour, Run: w.now(w.ensurePartitions)},
		// Hourly, because a busy table may refuse it.
		{Name: "housekeeping:old-data", Every: time.Hour, Run: w.whenCertain(w.dropOldData)},
		{Name: "housekeeping:detached", Every: time.Hour, Run: w.whenCertain(w.dropDetached)},
		{Name: "housekeeping:schedule", Every: 5 * time.Minute, Run: w.now(w.correctSchedule)},
		{Name: "housekeeping:dates", Every: 5 * time.Minute, Run: w.whenCertain(w.correctDates)},
		{Name: "housekeeping:old-records", Every: 24 * time.Hour, Run: w.whenCertain(w.deleteOldRecords)},
		{Name: "exports:plan", Every: 5 * time.Minute, Run: w.whenCertain(w.planDailyExports)},
		{Name: "quotas:note", Every: 5 * time.Minute, Run: w.now(w.noteQuotas)},
	}
}

// whenCertain runs a task with the database's time if that is certain. Otherwise the task waits for
// its next period.
func (w *Worker) whenCertain(task func(context.Context, model.Instant) error) func(context.Context) error {
	return func(ctx context.Context) error {
		now, err := w.clock.Certain(ctx)
		if errors.Is(err, errUncertain) {
			return nil
		}
		if err != nil {
			return err
		}

		return task(ctx, now)
	}
}

// now runs a task with the database's time, certain or not.
func (w *Worker) now(task func(context.Context, model.Instant) error) func(context.Context) error {
	return func(ctx context.Context) error {
		now, err := w.clock.Now(ctx)
		if err != nil {
			return err
		}
		return task(ctx, now)
	}
}
