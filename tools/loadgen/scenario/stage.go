package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// stage is an installation with traffic. The journal records acknowledged hits, which are verified
// at the end.
type stage struct {
	in       *instance.Instance
	engine   string
	noop     *instance.Server // nil unless the empty handler is measured, too
	session  *traffic.Session
	journal  *traffic.Journal
	path     string // of the journal
	outcome  *report.Outcome
	progress io.Writer
}

// open creates an account with sites on a server of the installation that runs, and a journal.
func (s *stage) open(ctx context.Context, server *instance.Server, f traffic.Flags) (err error) {
	if s.session, err = traffic.NewOwnSession(ctx, server.Target(), &f); err != nil {
		return err
	}
	return s.begin(ctx, "journal")
}

// begin creates a journal of the session.
func (s *stage) begin(ctx context.Context, name string) (err error) {
	s.path = filepath.Join(s.in.Dir, name)
	s.journal, err = s.session.Begin(ctx, s.path)
	return err
}

// standard returns the flags of the traffic of the measurements.
func standard(mix string, sites int) traffic.Flags {
	return traffic.Flags{Mix: mix, Sites: sites, Visitors: 20_000, Seed: 1}
}

// phase sends a mix as one phase of the traffic.
func (s *stage) phase(ctx context.Context, l load.Load, mix string) *load.Result {
	return s.session.Phase(ctx, s.journal, l, traffic.Mixes[mix])
}

// measure measures one round of a case.
func (s *stage) measure(ctx context.Context, c *report.Case, l load.Load, mix string) (*load.Result, error) {
	r := s.phase(ctx, l, mix)
	if err := s.enough(ctx, r); err != nil {
		return nil, err
	}
	c.AddResult(r)
	return r, nil
}

// lastDays returns the period of days that end today, as a variable of a report.
func lastDays(days int) map[string]any {
	today := time.Now().UTC()
	return map[string]any{"from": today.AddDate(0, 0, 1-days).Format(time.DateOnly), "to": today.Format(time.DateOnly)}
}

// figures asks for a report of a site with page views, which must have figures.
func (s *stage) figures(ctx context.Context, document string, variables map[string]any) error {
	var data struct {
		Site struct {
			Report struct{ Totals struct{ Pageviews int64 } }
		}
	}
	if err := s.session.Account.Ask(ctx, document, variables, &data); err != nil {
		return err
	}
	if data.Site.Report.Totals.Pageviews == 0 {
		return errors.New("the report has no figures")
	}
	return nil
}

// enough returns an error with the server's log if there are too few answers.
func (s *stage) enough(ctx context.Context, r *load.Result) error {
	if err := errors.Join(r.Enough(), ctx.Err()); err != nil {
		return fmt.Errorf("%w; the server's log:\n%s", err, s.in.Server.Logged())
	}
	return nil
}

// close ends the traffic, verifies all hits of the journal, and adds the verdict to the outcome.
func (s *stage) close(ctx context.Context) error {
	if err := s.journal.Close(); err != nil {
		return err
	}
	verdict, err := verify.JournalAs(ctx, s.session.Account, s.path)
	if err != nil {
		return err
	}
	s.outcome.AddHits(verdict)
	s.outcome.AddUnexpected(s.session.Unexpected.Counts)
	s.session.Unexpected.Counts = nil
	return nil
}

// traffics are the stages that are under load at the same time, with the successes of each.
type traffics struct {
	stages    []*stage
	successes []atomic.Int64
}

// underLoad drives stages until do returns. It returns the results, and the longest time without a
// success of each.
func underLoad(
	ctx context.Context, stages []*stage, l load.Load, do func(context.Context, *traffics) error,
) (results []*load.Result, gaps []time.Duration, err error) {
	t := &traffics{stages: stages, successes: make([]atomic.Int64, len(stages))}
	results, gaps = make([]*load.Result, len(stages)), make([]time.Duration, len(stages))
	loading, stop := context.WithCancel(ctx)
	defer stop()

	var running sync.WaitGroup
	for n, s := range stages {
		own := l
		own.Successes = &t.successes[n]
		running.Go(func() { results[n] = s.session.Phase(loading, s.journal, own, s.session.Traffic.Mix) })
		running.Go(func() { gaps[n] = longestGap(loading, own.Successes) })
	}

	err = do(ctx, t)
	stop()
	running.Wait()
	return results, gaps, errors.Join(err, ctx.Err())
}

// longestGap returns the longest time without a success until ctx ends, after the first one.
func longestGap(ctx context.Context, successes *atomic.Int64) (longest time.Duration) {
	last, since := successes.Load(), time.Now()
	for load.Wait(ctx, 5*time.Millisecond) == nil {
		now := successes.Load()
		if last > 0 {
			longest = max(longest, time.Since(since))
		}
		if now != last {
			last, since = now, time.Now()
		}
	}
	return longest
}

// await waits for n more successes of each stage, because an outage without any would prove
// nothing.
func (t *traffics) await(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, instance.StartPatience)
	defer cancel()

	for i, s := range t.stages {
		enough := t.successes[i].Load() + n
		for t.successes[i].Load() < enough {
			if s.in.Server.Ended() {
				return fmt.Errorf("the server terminated by itself:\n%s", s.in.Server.Logged())
			}
			if load.Wait(ctx, time.Millisecond) != nil {
				return fmt.Errorf("no successful calls:\n%s", strings.TrimSpace(s.in.Server.Logged()))
			}
		}
	}
	return nil
}
