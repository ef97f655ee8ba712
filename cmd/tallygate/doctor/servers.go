package doctor

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/jobs/mail"
	"github.com/tallygate/tallygate/jobs/queue"
)

// checkRedis checks the servers of the job queue.
func (e *examination) checkRedis(ctx context.Context) bool {
	if e.c.RedisURL == "" {
		return false
	}

	before := e.Now()
	state, err := queue.Inspect(ctx, string(e.c.RedisURL))
	if errors.Is(err, queue.ErrNoCluster) {
		e.fault("redis-cluster", "Write redis:// in TALLYGATE_REDIS_URL.",
			"TALLYGATE_REDIS_URL is the address of a cluster, and Redis is a single server")
		return true
	}
	if err != nil {
		e.fault("redis-unreachable", "Start Redis, or correct TALLYGATE_REDIS_URL and its password. Until then workers take "+
			"due work from the database, some seconds later.", "Redis does not serve this program: %v", cause(err))
		return false
	}

	if !atLeast(state.Version, 6, 2) {
		e.fault("redis-version", "Install Redis 6.2 or newer.", "Redis is version %s", state.Version)
	}
	if state.EvictionPolicy != "noeviction" {
		e.fault("redis-eviction", "Set maxmemory-policy to noeviction in redis.conf.",
			"Redis may remove tasks when its memory is full: maxmemory-policy is %s", state.EvictionPolicy)
	}
	if state.MaxMemory > 0 && state.UsedMemory > state.MaxMemory/10*9 {
		e.warn("redis-memory", "Raise maxmemory, or give this program a Redis of its own.",
			"Redis uses %d of %d MB and refuses tasks when it is full", state.UsedMemory>>20, state.MaxMemory>>20)
	}
	if state.IsReplica {
		e.fault("redis-replica", "Name the master in TALLYGATE_REDIS_URL, or use redis-sentinel://.",
			"Redis is a replica, which accepts no tasks")
	}
	if state.SnapshotsFailed {
		e.warn("redis-snapshot", "Free space on Redis's disk, or turn snapshots off: the queue does not need them.",
			"the last snapshot of Redis failed, after which it refuses tasks by default")
	}

	if state.IsCluster && !queue.IsClusterURL(string(e.c.RedisURL)) {
		e.fault("redis-cluster", "Write redis-cluster:// in TALLYGATE_REDIS_URL.",
			"Redis is a cluster, and TALLYGATE_REDIS_URL is the address of a single server")
	}

	e.checkClock("redis-clock", "Redis's clock", state.Time, before)
	return true
}

// checkClock reports a server's clock that was read after before and differs from this process's by
// more than db.MaxClockDifference.
func (e *examination) checkClock(check, what string, at, before time.Time) {
	after := e.Now()
	ahead := max(before.Sub(at), at.Sub(after))
	if ahead <= db.MaxClockDifference {
		return
	}

	e.fault(check, health.SynchroniseClocks,
		"%s differs from this machine's by %v", what, ahead.Round(time.Second))
}

// atLeast reports whether a version such as 6.2.14 is major.minor or newer.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version+".0.0", ".", 3)
	gotMajor, err1 := strconv.Atoi(parts[0])
	gotMinor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (gotMajor > major || gotMajor == major && gotMinor >= minor)
}

// mailTimeout bounds the connection to the mail server.
const mailTimeout = 10 * time.Second

// checkMail checks the mail server, as far as that is possible without a mail.
func (e *examination) checkMail(ctx context.Context) bool {
	if e.c.SMTPURL == "" || !e.c.Has(config.RoleWorker) {
		return false
	}

	server, err := mail.NewServer(string(e.c.SMTPURL), e.c.MailFrom, nil)
	if err != nil {
		e.fault("mail-from", "Set TALLYGATE_MAIL_FROM to an address such as Tallygate <noreply@example.com>.", "%v", err)
		return false
	}

	if strings.HasSuffix(strings.TrimSuffix(e.c.MailFrom, ">"), "@localhost") {
		e.warn("mail-from", "Set TALLYGATE_MAIL_FROM to an address of your own domain.",
			"mails come from %s, which other mail servers refuse", e.c.MailFrom)
	}
	if !server.IsEncrypted() && !config.IsLoopback(server.Host()) {
		e.warn("mail-plain", "Remove tls=none from TALLYGATE_SMTP_URL.", "mails with sign-in links cross the network in plain text")
	}

	failure, failed := errors.AsType[*mail.CheckError](server.Check(ctx, mailTimeout))
	switch {
	case !failed:
	case failure.IsSender:
		e.fault("mail-sender", "Set TALLYGATE_MAIL_FROM to an address that this mail server accepts from you.",
			"the mail server refuses the sender %s: %s", e.c.MailFrom, failure.Reason)
	default:
		e.fault("mail-server", "Correct TALLYGATE_SMTP_URL, then run: tallygate admin test-mail you@example.com",
			"no mail can be sent: %s", failure.Reason)
	}

	return true
}
