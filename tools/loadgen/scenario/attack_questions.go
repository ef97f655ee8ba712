package scenario

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/graph/client"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// The attacks by reports.

// questions numbers the reports, so that no two are equal.
type questions struct{ number atomic.Int64 }

// unknown returns the name of an event that no report has asked for.
func (q *questions) unknown() string { return fmt.Sprintf("unknown-%d", q.number.Add(1)) }

// question is a report that the attacker asks for.
type question struct {
	name     string // of the reports that are compared
	caller   *target.Account
	site     string // empty for the reader of a shared link
	period   string // empty: TODAY
	filters  string
	fields   string
	filtered bool // filters by an unknown page, so that no stored report helps
}

// document returns the question as a document that was not sent before: it also selects the
// properties of an unknown event or, because a report has one list of them, filters by an unknown
// page.
func (q *question) document(asked *questions) string {
	head, filters, fields, unknown := "sharedSite", q.filters, q.fields, asked.unknown()
	if q.site != "" {
		head = fmt.Sprintf("site(id: %q)", q.site)
	}
	if q.filtered || fields == propertyNames {
		filters += fmt.Sprintf(`{dimension: PAGE, operator: IS_NOT, values: ["/%s"]}`, unknown)
	} else {
		fields += fmt.Sprintf(" propertyNames(event: %q) { name }", unknown)
	}

	return fmt.Sprintf("{ %s { report(period: {preset: %s}, filters: [%s]) { %s } } }",
		head, cmp.Or(q.period, "TODAY"), filters, fields)
}

// totals selects one figure.
const totals = "totals { visitors }"

// propertyNames selects the names of all properties.
const propertyNames = "propertyNames { name values }"

// propertyBreakdowns are nearly as many breakdowns as a document may have aliases for.
var propertyBreakdowns = breakdowns(28, 1)

// breakdowns selects n breakdowns by property.
func breakdowns(n, first int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "p%d: breakdown(by: PROPERTY, property: %q, first: %d) { totalCount } ", i, propertyName(i), first)
	}
	return b.String()
}

// The outcomes of a question other than the code of a refusal.
const (
	outcomeAnswered = "answered"
	outcomeLeft     = "client left"
	outcomeNone     = "no answer"
	outcomeTimeout  = "TIMEOUT"
)

// isAccepted reports whether the service began to count the report.
func isAccepted(outcome string) bool {
	return outcome == outcomeAnswered || outcome == outcomeLeft || outcome == outcomeTimeout || outcome == outcomeNone
}

// The time that the attacker waits for a report: longer than the service's own deadlines, or as a
// client that leaves.
const (
	reportPatience = 35 * time.Second
	leaveAfter     = time.Second
)

// ask asks once, leaves after the given time, and returns the outcome.
func (p *player) ask(ctx context.Context, q question, patience time.Duration) string {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var data map[string]*struct{ Report json.RawMessage }
	err := q.caller.Ask(waiting, q.document(&p.asked), nil, &data)
	switch {
	case err == nil && (data["site"] != nil || data["sharedSite"] != nil):
		return outcomeAnswered
	case err == nil:
		return "null"
	case waiting.Err() != nil:
		return outcomeLeft
	}
	return reasonOf(err)
}

// reasonOf returns the code of a refusal, or another short text.
func reasonOf(err error) string {
	if code := target.CodeOf(err); code != "" {
		return code
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return outcomeNone
	}
	return err.Error()
}

// asksOver is the attack that asks for a report again and again over connections.
func asksOver(connections int, q question) func(*player, context.Context, *attackMeasure) error {
	return func(p *player, ctx context.Context, m *attackMeasure) error {
		q := q
		q.caller, q.site = p.q.caller, p.q.site
		p.keepAsking(ctx, m, connections, q, reportPatience)
		return nil
	}
}

// keepAsking asks for a report again and again, and waits for the end of its work.
func (p *player) keepAsking(ctx context.Context, m *attackMeasure, connections int, q question, patience time.Duration) {
	asked := p.flood(ctx, connections, func(ctx context.Context) string { return p.ask(ctx, q, patience) })
	if patience == reportPatience {
		p.settle(ctx, asked)
	}
	m.got, m.slot = m.got+countsText(asked.Counts), asked.longest
}

// useEvents lets the attacker be the owner of a site with large events, which are sent for the
// first attack that needs them.
func (p *player) useEvents(ctx context.Context) error {
	if p.events == nil {
		if err := p.joinWithSecret(ctx); err != nil {
			return err
		}
		var sent attackMeasure
		if err := p.runEvents(ctx, &sent); err != nil {
			return err
		}
		if want := fmt.Sprintf("%d stored: %[1]d recorded", p.Events); sent.got != want {
			return fmt.Errorf("events of the attacker: %s, want %s", sent.got, want)
		}
		p.events = p.tenant
	}
	p.tenant = p.events
	p.q = question{caller: p.account, site: p.site.ID}
	return nil
}

// useSharedEvents lets the attacker be the reader of a shared link of that site.
func (p *player) useSharedEvents(ctx context.Context) error { return p.share(ctx, p.useEvents) }

// usePaths lets the attacker be the owner of a site with long paths.
func (p *player) usePaths(ctx context.Context) error {
	if p.paths == nil {
		if err := p.join(ctx); err != nil {
			return err
		}
		if err := p.sendPaths(ctx); err != nil {
			return err
		}
		p.paths = p.tenant
	}
	p.tenant = p.paths
	p.q = question{name: "patterns", caller: p.account, site: p.site.ID, fields: totals}
	return nil
}

// useSharedPaths lets the attacker be the reader of a shared link of that site.
func (p *player) useSharedPaths(ctx context.Context) error { return p.share(ctx, p.usePaths) }

// share lets the attacker be the reader of a shared link of an owner's site.
func (p *player) share(ctx context.Context, use func(context.Context) error) error {
	if err := use(ctx); err != nil {
		return err
	}
	token, err := p.newLink(ctx)
	if err != nil {
		return err
	}
	reader, err := target.NewAccount(target.Target{Control: p.account.Target.Control})
	if err != nil {
		return err
	}

	opened, err := client.OpenSharedLink(ctx, reader, token)
	if err := client.Refused(err, opened.OpenSharedLink); err != nil {
		return err
	}
	reader.Target.Token = *opened.OpenSharedLink.ViewerToken
	p.q.caller, p.q.site = reader, ""
	return nil
}

// sendPaths sends page views. Their paths repeat one letter and differ at the end.
func (p *player) sendPaths(ctx context.Context) error {
	n := 0
	l := load.Load{Addr: p.in.Server.Data, Connections: 1}
	r := l.Run(ctx, func(int) load.Source {
		return load.Requests(func() []byte {
			if n++; n > pathViews {
				return nil
			}
			tail := fmt.Sprintf("%03d", n)
			body := fmt.Sprintf(`{"k":%q,"t":"pageview","p":"/%s%s","i":"%016x"}`, p.site.Key,
				bytes.Repeat([]byte("a"), pathLength-1-len(tail)), tail, n)
			return collectRequest(p.in.Server.Data, p.site.Origin(), fmt.Sprintf("198.51.100.%d", n), body)
		})
	})

	if r.Answers["204"] != pathViews {
		return fmt.Errorf("page views with long paths: %v", r.Answers)
	}
	return ctx.Err()
}

// askAndLeave finds the longest patterns that the service accepts, and measures the processor time
// after the client has left. No other account asks for anything meanwhile, so that all processor
// time is the attack's.
func (p *player) askAndLeave(ctx context.Context, m *attackMeasure) error {
	_ = load.Wait(ctx, leaveAfter)
	idle := p.processorTime(ctx, p.Calm)
	for _, size := range patternSizes {
		p.q.filters = size.filter()
		outcome := p.ask(ctx, p.q, leaveAfter)
		if isAccepted(outcome) {
			m.got += fmt.Sprintf("asked with %v; ", size)
			p.accepted = p.q
			break
		}
		m.got += fmt.Sprintf("%s for %v; ", outcome, size)
	}

	_ = load.Wait(ctx, leaveAfter)
	m.left, m.cpuAfter = true, max(p.processorTime(ctx, p.Calm)-idle, 0)
	return nil
}

// keepLeaving asks for the report with these patterns again and again.
func (p *player) keepLeaving(ctx context.Context, m *attackMeasure) error {
	p.keepAsking(ctx, m, 1, p.q, leaveAfter)
	return nil
}

// findLongest finds the report that takes longest alone and does not terminate the process. It may
// be refused late.
func (p *player) findLongest(ctx context.Context) error {
	if err := p.useEvents(ctx); err != nil {
		return err
	}
	ofToday, own := p.q, p.q
	own.name, own.fields = "totals", totals
	ofToday.name, ofToday.fields = "breakdowns of today", propertyBreakdowns
	p.alone = 0

	for _, q := range []question{own, ofToday, p.built, p.accepted} {
		if q.caller == nil {
			// The attack that finds it was not played.
			continue
		}
		if err := p.fresh(ctx); err != nil {
			return err
		}

		// The first answer may include the build of a day, later answers do not.
		p.ask(ctx, q, reportPatience)
		began := time.Now()
		outcome := p.ask(ctx, q, reportPatience)
		took := time.Since(began)
		fmt.Fprintf(p.progress, "%s, alone: %s after %.1f s\n", q.name, outcome, took.Seconds())
		if outcome != outcomeNone && took > p.alone {
			p.q, p.alone = q, took
		}
	}
	if p.alone == 0 {
		return errors.New("each of the attacker's reports terminates the process")
	}
	return nil
}

// askLongest asks for the report over several connections.
func (p *player) askLongest(ctx context.Context, m *attackMeasure) error {
	m.got = fmt.Sprintf("%s, alone %.1f s: ", p.q.name, p.alone.Seconds())
	p.keepAsking(ctx, m, 8, p.q, reportPatience)
	m.slot = p.alone
	return nil
}
