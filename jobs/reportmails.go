package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/tallygate/tallygate/db/alertchannels"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// ReportFigures returns the figures of report mails. They equal the figures of a report of the same
// days.
type ReportFigures interface {
	// Summary returns the figures of the days between from and to, both included, in the site's
	// time zone, and of as many days before.
	Summary(ctx context.Context, site *model.Site, from, to model.Day) (*model.ReportSummary, error)

	// LiveVisitors returns how many visitors were on the site in the last 5 minutes.
	LiveVisitors(ctx context.Context, site *model.Site, now model.Instant) (int64, error)
}

// reportPlanner queues the report mails that are due. Its cost follows the number of due mails. A
// mail and the next time of its subscription are stored in one transaction, so that two planners
// send one mail.
type reportPlanner struct {
	store    *sites.Store
	channels *alertchannels.Store
	figures  ReportFigures // nil: no mail is queued, and due mails stay due
}

const (
	reportPage  = 100              // subscriptions that are read at once
	reportRetry = 10 * time.Minute // pause after an error
)

// plan queues the due mails and returns their number. A subscription without figures because of an
// error is due again after reportRetry, so that it delays no other.
func (p *reportPlanner) plan(ctx context.Context, now model.Instant) (int64, error) {
	if p.figures == nil {
		return 0, nil
	}

	var queued int64
	var failed error
	for {
		due, err := p.store.DueReportMails(ctx, now, reportPage)
		if err != nil {
			return queued, errors.Join(failed, err)
		}

		for _, mail := range due {
			sent, err := p.send(ctx, mail, now)
			if sent {
				queued++
			}
			if err == nil {
				continue
			}

			failed = errors.Join(failed, err)
			later := mail
			later.DueAt = now.Add(reportRetry)
			if err := p.store.FinishReportMail(ctx, mail, later, 0, "", nil, now); err != nil {
				return queued, errors.Join(failed, err)
			}
		}

		if len(due) < reportPage {
			return queued, failed
		}
	}
}

// send queues the mail of one subscription if there is something to report, and sets when it is due
// next. It reports whether there was.
func (p *reportPlanner) send(ctx context.Context, was model.ReportMail, now model.Instant) (bool, error) {
	site, err := p.store.ReportedSite(ctx, was.SiteID)
	if errors.Is(err, model.ErrNotFound) {
		// The subscription was deleted with the site.
		return false, nil
	}
	if err != nil {
		return false, err
	}

	zone, err := site.Zone()
	if err != nil {
		return false, err
	}

	current, next := was, was
	current.CatchUp(now, zone)
	next.Schedule(now, zone)

	kind, data, err := p.compose(ctx, site, &current, now)
	if err != nil {
		return false, err
	}
	if kind == model.MailTrafficAlert && was.Kind == model.ReportSpike {
		next.DueAt = now.Add(model.SpikePause)
	}

	err = p.store.FinishReportMail(ctx, was, next, site.AccountID, kind, data, now)
	return kind != "" && err == nil, err
}

// compose returns the kind and the data of a subscription's mail. The kind is empty if there is
// nothing to report.
func (p *reportPlanner) compose(
	ctx context.Context, site *model.Site, mail *model.ReportMail, now model.Instant,
) (string, any, error) {
	about := model.MailSite{Site: site.Domain, SiteID: site.ID}
	if mail.Kind == model.ReportSpike {
		visitors, err := p.figures.LiveVisitors(ctx, site, now)
		if err != nil || visitors <= mail.Threshold {
			return "", nil, err
		}
		return model.MailTrafficAlert, model.TrafficAlertMail{
			MailSite: about, UserID: mail.UserID, Kind: mail.Kind, Visitors: visitors, Threshold: mail.Threshold,
		}, nil
	}

	from, to := mail.Period()
	summary, err := p.figures.Summary(ctx, site, from, to)
	if err != nil {
		return "", nil, err
	}

	if mail.Kind == model.ReportDrop {
		if summary.Figures.Visitors >= mail.Threshold {
			return "", nil, nil
		}
		return model.MailTrafficAlert, model.TrafficAlertMail{
			MailSite: about, UserID: mail.UserID, Kind: mail.Kind, Day: to.String(),
			Visitors: summary.Figures.Visitors, Threshold: mail.Threshold,
		}, nil
	}

	return model.MailReportSummary, model.ReportSummaryMail{
		MailSite: about, UserID: mail.UserID, Kind: mail.Kind, From: from.String(), To: to.String(), Summary: *summary,
	}, nil
}
