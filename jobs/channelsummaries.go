package jobs

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/alertchannels"
	"github.com/tallygate/tallygate/db/model"
)

// planChannels queues the due summaries of alert channels and returns their number. They have the periods
// and figures of report mails. A summary without figures because of an error is due again after reportRetry.
func (p *reportPlanner) planChannels(ctx context.Context, now model.Instant) (int64, error) {
	if p.figures == nil {
		return 0, nil
	}

	var queued int64
	var failed error
	for _, kind := range []model.ReportMailKind{model.ReportWeekly, model.ReportMonthly} {
		for {
			due, err := p.channels.DueSummaries(ctx, kind, now, reportPage)
			if err != nil {
				return queued, errors.Join(failed, err)
			}

			for _, summary := range due {
				sent, err := p.sendSummary(ctx, summary, now)
				if sent {
					queued++
				}
				if err == nil {
					continue
				}

				failed = errors.Join(failed, err)
				_, err = p.channels.FinishSummary(ctx, summary, summary.Day, now.Add(reportRetry), nil, now)
				if err != nil {
					return queued, errors.Join(failed, err)
				}
			}
			if len(due) < reportPage {
				break
			}
		}
	}
	return queued, failed
}

// sendSummary queues one summary. It reports false if another process was first.
func (p *reportPlanner) sendSummary(ctx context.Context, was alertchannels.Summary, now model.Instant) (bool, error) {
	site, err := p.store.ReportedSite(ctx, was.SiteID)
	if errors.Is(err, model.ErrNotFound) {
		// The channel was deleted with the site.
		return false, nil
	}
	if err != nil {
		return false, err
	}
	zone, err := site.Zone()
	if err != nil {
		return false, err
	}

	current := model.ReportMail{Kind: was.Kind, Day: was.Day, DueAt: was.DueAt}
	next := current
	current.CatchUp(now, zone)
	next.Schedule(now, zone)

	from, to := current.Period()
	figures, err := p.figures.Summary(ctx, site, from, to)
	if err != nil {
		return false, err
	}
	data := &model.AlertData{
		MailSite: model.MailSite{Site: site.Domain, SiteID: site.ID}, From: from.String(), To: to.String(), Summary: figures,
	}
	return p.channels.FinishSummary(ctx, was, next.Day, next.DueAt, data, now)
}
