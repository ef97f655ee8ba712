package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TaskRun is how the last runs of a periodic task ended, in all processes.
type TaskRun struct {
	Name          string
	Failures      int           // since the last success
	FirstFailedAt model.Instant // of these failures
}

// taskMemory is how long a task without further runs is known. It may have another name in a newer
// program.
const taskMemory = 72 * time.Hour

// TaskFailed stores that a run of a task has failed.
func (s *Store) TaskFailed(ctx context.Context, name string, now model.Instant) error {
	_, err := s.db.Write.ExecContext(ctx, `
INSERT INTO task_runs (name, failures, first_failed_at, failed_at, succeeded_at) VALUES (?, 1, ?, ?, 0)
ON CONFLICT (name) DO UPDATE SET failures = task_runs.failures + 1, failed_at = excluded.failed_at,
first_failed_at = CASE WHEN task_runs.failures = 0 THEN excluded.first_failed_at ELSE task_runs.first_failed_at END`,
		name, now, now)
	if err != nil {
		return fmt.Errorf("note a failure of the task %s: %w", name, err)
	}
	return nil
}

// TaskSucceeded stores that a run of a task has succeeded. It writes only after a failure, of any
// process.
func (s *Store) TaskSucceeded(ctx context.Context, name string, now model.Instant) error {
	failed, err := s.db.Read.NewSelect().Table("task_runs").Where("name = ?", name).Where("failures > 0").Exists(ctx)
	if err == nil && failed {
		_, err = s.db.Write.NewUpdate().Table("task_runs").Set("failures = 0, succeeded_at = ?", now).
			Where("name = ?", name).Exec(ctx)
	}
	if err != nil {
		return fmt.Errorf("note a success of the task %s: %w", name, err)
	}
	return nil
}

// TaskRuns returns the tasks that have failed once, except those without further runs for some
// days.
func (s *Store) TaskRuns(ctx context.Context, now model.Instant) ([]TaskRun, error) {
	var runs []TaskRun
	err := s.db.Read.NewSelect().Table("task_runs").Column("name", "failures", "first_failed_at").
		Where("failures = 0 OR failed_at > ?", now.Add(-taskMemory)).Order("name").Scan(ctx, &runs)
	if err != nil {
		return nil, fmt.Errorf("read the failed tasks: %w", err)
	}
	return runs, nil
}
