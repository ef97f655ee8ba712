package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/queue"
)

// newSchedule returns all periodic tasks, which read the time from c. A task waits while the time is
// uncertain if it deletes rows by their age or does once what a later time would have done otherwise.
// The others erase what was requested, create partitions, and note the quotas of the current month.
// They and the task that makes work due again are right, or only too late, at a wrong time.
func newSchedule(c *clock, h *housekeeping) []queue.Periodic {
	return []queue.Periodic{
		// What has expired or was deleted.
		{Name: "housekeeping:sessions", Every: time.Hour, Run: c.whenCertain(h.deleteSessions)},
		{Name: "housekeeping:sign-in-failures", Every: time.Hour, Run: c.whenCertain(h.deleteSignInFailures)},
		{Name: "housekeeping:expired-secrets", Every: time.Hour, Run: c.whenCertain(h.deleteExpiredSecrets)},
		{Name: "housekeeping:deleted-sites", Every: time.Minute, Run: c.whenCertain(h.purgeDeletedSites)},
		{Name: "housekeeping:user-erasures", Every: time.Minute, Run: c.withNow(h.eraseUsers)},
		{Name: "housekeeping:captcha-spent", Every: 10 * time.Minute, Run: c.whenCertain(h.deleteConsumed)},
		{Name: "housekeeping:day-salts", Every: time.Hour, Run: c.whenCertain(h.destroyDaySalts)},

		// Partitions and old months.
		{Name: "housekeeping:partitions", Every: time.Hour, Run: c.withNow(h.ensurePartitions)},
		// Hourly, because a busy table may refuse it.
		{Name: "housekeeping:old-data", Every: time.Hour, Run: c.whenCertain(h.dropOldData)},
		{Name: "housekeeping:detached", Every: time.Hour, Run: c.whenCertain(h.dropDetached)},

		// Moves of sites that a command has left, and the rows that they leave behind.
		{Name: "cells:moves", Every: 10 * time.Second, Run: h.continueMoves},

		// What a wrong clock has left behind, and old counters.
		{Name: "housekeeping:schedule", Every: 5 * time.Minute, Run: c.withNow(h.correctSchedule)},
		{Name: "housekeeping:dates", Every: 5 * time.Minute, Run: c.whenCertain(h.correctDates)},
		{Name: "housekeeping:old-records", Every: 24 * time.Hour, Run: c.whenCertain(h.deleteOldRecords)},

		// Reports.
		{Name: "reports:build", Every: time.Minute, Run: c.whenCertain(h.buildReports)},
		{Name: "housekeeping:old-reports", Every: 24 * time.Hour, Run: c.whenCertain(h.deleteOldReports)},

		// Deliveries, exports, usage, mails and notices.
		{Name: "deliveries:waiting", Every: time.Minute, Run: c.whenCertain(h.tendWaiting)},
		{Name: "exports:plan", Every: 5 * time.Minute, Run: c.whenCertain(h.planDailyExports)},
		{Name: "usage:days", Every: 10 * time.Minute, Run: c.whenCertain(h.countUsageDays)},
		{Name: "reports:mails", Every: time.Minute, Run: c.whenCertain(h.planReportMails)},
		{Name: "tokens:expiry", Every: time.Hour, Run: c.whenCertain(h.mailExpiringTokens)},
		{Name: "quotas:note", Every: 5 * time.Minute, Run: c.withNow(h.noteQuotas)},
	}
}

// whenCertain runs a task with the database's time if that is certain. Otherwise the task waits for
// its next period.
func (c *clock) whenCertain(task func(context.Context, model.Instant) error) func(context.Context) error {
	return func(ctx context.Context) error {
		now, err := c.Certain(ctx)
		if errors.Is(err, errUncertain) {
			return nil
		}
		if err != nil {
			return err
		}

		return task(ctx, now)
	}
}

// withNow runs a task with the database's time, certain or not.
func (c *clock) withNow(task func(context.Context, model.Instant) error) func(context.Context) error {
	return func(ctx context.Context) error {
		now, err := c.Now(ctx)
		if err != nil {
			return err
		}
		return task(ctx, now)
	}
}
