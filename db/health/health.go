// Package health has the state of an installation, and the table of conditions in it that an
// operator should change. The doctor, /readyz, the console and the metrics read it; the console
// translates by name.
package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/reports"
)

// Level is how bad a finding is.
type Level string

// The levels. An error breaks a function of the service or loses acknowledged data; a warning will,
// or weakens it.
const (
	Error   Level = "error"
	Warning Level = "warning"
)

// Finding is one thing that an operator should change.
type Finding struct {
	Level   Level  `json:"level"`
	Check   string `json:"check"`   // stable name, such as "postgres-fsync"
	Problem string `json:"problem"` // one sentence, without secrets
	Action  string `json:"action"`  // what to do
}

// State is what the database shows of the work of all processes, and of its clock. GraphQL's
// InstallationHealth has these fields.
type State struct {
	Version           string // of the program that reads it
	Database          string // its dialect
	PendingDeliveries int64
	DueDeliveries     int64
	OldestDueAt       model.Instant // 0: none is due
	DueMails          int64
	DueReports        int64         // days of sites
	WorkerSeenAt      model.Instant // when a worker last trusted the clock; 0: never
	ClockTrusted      bool
	ClockAheadMs      int64 // of this process, against the database's

	db  *db.DB
	now model.Instant
}

// Read reads the state. clock is this process's.
func Read(ctx context.Context, d *db.DB, version string, clock func() time.Time) (*State, error) {
	now, ahead, err := d.CompareClock(ctx, clock)
	if err != nil {
		return nil, err
	}
	backlog, err := outbox.New(d).DeliveryBacklog(ctx, now)
	if err != nil {
		return nil, err
	}
	mails, err := outbox.New(d).DueMailCount(ctx, now)
	if err != nil {
		return nil, err
	}
	due, err := reports.New(d).Due(ctx, now)
	if err != nil {
		return nil, err
	}
	seen, trusted, err := d.LastTrusted(ctx)

	return &State{
		Version: version, Database: d.Dialect(),
		PendingDeliveries: backlog.Pending, DueDeliveries: backlog.Due, OldestDueAt: backlog.Oldest,
		DueMails: mails, DueReports: due.Days,
		WorkerSeenAt: seen, ClockTrusted: trusted, ClockAheadMs: ahead.Milliseconds(),
		db: d, now: now,
	}, err
}

const (
	// workerLate is the age of WorkerSeenAt from which no worker runs: each notes the time every
	// minute.
	workerLate = 5 * time.Minute

	// deliveryLate is the age of a due delivery from which workers are missing or overloaded: each
	// looks for due work every two seconds.
	deliveryLate = 10 * time.Minute
)

// The actions for conditions that are found in several ways.
const (
	SynchroniseClocks = "Synchronise the clocks of all machines, for instance with chrony."
	CorrectClock      = `Correct the clock, or wait; see docs/operator/operations.md, "Clocks".`
	SeeTLS            = `See "When an order fails" in docs/operator/tls.md.`
	SetPlan           = `Set larger plans, see "Plans" in docs/operator/operations.md, or let the limit refuse further hits.`
	checkMailServer   = "Check the mail server, then run: tallygate admin test-mail you@example.com"
)

// Findings returns the conditions that hold. A service that does not run needs no worker.
func (s *State) Findings(ctx context.Context, isRunning bool) (found []Finding, err error) {
	mails, err := outbox.New(s.db).MailState(ctx)
	if err != nil {
		return nil, err
	}
	channels, err := alerts.NewChannels(s.db).OperatorsState(ctx)
	if err != nil {
		return nil, err
	}
	hosts, err := certificates.New(s.db).Hosts(ctx, s.now)
	if err != nil {
		return nil, err
	}
	quotas, err := outbox.New(s.db).UsedQuotas(ctx, s.now.Month())
	if err != nil {
		return nil, err
	}

	add := func(holds bool, level Level, check, action, format string, args ...any) {
		if holds {
			found = append(found, Finding{level, check, fmt.Sprintf(format, args...), action})
		}
	}

	ahead := (time.Duration(s.ClockAheadMs) * time.Millisecond).Abs()
	add(ahead > db.MaxClockDifference, Error, "clock-difference", SynchroniseClocks,
		"the database's clock differs from this machine's by %v", ahead.Round(time.Second))
	add(!s.ClockTrusted, Warning, "clock-untrusted", CorrectClock,
		"the database's clock has jumped: nothing is deleted until it is trusted again")
	add(isRunning && s.now.Sub(s.WorkerSeenAt) > workerLate, Error, "worker-missing",
		"Start a process with the role worker, and check its log.", "no worker has run for %v", workerLate)

	waiting := s.now.Sub(s.OldestDueAt)
	add(s.DueDeliveries > 0 && waiting > deliveryLate, Error, "deliveries-late",
		"Check that a process with the role worker runs, and its log; add workers, or look for slow receivers.",
		"%d deliveries are due, the oldest for %v", s.DueDeliveries, waiting.Round(time.Minute))
	add(mails.LastFailed > mails.LastSent, Warning, "mails-failing", checkMailServer,
		"the newest mail that is not waiting was given up on %s", mails.LastFailed.Time().Format(time.DateOnly))
	add(mails.Retrying > 0, Warning, "mails-failing", checkMailServer,
		"%d mails are sent again after a failed attempt", mails.Retrying)
	add(channels.Stopped+channels.Failing > 0, Warning, "operator-channels", "Send a test from the page of alerts, and see the attempts.",
		"of %d channels for alerts of the installation, %d are stopped, and the last message to %d failed",
		channels.Channels, channels.Stopped, channels.Failing)

	add(len(quotas) > 0, Warning, QuotaCheck, SetPlan, "%d monthly quotas are used to 80 %% or more: %s", len(quotas), describe(quotas))

	for _, host := range hosts {
		problem := host.Problem(s.now.Time())
		isOver := s.now >= host.ExpiresAt
		add(isOver, Error, "tls-certificate", SeeTLS, "%s", problem)
		add(!isOver && problem != "", Warning, "tls-certificate", SeeTLS, "%s", problem)
	}
	return found, nil
}

// QuotaCheck is the check of quotas that are nearly used up.
const QuotaCheck = "quota-nearly-used"

// describe names the first quotas, the ones that are used up before the others.
func describe(quotas []outbox.UsedQuota) string {
	const shown = 3
	var names []string
	for _, q := range quotas[:min(len(quotas), shown)] {
		names = append(names, fmt.Sprintf("%s (%d %% of %d)", q.Name(), q.Percent, q.Quota))
	}
	if len(quotas) > shown {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
