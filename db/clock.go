package db

import (
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// clockSlack is how far the clock may move back, or deviate from a process's uptime, without
// counting as a jump.
const clockSlack = time.Minute

// Clock is the source of a DB's time, with this process's last readings of it.
type Clock struct {
	mu     sync.Mutex
	now    func() time.Time     // nil: the server's clock on PostgreSQL, the machine's on SQLite; tests set it
	uptime func() time.Duration // of this process; independent of the clock
	agreed reading              // when TrustedNow last returned a time
	seen   reading              // when TrustedNow last found that the clock is not trusted yet
}

// reading is a time with the uptime at which it was read.
type reading struct {
	at     model.Instant
	uptime time.Duration
}

// leadsTo reports whether the uptime between two readings explains the difference of their times.
func (r reading) leadsTo(later reading) bool {
	if r.at == 0 {
		return false
	}
	drift := later.at.Sub(r.at) - (later.uptime - r.uptime)
	return drift.Abs() <= clockSlack
}

func newClock() *Clock {
	began := time.Now()
	return &Clock{uptime: func() time.Duration { return time.Since(began) }}
}

// Set replaces the sources of the time and of the uptime, for a simulated clock. With trusted,
// TrustedNow trusts the current time; without, it starts as after a restart.
func (c *Clock) Set(now func() time.Time, uptime func() time.Duration, trusted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.now, c.uptime = now, uptime
	c.agreed, c.seen = reading{}, reading{}
	if trusted {
		c.agreed = reading{model.At(now()), uptime()}
	}
}
