package alerts

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/explain"
	"github.com/tallygate/tallygate/jobs/alerts/rules"
)

// Explainer explains differences, such as explain.Explainer.
type Explainer interface {
	Visits(ctx context.Context, site *model.Site, from, to model.Day, now model.Instant) (*model.Change, error)
	Pageviews(ctx context.Context, site *model.Site, before, after explain.Span, now model.Instant) (*model.Change, error)
}

// The time that explanations may take: one of them, and all of a run, which otherwise could delay
// the alerts of an outage of many sites.
const (
	explainFor    = 5 * time.Second
	explainAllFor = 30 * time.Second
)

// Changes are the explanations in messages. A message does without one after an error, and once
// the time of a run is used up. It is safe for concurrent use.
type Changes struct {
	explainer Explainer
	log       *slog.Logger

	mu   sync.Mutex
	left time.Duration // of the run
}

// NewChanges returns the explanations in messages.
func NewChanges(explainer Explainer, log *slog.Logger) *Changes {
	return &Changes{explainer: explainer, log: log}
}

// begin begins a run. c may be nil, as for the methods below: then there are no explanations.
func (c *Changes) begin() {
	if c != nil {
		c.spend(-explainAllFor)
	}
}

// spend takes time from the run, and returns what is left.
func (c *Changes) spend(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = min(c.left-d, explainAllFor)
	return c.left
}

// of returns what an explanation returns in its time, or nil.
func (c *Changes) of(ctx context.Context, siteID model.SiteID, explain func(context.Context) (*model.Change, error)) *model.Change {
	if c == nil {
		return nil
	}
	left := c.spend(0)
	if left <= 0 {
		return nil
	}

	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, min(left, explainFor))
	defer cancel()
	change, err := explain(limited)
	c.spend(time.Since(began))

	if err != nil && !errors.Is(err, context.Canceled) {
		c.log.Info("a message does not name causes", "site_id", siteID, "error", err)
	}
	if err != nil {
		return nil
	}
	return change
}

// visits explains the visits of the days of a message.
func (c *Changes) visits(ctx context.Context, site *model.Site, from, to model.Day, now model.Instant) *model.Change {
	return c.of(ctx, site.ID, func(ctx context.Context) (*model.Change, error) {
		return c.explainer.Visits(ctx, site, from, to, now)
	})
}

// lastHour explains the page views of the last hour, compared with the same hour a week before in
// the time zone.
func (c *Changes) lastHour(ctx context.Context, site *model.Site, zone *time.Location, now model.Instant) *model.Change {
	to := now.Time().In(zone)
	past := to.AddDate(0, 0, -7)
	return c.of(ctx, site.ID, func(ctx context.Context) (*model.Change, error) {
		return c.explainer.Pageviews(ctx, site, explain.Span{From: past.Add(-time.Hour), To: past}, explain.Span{From: to.Add(-time.Hour), To: to}, now)
	})
}

// pageviews explains what a rule has found in the traffic of a site.
func (c *Changes) pageviews(ctx context.Context, site *model.Site, finding rules.Finding, now model.Instant) *model.Change {
	return c.of(ctx, site.ID, func(ctx context.Context) (*model.Change, error) {
		return c.explainer.Pageviews(ctx, site, explain.Span(finding.Before), explain.Span(finding.After), now)
	})
}
