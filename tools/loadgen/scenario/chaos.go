package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// Chaos kills, pauses and restarts a private server under load, then checks that no acknowledged hit
// is lost, duplicated or miscounted.
type Chaos struct {
	Private
	Engine      string   `long:"engine" default:"sqlite" choices:"sqlite,postgres" value-name:"NAME" unquote:"false" description:"Database: sqlite, or a private postgres."`
	Break       []string `long:"break" default:"server" choices:"server,postgres,redis" value-name:"WHAT" unquote:"false" description:"Servers to break: any of server, postgres, redis. With redis, the worker runs too. May be repeated."`
	Rounds      int      `long:"rounds" default:"20" value-name:"N" description:"Number of outages, 1 to 100000."`
	Seed        uint64   `long:"seed" default:"1" value-name:"N" description:"Seed of the random choice of outages."`
	Connections int      `long:"connections" default:"64" value-name:"N" description:"Concurrent browsers."`
	Sites       int      `long:"sites" default:"10" value-name:"N" description:"Number of sites, 1 to 1000."`
}

// Validate checks the limits of the flags.
func (c *Chaos) Validate() error {
	if slices.Contains(c.Break, "postgres") && c.Engine != "postgres" {
		return errors.New("--break postgres needs --engine postgres")
	}
	return errors.Join(within("--rounds", c.Rounds, 1, 100_000),
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
	if slices.Contains(c.Break, "redis") {
		if err := in.UseRedis(ctx); err != nil {
			return nil, err
		}
	}
	if err := in.Server.Start(ctx); err != nil {
		return nil, err
	}

	s := &stage{in: in, outcome: &report.Outcome{Scenario: "chaos"}, progress: progress}
	if err := s.open(ctx, in.Server, traffic.Flags{Mix: "realistic", Sites: c.Sites, Visitors: 2000, Seed: c.Seed}); err != nil {
		return nil, err
	}

	began := time.Now()
	broken := report.NewCase("engine", c.Engine, "connections", c.Connections)
	results, gaps, err := underLoad(ctx, []*stage{s}, load.Load{Connections: c.Connections},
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
	return s.outcome, s.close(ctx)
}

// brokenUnit begins the units of the numbers of faults.
const brokenUnit = "faults:"

// The longest wait before a fault, and the longest outage.
const (
	shortPause = 150 * time.Millisecond
	longPause  = 800 * time.Millisecond
)

// faults returns the faults of the servers to break. An outage lasts a random time.
func (c *Chaos) faults(in *instance.Instance, random *rand.Rand) (all []instance.Fault) {
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
	faults := c.faults(s.in, random)

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
