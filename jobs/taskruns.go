package jobs

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/alertrules"
)

// taskRuns is how the last runs of each periodic task in this process ended.
type taskRuns struct {
	mu    sync.Mutex
	tasks map[string]alertrules.Task
}

// noted returns a task that notes how its runs end.
func (r *taskRuns) noted(name string, run func(context.Context) error, now func() time.Time) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		r.ended(name, err, model.At(now()))
		return err
	}
}

// ended notes the end of a run.
func (r *taskRuns) ended(name string, err error, now model.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.tasks == nil {
		r.tasks = make(map[string]alertrules.Task)
	}
	if err == nil {
		r.tasks[name] = alertrules.Task{}
		return
	}

	task := r.tasks[name]
	if task.Failures++; task.Failures == 1 {
		task.Since = now
	}
	r.tasks[name] = task
}

// current returns a copy. Tasks that have not run in this process are not in it.
func (r *taskRuns) current() map[string]alertrules.Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.tasks)
}
