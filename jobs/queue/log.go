package queue

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// logEvery is the least time between two log lines with the same text.
const logEvery = time.Minute

// throttledLog passes asynq's warnings and errors on to our log, each text once a minute. During an
// outage of Redis, which the monitor logs, it passes nothing on.
type throttledLog struct {
	log    *slog.Logger
	now    func() time.Time
	outage func() bool

	mu     sync.Mutex
	logged map[string]time.Time // by message
}

// passes reports whether a message may be logged now, and counts it as logged.
func (l *throttledLog) passes(message string) bool {
	if l.outage() {
		return false
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	// A negative difference means that the clock was set back.
	now := l.now()
	if since := now.Sub(l.logged[message]); since >= 0 && since < logEvery {
		return false
	}
	if l.logged == nil || len(l.logged) > 100 {
		l.logged = make(map[string]time.Time)
	}

	l.logged[message] = now
	return true
}

// Debug implements asynq.Logger. It drops the message.
func (l *throttledLog) Debug(...any) {}

// Info implements asynq.Logger. It drops the message.
func (l *throttledLog) Info(...any) {}

// Warn implements asynq.Logger.
func (l *throttledLog) Warn(args ...any) {
	if message := fmt.Sprint(args...); l.passes(message) {
		l.log.Warn("queue", "message", message)
	}
}

// Error implements asynq.Logger.
func (l *throttledLog) Error(args ...any) {
	if message := fmt.Sprint(args...); l.passes(message) {
		l.log.Error("queue", "message", message)
	}
}

// Fatal implements asynq.Logger.
func (l *throttledLog) Fatal(args ...any) {
	l.log.Error("queue", "message", fmt.Sprint(args...))
	os.Exit(1)
}
