package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// Chaos kills, pauses and restarts a private server under load, then checks that no acknowledged
// hit is lost, duplicated or miscounted.
type Chaos struct {
	Private
	Engine      string        `long:"engine" default:"sqlite" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Database: sqlite, or a private postgres."`
	Break       []string      `long:"break" default:"server" choice:"server" choice:"child" choice:"parent" choice:"postgres" choice:"redis" value-name:"WHAT" unquote:"false" description:"Processes to break: any of server, postgres, redis; or child, the server's child processes, which it must replace; or parent, the server without them, which they must not outlive. With child, parent and redis, the worker runs too. May be repeated."`
	Rounds      int           `long:"rounds" default:"20" value-name:"N" description:"Number of outages, 1 to 100000."`
	Seed        uint64        `long:"seed" default:"1" value-name:"N" description:"Seed of the random choice of outages."`
	Rate        float64       `long:"rate" value-name:"N" description:"Hits a second. 0: each browser sends after its last answer."`
	Late        time.Duration `long:"late" default:"1s" value-name:"TIME" description:"Longest accepted answer while only child processes are broken. No hit may be refused then."`
	Back        time.Duration `long:"back" default:"2s" value-name:"TIME" description:"Longest accepted time until killed child processes are replaced, or until they end after their parent."`
	Connections int           `long:"connections" default:"64" value-name:"N" description:"Concurrent browsers."`
	Sites       int           `long:"sites" default:"10" value-name:"N" description:"Number of sites, 1 to 1000."`
}

// Validate checks the limits of the flags.
func (c *Chaos) Validate() error {
	if slices.Contains(c.Break, "postgres") && c.Engine != "postgres" {
		return errors.New("--break postgres needs --engine postgres")
	}
	return errors.Join(within("--rounds", c.Rounds, 1, 100_000), within("--rate", c.Rate, 0, 100_000), within("--late", c.Late, 0, longest), within("--back", c.Back, 0, longest),
		within("--connections", c.Connections, 1, traffic.MaxConnections), within("--sites", c.Sites, 1, traffic.MaxSites))
}

// Play implements Scenario.
func (c *Chaos) Play(ctx context.Context, progress io.Writer) (o *report.Outcome, err error) {
	err = c.on(c.Engine, new(report.Outcome), progress, func(s *stage) error {
		o, err = c.PlayOn(ctx, s.in, progress)
		return err
	})
	return o, err
}

// PlayOn breaks a new installation in rounds, and verifies the hits.
func (c *Chaos) PlayOn(ctx context.Context, in *instance.Instance, progress io.Writer) (*report.Outcome, error) {
	flags := traffic.Flags{Mix: "realistic", Sites: c.Sites, Visitors: 2000, Seed: c.Seed}
	if slices.Contains(c.Break, "redis") {
		if err := in.UseRedis(ctx); err != nil {
			return nil, err
		}
	}
	var webhooks *receiver
	if slices.Contains(c.Break, "child") || slices.Contains(c.Break, "parent") {
		var err error
		if webhooks, err = startReceiver(in.Dir); err != nil {
			return nil, err
		}
		defer webhooks.server.Close()
		maps.Copy(in.Server.Env, webhooks.settings())
		in.Server.Env["TALLYGATE_ROLES"], flags.Webhook = "control,data,worker", webhooks.address()
	}
	if err := in.Server.Start(ctx); err != nil {
		return nil, err
	}

	s := &stage{in: in, outcome: &report.Outcome{Scenario: "chaos"}, progress: progress}
	if err := s.open(ctx, in.Server, flags); err != nil {
		return nil, err
	}

	began := time.Now()
	broken := report.NewCase("engine", c.Engine, "connections", c.Connections)
	results, gaps, err := underLoad(ctx, []*stage{s}, load.Load{Connections: c.Connections, Rate: c.Rate},
		func(ctx context.Context, t *traffics) error { return c.breakThings(ctx, s, t, broken) })
	if err != nil {
		return nil, errors.Join(err, s.journal.Close())
	}

	s.outcome.Cases = []*report.Case{broken}
	s.outcome.AddAnswers(results[0])
	broken.Add("outages", float64(c.Rounds))
	broken.Worst("gap-s", gaps[0].Seconds())
	s.outcome.Write("%s: %d rounds in %.0f s, at most %.1f s without a success:", c.Engine, c.Rounds,
		time.Since(began).Seconds(), gaps[0].Seconds())
	for _, f := range broken.Figures {
		if name, ok := strings.CutPrefix(f.Unit, brokenUnit); ok {
			s.outcome.Write(" %s %d times;", name, len(f.Rounds))
		}
	}
	s.outcome.Write("\n")
	c.check(s.outcome, broken, results[0])
	if webhooks != nil {
		d, err := webhooks.await(ctx, s.session.Account, s.session.Traffic.Sites)
		if err != nil {
			return nil, errors.Join(err, s.journal.Close())
		}
		if !d.complete() {
			s.outcome.Fault("conversions were not delivered, or too often: %+v", d)
		}
		s.outcome.Write("of %d conversions %d arrived, with %d repeated calls, at most %d calls of one\n", d.Stored, d.Received, d.Repeated, d.Most)
	}
	return s.outcome, s.close(ctx)
}

// The units of the durations of faults.
const (
	childBack     = "child-back-s"
	childOutlived = "child-outlived-s"
)

// check adds what the faults of child processes must keep: they end and are back in time and, if
// nothing else is broken, no hit is refused or late.
func (c *Chaos) check(o *report.Outcome, broken *report.Case, r *load.Result) {
	for _, took := range []struct{ unit, what string }{
		{childBack, "child processes were back"}, {childOutlived, "child processes outlived their parent"},
	} {
		if !broken.Has(took.unit) {
			continue
		}
		o.Write("%s after at most %.2f s\n", took.what, broken.Get(took.unit))
		if broken.Get(took.unit) > c.Back.Seconds() {
			o.Fault("%s after %.2f s, want at most %v", took.what, broken.Get(took.unit), c.Back)
		}
	}

	if slices.ContainsFunc(c.Break, func(what string) bool { return what != "child" }) {
		return
	}
	late, failed := r.Latency.Max, r.Failed+r.Outside
	o.Write("%d hits refused or without an answer; p50 %.1f ms, p99 %.1f ms, the longest %.0f ms\n", failed,
		report.Milliseconds(r.Latency.Quantile(0.5)), report.Milliseconds(r.Latency.Quantile(0.99)), report.Milliseconds(late))
	if failed > 0 || late > c.Late {
		o.Fault("while child processes were killed, %d hits were refused, and one took %v", failed, late)
	}
}

// brokenUnit begins the units of the numbers of faults.
const brokenUnit = "faults:"

// The longest wait before a fault, and the longest outage.
const (
	shortPause = 150 * time.Millisecond
	longPause  = 800 * time.Millisecond
)

// faults returns the faults of the servers to break. An outage lasts a random time.
func (c *Chaos) faults(in *instance.Instance, random *rand.Rand, broken *report.Case) (all []instance.Fault) {
	worst := func(unit string) func(time.Duration) {
		return func(took time.Duration) { broken.Worst(unit, took.Seconds()) }
	}
	below := func(limit time.Duration) instance.Pause {
		return func() time.Duration { return time.Duration(random.Int64N(int64(limit))) }
	}

	for _, name := range c.Break {
		switch name {
		case "server":
			// A kill is the hardest test, so it is twice as frequent.
			killed := instance.Killed("kill server", nil, in.Server)
			all = append(all, killed, killed, instance.Paused("pause server", below(longPause), in.Server),
				instance.Restarted("restart server", in.Server))
		case "child":
			all = append(all, instance.ChildKilled("kill child", in.Server, worst(childBack)))
		case "parent":
			all = append(all, instance.ParentKilled("kill parent", in.Server, worst(childOutlived)))
		case "postgres":
			all = append(all, in.PostgresFaults(below(longPause))...)
		case "redis":
			all = append(all, instance.Killed("kill redis", below(shortPause), in.Redis),
				instance.Paused("pause redis", below(longPause), in.Redis))
		}
	}
	return all
}

// breakThings lets a random fault happen in each round, at a random time.
func (c *Chaos) breakThings(ctx context.Context, s *stage, t *traffics, broken *report.Case) error {
	const successes = 200
	random := rand.New(rand.NewPCG(c.Seed, 0))
	faults := c.faults(s.in, random, broken)

	for round := range c.Rounds {
		if err := t.await(ctx, successes); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}

		_ = load.Wait(ctx, time.Duration(random.Int64N(int64(shortPause))))
		f := faults[random.IntN(len(faults))]
		fmt.Fprintf(s.progress, "round %d of %d: %s after %d successes\n", round+1, c.Rounds, f.Name, t.successes[0].Load())
		if err := errors.Join(f.Do(ctx, round), ctx.Err()); err != nil {
			return fmt.Errorf("round %d, %s: %w", round, f.Name, err)
		}
		broken.Add(brokenUnit+f.Name, 1)
	}
	return t.await(ctx, successes)
}
