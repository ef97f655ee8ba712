package alerts

import (
	"context"
	"errors"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// Figures returns the figures of planned messages. They equal the figures of a report of the same
// days.
type Figures interface {
	// Summary returns the figures of the days between from and to, both included, in the site's
	// time zone, and of as many days before.
	Summary(ctx context.Context, site *model.Site, from, to model.Day) (*model.ReportSummary, error)

	// LiveVisitors returns how many visitors were on the site in the last 5 minutes.
	LiveVisitors(ctx context.Context, site *model.Site, now model.Instant) (int64, error)
}

// Planner queues the planned messages of channels that are due: summaries, and the messages of
// fixed thresholds. Its cost follows their number. A message and the time at which the next one is
// due are stored in one transaction, so that two planners send one message.
type Planner struct {
	sites    *sites.Store
	channels *alerts.Channels
	figures  Figures  // nil: no message is queued, and due messages stay due
	changes  *Changes // nil: messages name no causes
}

// NewPlanner returns the planner of a database. figures and changes may be nil.
func NewPlanner(d *db.DB, figures Figures, changes *Changes) *Planner {
	return &Planner{sites.New(d), alerts.NewChannels(d), figures, changes}
}

const (
	planPage  = 100              // due messages that are read at once
	planRetry = 10 * time.Minute // pause after an error
)

// Plan queues the due messages and returns their number. A message without figures because of an
// error is due again after planRetry, so that it delays no other.
func (p *Planner) Plan(ctx context.Context, now model.Instant) (queued int64, failed error) {
	if p.figures == nil {
		return 0, nil
	}

	p.changes.begin()
	for _, kind := range alerts.Kinds {
		n, err := p.planKind(ctx, kind, now)
		queued += n
		failed = errors.Join(failed, err)
	}
	return queued, failed
}

// planKind is Plan for the messages of one kind.
func (p *Planner) planKind(ctx context.Context, kind string, now model.Instant) (queued int64, failed error) {
	for {
		due, err := p.channels.Due(ctx, kind, now, planPage)
		if err != nil {
			return queued, errors.Join(failed, err)
		}

		known := make(summaries)
		for _, plan := range due {
			sent, err := p.send(ctx, plan, known, now)
			if sent {
				queued++
			}
			if err == nil {
				continue
			}

			failed = errors.Join(failed, err)
			if _, err := p.channels.Finish(ctx, plan, now.Add(planRetry), nil, now); err != nil {
				return queued, errors.Join(failed, err)
			}
		}
		if len(due) < planPage {
			return queued, failed
		}
	}
}

// send queues one message if there is something to report, and sets when the next one is due. It
// reports whether it queued one.
func (p *Planner) send(ctx context.Context, plan alerts.Planned, known summaries, now model.Instant) (bool, error) {
	site, err := p.sites.Sites.AnySite(ctx, plan.SiteID)
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

	data, next, err := p.compose(ctx, site, plan, zone, known, now)
	if err != nil {
		return false, err
	}

	finished, err := p.channels.Finish(ctx, plan, next, data, now)
	return finished && data != nil, err
}

// compose returns what a message reports, or nil if there is nothing to report, and when the next
// one is due.
func (p *Planner) compose(
	ctx context.Context, site *model.Site, plan alerts.Planned, zone *time.Location, known summaries, now model.Instant,
) (*model.AlertData, model.Instant, error) {
	data := &model.AlertData{MailSite: model.MailSite{Site: site.Domain, SiteID: site.ID}}
	if plan.Kind == model.MessageSpike {
		visitors, err := p.figures.LiveVisitors(ctx, site, now)
		if err != nil || visitors <= plan.Threshold {
			return nil, alerts.DueAfter(plan.Kind, now, zone), err
		}
		change := known.at(summarised{siteID: site.ID}).explain(func() *model.Change { return p.changes.lastHour(ctx, site, zone, now) })
		data.Figures = model.AlertFigures{Value: visitors, Threshold: plan.Threshold, Change: change}
		return data, now.Add(alerts.SpikePause), nil
	}

	from, to, next := alerts.Period(plan.Kind, plan.DueAt, now, zone)
	summary, err := p.summary(ctx, site, summarised{site.ID, from, to}, known)
	if err != nil {
		return nil, 0, err
	}

	visitors := summary.Figures.Visitors
	if plan.Kind == model.MessageDrop && visitors >= plan.Threshold {
		return nil, next, nil
	}

	data.From, data.To = from.String(), to.String()
	if plan.Kind == model.MessageDrop {
		data.Figures = model.AlertFigures{Value: visitors, Threshold: plan.Threshold}
	} else {
		data.Summary = summary.ReportSummary
	}
	data.Figures.Change = summary.explain(func() *model.Change { return p.changes.visits(ctx, site, from, to, now) })
	return data, next, nil
}

// summarised are the days of a summary, or no days for the present.
type summarised struct {
	siteID   model.SiteID
	from, to model.Day
}

// summary is what several channels of a site report.
type summary struct {
	*model.ReportSummary
	change      *model.Change
	isExplained bool
}

// explain returns the change of all channels, which it asks for once.
func (s *summary) explain(ask func() *model.Change) *model.Change {
	if !s.isExplained {
		s.change, s.isExplained = ask(), true
	}
	return s.change
}

// summaries are the summaries of one page of due messages, so that channels of one site share them.
type summaries map[summarised]*summary

// at returns a summary, which may have no figures yet.
func (s summaries) at(of summarised) *summary {
	if s[of] == nil {
		s[of] = &summary{}
	}
	return s[of]
}

// summary returns a summary, which it counts once.
func (p *Planner) summary(ctx context.Context, site *model.Site, of summarised, known summaries) (*summary, error) {
	s := known.at(of)
	if s.ReportSummary == nil {
		figures, err := p.figures.Summary(ctx, site, of.from, of.to)
		if err != nil {
			return nil, err
		}
		s.ReportSummary = figures
	}
	return s, nil
}
