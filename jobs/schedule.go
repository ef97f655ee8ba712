package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// periodic is a task that runs once in each period of the UTC clock, in one of the workers.
type periodic struct {
	name  string // its type in the queue; it stays when the program changes
	every time.Duration
	run   func(*Jobs, context.Context) error
}

// schedule is everything that happens on time. Each task is idempotent: a Redis that forgets may
// run it again.
var schedule = []periodic{
	{"housekeeping:sessions", time.Hour, whenCertain((*Jobs).deleteSessions)},
	{"housekeeping:sign-in-failures", time.Hour, whenCertain((*Jobs).deleteSignInFailures)},
	{"housekeeping:expired-secrets", time.Hour, whenCertain((*Jobs).deleteExpiredSecrets)},
	{"housekeeping:deleted-sites", time.Minute, whenCertain((*Jobs).purgeDeletedSites)},
	{"housekeeping:user-erasures", time.Minute, (*Jobs).eraseUsers},
	{"housekeeping:captcha-spent", 10 * time.Minute, whenCertain((*Jobs).deleteSpent)},
	{"housekeeping:day-salts", time.Hour, whenCertain((*Jobs).destroyDaySalts)},
	{"housekeeping:partitions", time.Hour, (*Jobs).ensurePartitions},
	{"housekeeping:old-data", time.Hour, whenCertain((*Jobs).dropOldData)}, // hourly, because a busy table may refuse it
	{"housekeeping:detached", time.Hour, whenCertain((*Jobs).dropDetached)},
	{"housekeeping:schedule", 5 * time.Minute, (*Jobs).correctSchedule},
	{"housekeeping:dates", 5 * time.Minute, whenCertain((*Jobs).correctDates)},
	{"housekeeping:old-records", 24 * time.Hour, whenCertain((*Jobs).deleteOldRecords)},
	{"exports:plan", 5 * time.Minute, whenCertain((*Jobs).planDailyExports)},
	{"quotas:note", 5 * time.Minute, (*Jobs).noteQuotas},
}

// tick puts the tasks of the current periods into the queue, again and again, until Stop. Every
// worker does: the task's id carries its period, so that the queue takes it once. While there is no
// queue, every worker runs them.
func (j *Jobs) tick() {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()

	for {
		j.watchClock()
		err := j.enqueueDue()
		j.noteQueue(err)

		if err != nil && j.ctx.Err() == nil {
			j.runScheduleDirectly()
		}

		select {
		case <-j.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (j *Jobs) enqueueDue() error {
	ctx, cancel := context.WithTimeout(j.ctx, enqueueTimeout)
	defer cancel()

	// asynq's tools list the queues that are in this set. Its clients fill it once, and a Redis
	// that forgot stays forgotten.
	if err := j.redis.SAdd(ctx, "asynq:queues", defaultQueue, deliveryQueue).Err(); err != nil {
		return fmt.Errorf("name the queues: %w", err)
	}

	now := j.now().UTC()
	for _, task := range j.schedule {
		period := now.Truncate(task.every)
		_, err := j.client.EnqueueContext(ctx, asynq.NewTask(task.name, nil),
			asynq.TaskID(fmt.Sprintf("%s:%d", task.name, period.Unix())),
			asynq.Retention(task.every), // remembered for as long as its id could be enqueued again
			asynq.MaxRetry(taskRetries),
			asynq.Timeout(taskTimeout),
		)
		if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
			return fmt.Errorf("enqueue %s: %w", task.name, err)
		}
	}

	return nil
}
