package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// period has the measurements with or without an attack.
type period struct {
	hits    *load.Result
	reports load.Histogram   // of the honest account
	failed  map[string]int64 // reports of the honest account without figures, by reason
	peak    int64            // resident bytes of the process since its start
	died    bool             // the process terminated by itself
}

// failures returns the number of reports without figures.
func (p *period) failures() (n int64) {
	for _, count := range p.failed {
		n += count
	}
	return n
}

// fresh replaces the process, which resets its caches and rate limits and ends all of its work, and
// lets it open its connections.
func (a *reportAttack) fresh(ctx context.Context) error {
	a.in.Server.Kill()
	if err := a.in.Server.Start(ctx); err != nil {
		return err
	}

	for range 2 {
		if err := a.read(ctx); err != nil {
			return fmt.Errorf("the honest account's first report: %w", err)
		}
	}
	a.others.drive(ctx, min(time.Second, a.Calm))
	return ctx.Err()
}

// calm measures a fresh process without an attack.
func (a *reportAttack) calm(ctx context.Context) (*period, error) {
	if err := a.fresh(ctx); err != nil {
		return nil, err
	}

	p, err := a.measure(ctx, func(ctx context.Context) error {
		_ = load.Wait(ctx, a.Calm)
		return nil
	})
	if err == nil && (p.died || p.failures() > 0 || p.hits.Failed > 0) {
		err = fmt.Errorf("the honest account is refused without an attack: hits %v, reports %s", p.hits.Answers, countsText(p.failed))
	}
	return p, err
}

// measure measures the process and the honest account until attack returns.
func (a *reportAttack) measure(ctx context.Context, attack func(context.Context) error) (*period, error) {
	p := &period{failed: make(map[string]int64)}
	pid := a.in.Server.Pid()
	a.answered.Store(0)
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	var cost process.Cost
	var group sync.WaitGroup
	group.Go(func() { cost = process.Watch(ctx, pid, nil) })
	group.Go(func() { p.hits = a.others.drive(ctx, 0) })
	group.Go(func() { a.keepReading(ctx, p) })

	err := attack(ctx)
	stop()
	group.Wait()

	p.died = a.in.Server.Ended()
	p.peak = max(cost.PeakMemory, process.Peak(pid))
	return p, err
}

const (
	// readPause is the time between two reports of the honest account. They cost less than its rate
	// limit.
	readPause = 200 * time.Millisecond

	// failedRead is the least duration that counts for a report without figures: the service's
	// deadline.
	failedRead = 10 * time.Second
)

// keepReading asks for reports of the honest account, one after the other, until ctx ends. One in
// flight at the end counts with its whole duration.
func (a *reportAttack) keepReading(ctx context.Context, p *period) {
	for ctx.Err() == nil {
		began := time.Now()
		err := a.read(context.WithoutCancel(ctx))
		took := time.Since(began)
		if err != nil {
			p.failed[reasonOf(err)]++
			took = max(took, failedRead)
			a.answered.Store(-1)
		}

		a.answered.Add(1)
		p.reports.Add(took)
		_ = load.Wait(ctx, readPause)
	}
}

// readDays are the days of the honest account's reports, which end today.
const readDays = 7

// read asks for a report of the honest account that the service has not answered before, because
// the service keeps answers for seconds.
func (a *reportAttack) read(ctx context.Context) error {
	const document = `query ($id: ID!, $from: Date!, $to: Date!, $unknown: String) { site(id: $id) {
		report(period: {from: $from, to: $to}) { totals { pageviews visitors } breakdown(by: PAGE) { totalCount }
			propertyNames(event: $unknown) { name } } } }`

	today := time.Now().UTC()
	variables := map[string]any{
		"id": a.readSite.ID, "from": today.AddDate(0, 0, 1-readDays).Format(time.DateOnly),
		"to": today.Format(time.DateOnly), "unknown": a.asked.unknown(),
	}

	var data struct {
		Site struct {
			Report struct{ Totals struct{ Pageviews int64 } }
		}
	}
	if err := a.honest.Ask(ctx, document, variables, &data); err != nil {
		return err
	}
	if data.Site.Report.Totals.Pageviews == 0 {
		return errors.New("the report has no figures")
	}
	return nil
}

// questions numbers the reports, so that no two are equal.
type questions struct{ number atomic.Int64 }

// unknown returns the name of an event that no report has asked for.
func (q *questions) unknown() string { return fmt.Sprintf("unknown-%d", q.number.Add(1)) }

// question is a report that the attacker asks for.
type question struct {
	caller  *target.Account
	site    string // empty for the reader of a shared link
	period  string // empty: TODAY
	filters string
	fields  string
}

// document returns the question as a document that was not sent before: it also selects the
// properties of an unknown event or, because a report has one list of them, filters by an unknown
// page.
func (q *question) document(asked *questions) string {
	head, filters, unknown := "sharedSite", q.filters, asked.unknown()
	if q.site != "" {
		head = fmt.Sprintf("site(id: %q)", q.site)
	}

	fields := q.fields
	if fields == propertyNames {
		filters += fmt.Sprintf(`{dimension: PAGE, operator: IS_NOT, values: ["/%s"]}`, unknown)
	} else {
		fields += fmt.Sprintf(" propertyNames(event: %q) { name }", unknown)
	}

	return fmt.Sprintf("{ %s { report(period: {preset: %s}, filters: [%s]) { %s } } }",
		head, cmp.Or(q.period, "TODAY"), filters, fields)
}

// propertyNames selects the names of all properties.
const propertyNames = "propertyNames { name values }"

// propertyBreakdowns are nearly as many breakdowns as a document may have aliases for.
var propertyBreakdowns = func() string {
	var b strings.Builder
	for i := range 28 {
		fmt.Fprintf(&b, "p%d: breakdown(by: PROPERTY, property: %q, first: 1) { totalCount } ", i, propertyName(i))
	}
	return b.String()
}()

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

// ask asks once, and leaves after the given time.
func (a *reportAttack) ask(ctx context.Context, q question, patience time.Duration) (outcome string, took time.Duration) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	var data map[string]*struct{ Report json.RawMessage }
	began := time.Now()
	err := q.caller.Ask(waiting, q.document(&a.asked), nil, &data)
	took = time.Since(began)

	switch {
	case err == nil && (data["site"] != nil || data["sharedSite"] != nil):
		return outcomeAnswered, took
	case err == nil:
		return "null", took
	case waiting.Err() != nil:
		return outcomeLeft, took
	case target.CodeOf(err) != "":
		return target.CodeOf(err), took
	}

	// A terminated process is noticed shortly after its connections.
	_ = load.Wait(ctx, time.Second)
	return reasonOf(err), took
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

// attempts are the outcomes of a question that was asked several times.
type attempts struct {
	began    time.Time
	outcomes map[string]int64
	longest  time.Duration
	died     time.Duration // until the process terminated; 0: it did not
	last     string        // the last outcome
}

// keepAsking asks one question after the other, at least once and until the given time has passed
// or the process has terminated.
func (a *reportAttack) keepAsking(ctx context.Context, q question, patience, atLeast time.Duration) attempts {
	all := attempts{began: time.Now(), outcomes: make(map[string]int64)}
	for first := true; ctx.Err() == nil && (first || time.Since(all.began) < atLeast); first = false {
		outcome, took := a.ask(ctx, q, patience)
		all.outcomes[outcome]++
		all.last = outcome
		all.longest = max(all.longest, took)

		if a.in.Server.Ended() {
			all.died = time.Since(all.began)
			break
		}
		if !isAccepted(outcome) {
			_ = load.Wait(ctx, 100*time.Millisecond)
		}
	}
	return all
}

const (
	settledFor  = 5                      // seconds in a row
	settledCPU  = 500 * time.Millisecond // a second, of a process without a running report
	settledRead = 10                     // reports of the honest account, answered in a row
)

// settle waits for the end of work that a report without an answer may have left, or for the end of
// the process. While a report is counted, it uses processor time or the honest account waits.
func (a *reportAttack) settle(ctx context.Context, asked *attempts) {
	if asked.last == outcomeAnswered || !isAccepted(asked.last) || asked.died > 0 {
		return
	}

	deadline := time.Now().Add(a.Settle)
	for settled := 0; settled < settledFor && ctx.Err() == nil && time.Now().Before(deadline); {
		used := a.processorTime(ctx, time.Second)
		if a.in.Server.Ended() {
			asked.died = time.Since(asked.began)
			return
		}

		settled++
		if used > settledCPU || a.answered.Load() < settledRead {
			settled = 0
		}
	}
}

// merge adds the outcomes of another connection.
func (t *attempts) merge(other attempts) {
	if t.outcomes == nil {
		t.outcomes = make(map[string]int64)
	}
	for outcome, n := range other.outcomes {
		t.outcomes[outcome] += n
	}
	t.longest, t.died = max(t.longest, other.longest), max(t.died, other.died)
}

// String returns the outcomes with their numbers.
func (t attempts) String() string {
	text := countsText(t.outcomes)
	if t.died > 0 {
		text += fmt.Sprintf("; process terminated after %.0f s", t.died.Seconds())
	}
	return text
}
