package resolver

import (
	"context"
	"runtime/debug"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/generated"
)

// Public settings of the installation, and its state for operators.

func (r *queryResolver) Installation(ctx context.Context) (*generated.Installation, error) {
	open, err := r.auth.SignUpsOpen(ctx)
	return &generated.Installation{SignUps: open, SendsMail: r.auth.SendsMail()}, err
}

// InstallationHealth counts the work that waits, and compares the clocks.
func (r *queryResolver) InstallationHealth(ctx context.Context) (*generated.InstallationHealth, error) {
	if _, err := r.require(ctx, model.MayOperate); err != nil {
		return nil, err
	}

	now, ahead, err := r.db.CompareClock(ctx, r.now)
	if err != nil {
		return nil, err
	}
	backlog, err := r.outbox.DeliveryBacklog(ctx, now)
	if err != nil {
		return nil, err
	}
	mails, err := r.outbox.DueMailCount(ctx, now)
	if err != nil {
		return nil, err
	}
	days, err := r.reports.Due(ctx, now)
	if err != nil {
		return nil, err
	}
	seen, trusted, err := r.db.LastTrusted(ctx)
	if err != nil {
		return nil, err
	}

	return &generated.InstallationHealth{
		Version: version(), Database: r.db.Dialect(),
		PendingDeliveries: backlog.Pending, DueDeliveries: backlog.Due, OldestDueAt: timeOrNil(backlog.Oldest),
		DueMails: mails, DueReports: days,
		WorkerSeenAt: timeOrNil(seen), ClockTrusted: trusted, ClockAheadMs: ahead.Milliseconds(),
	}, nil
}

// version returns the module's version and, if the build recorded it, the revision.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			text += " " + setting.Value[:min(12, len(setting.Value))]
		}
	}
	return text
}
