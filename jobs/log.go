package jobs

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// quietEvery is how often asynq may complain of one thing.
const quietEvery = time.Minute

// quietLog hands asynq's warnings and errors on to our log, the same one once a minute. While Redis
// is away asynq complains about nothing else, in many words; the watch has said it already, so all
// of that is left out.
type quietLog struct {
	log      *slog.Logger
	now      func() time.Time
	troubled func() bool

	mu   sync.Mutex
	said map[string]time.Time
}

func (q *quietLog) pass(message string) bool {
	if q.troubled() {
		return false
	}

	q.mu.Lock()
	defer q.mu.Unlock()

	now := q.now()

	// a clock that was set back ends the silence
	if since := now.Sub(q.said[message]); since >= 0 && since < quietEvery {
		return false
	}
	if q.said == nil || len(q.said) > 100 {
		q.said = make(map[string]time.Time)
	}

	q.said[message] = now
	return true
}

// Debug implements asynq.Logger; asynq's chatter is left out.
func (q *quietLog) Debug(...any) {}

// Info implements asynq.Logger; asynq's chatter is left out.
func (q *quietLog) Info(...any) {}

// Warn implements asynq.Logger.
func (q *quietLog) Warn(args ...any) {
	if message := fmt.Sprint(args...); q.pass(message) {
		q.log.Warn("queue", "message", message)
	}
}

// Error implements asynq.Logger.
func (q *quietLog) Error(args ...any) {
	if message := fmt.Sprint(args...); q.pass(message) {
		q.log.Error("queue", "message", message)
	}
}

// Fatal implements asynq.Logger.
func (q *quietLog) Fatal(args ...any) {
	q.log.Error("queue", "message", fmt.Sprint(args...))
	os.Exit(1)
}
