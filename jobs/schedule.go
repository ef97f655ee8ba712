package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/alerts"
	"github.com/tallygate/tallygate/jobs/queue"
)

// task is a row of the schedule. It is idempotent.
type task struct {
	name  string // the same in all versions of the program
	every time.Duration
	time  timeNeed
	run   func(ctx context.Context, now model.Instant) (done int64, err error)
	did   string // the log line with the number done; "": the task logs itself
}

// timeNeed is which time a task can run at.
type timeNeed int

// A task needs a certain time if it deletes rows by their age or does once what a later time would
// have done otherwise. The others erase what was requested, create partitions, finish moves, and
// note the quotas of the current month. They and the task that makes work due again are right, or
// only too late, at a wrong time.
const (
	certain timeNeed = iota // the database's time; the task waits for its next period while it is uncertain
	anyTime                 // the database's time, certain or not
)

// tasks returns the rows of the schedule.
func (h *housekeeping) tasks() []task {
	return []task{
		// What has expired or was deleted.
		{"housekeeping:sessions", time.Hour, certain, h.accounts.Sessions.DeleteExpired, "expired sessions deleted"},
		{"housekeeping:sign-in-failures", time.Hour, certain, h.accounts.SignIns.DeleteOld,
			"old sign-in failures deleted"},
		{"housekeeping:expired-secrets", time.Hour, certain, h.deleteExpiredSecrets,
			"expired old secrets of sites and sitekeys deleted"},
		{"housekeeping:deleted-sites", time.Minute, certain, h.purgeDeletedSites, "rows of deleted sites deleted"},
		{"housekeeping:user-erasures", time.Minute, anyTime, h.retention.EraseUsers, "rows of users erased on request"},
		{"housekeeping:captcha-spent", 10 * time.Minute, certain, h.retention.DeleteConsumed,
			"consumed challenges and tokens deleted"},
		{"housekeeping:day-salts", time.Hour, certain, h.destroyDaySalts, "day salts destroyed"},

		// Partitions and old months. A busy table may refuse to lose a month, so that is tried
		// every hour.
		{"housekeeping:partitions", time.Hour, anyTime, h.ensurePartitions, ""},
		{"housekeeping:old-data", time.Hour, certain, h.dropOldData, "rows of old months deleted"},
		{"housekeeping:detached", time.Hour, certain, h.retention.DropDetached, "partitions of old months dropped"},

		// Moves of sites that a command has left, and the rows that they leave behind.
		{"cells:moves", 10 * time.Second, anyTime, h.continueMoves, "moves of sites and accounts to other cells finished"},

		// What a wrong clock has left behind, and old counters.
		{"housekeeping:schedule", 5 * time.Minute, anyTime, h.retention.CorrectSchedule,
			"deliveries and mails rescheduled that a wrong clock had postponed"},
		{"housekeeping:dates", 5 * time.Minute, certain, h.retention.CorrectDates,
			"rows corrected that a wrong clock had dated into the future"},
		{"housekeeping:old-records", 24 * time.Hour, certain, h.deleteOldRecords, "old records deleted"},

		// Reports.
		{"reports:build", time.Minute, certain, h.buildReports, ""},
		{"imports:tend", time.Minute, certain, h.tendImports, "pieces of finished uploads deleted"},
		{"housekeeping:old-reports", 24 * time.Hour, certain, h.deleteOldReports, "rows of old reports deleted"},

		// Deliveries, exports, usage, mails and notices.
		{"deliveries:waiting", time.Minute, certain, h.endWaiting, "deliveries failed that waited for an address"},
		{"exports:plan", 5 * time.Minute, certain, h.planDailyExports, "parts of daily exports planned"},
		{"usage:days", 10 * time.Minute, certain, h.sites.Usage.CountUsageDays, "days of usage counted"},
		{"alerts:plan", time.Minute, certain, h.planner.Plan, "planned messages of alert channels queued"},
		{"tokens:expiry", time.Hour, certain, h.accounts.Tokens.MailExpiring, "mails about expiring API tokens queued"},
		{"providers:domains", 10 * time.Minute, certain, h.checkDomains, "domains of providers lost without their DNS record"},
		{"alerts:watch", alerts.Every, certain, h.watcher.Watch, "alerts begun or ended"},
		{"quotas:note", 5 * time.Minute, anyTime, h.noteQuotas, ""},
	}
}

// newSchedule returns all periodic tasks, which read the time from c.
func newSchedule(c *clock, h *housekeeping) []queue.Periodic {
	var schedule []queue.Periodic
	for _, t := range h.tasks() {
		run := func(ctx context.Context) error { return t.runAt(ctx, c, h.log) }
		schedule = append(schedule, queue.Periodic{Name: t.name, Every: t.every, Run: run})
	}
	return schedule
}

// runAt runs the task with the time of c, and logs what it did.
func (t *task) runAt(ctx context.Context, c *clock, log *slog.Logger) error {
	read := c.Certain
	if t.time == anyTime {
		read = c.Now
	}
	now, err := read(ctx)
	if errors.Is(err, errUncertain) {
		return nil
	}
	if err != nil {
		return err
	}

	done, err := t.run(ctx, now)
	logDone(ctx, log, t.did, done)
	return err
}

// logDone logs what a task did, if it did anything.
func logDone(ctx context.Context, log *slog.Logger, did string, n int64) {
	if n > 0 && did != "" {
		log.InfoContext(ctx, did, "count", n)
	}
}
