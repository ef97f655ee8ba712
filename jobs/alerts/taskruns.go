package alerts

import (
	"context"
	"errors"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
)

// noteTime is how long noting the end of a run may take.
const noteTime = 10 * time.Second

// TaskRuns notes how the runs of periodic tasks end, for all processes: one task runs in any of
// them.
type TaskRuns struct {
	store *alerts.Store
	now   func() time.Time
}

// NewTaskRuns returns the notes of a database.
func NewTaskRuns(d *db.DB, now func() time.Time) *TaskRuns { return &TaskRuns{alerts.New(d), now} }

// Noted returns a task that notes how its runs end.
func (r *TaskRuns) Noted(name string, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		if errors.Is(ctx.Err(), context.Canceled) {
			// The process ends.
			return err
		}
		return errors.Join(err, r.ended(context.WithoutCancel(ctx), name, err))
	}
}

// ended notes the end of a run.
func (r *TaskRuns) ended(ctx context.Context, name string, failed error) error {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()

	if failed != nil {
		return r.store.TaskFailed(ctx, name, model.At(r.now()))
	}
	return r.store.TaskSucceeded(ctx, name, model.At(r.now()))
}
