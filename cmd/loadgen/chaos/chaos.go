package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tallygate/tallygate/cmd/loadgen/instance"
	"github.com/tallygate/tallygate/cmd/loadgen/load"
	"github.com/tallygate/tallygate/cmd/loadgen/process"
	"github.com/tallygate/tallygate/cmd/loadgen/report"
	"github.com/tallygate/tallygate/cmd/loadgen/traffic"
	"github.com/tallygate/tallygate/cmd/loadgen/verify"
)

// Command breaks a server of its own under load, again and again, and checks afterwards that
// nothing that was acknowledged is lost, doubled or miscounted.
type Command struct {
	Program     string   `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engine      string   `default:"sqlite" enum:"sqlite,postgres" help:"Database: sqlite, or a private postgres."`
	Break       []string `default:"server" enum:"server,postgres,redis" placeholder:"WHAT" help:"What is broken: any of server, postgres, redis. With redis, the worker runs as well."`
	Rounds      int      `default:"20" placeholder:"N" help:"How often something is broken, 1 to 100000."`
	Seed        uint64   `default:"1" placeholder:"N" help:"Decides what is broken and when."`
	Connections int      `default:"64" placeholder:"N" help:"Browsers that send at once."`
	Sites       int      `default:"10" placeholder:"N" help:"Sites, 1 to 1000."`
	JSON        bool     `name:"json" help:"Print the outcome as JSON."`
}

// Validate checks what one flag alone cannot tell.
func (c *Command) Validate() error {
	switch {
	case c.Rounds < 1 || c.Rounds > 100_000:
		return fmt.Errorf("--rounds: %d is not from 1 to 100000", c.Rounds)
	case c.Connections < 1 || c.Connections > traffic.MaxConnections:
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, traffic.MaxConnections)
	case c.Sites < 1 || c.Sites > traffic.MaxSites:
		return fmt.Errorf("--sites: %d is not from 1 to %d", c.Sites, traffic.MaxSites)
	case slices.Contains(c.Break, "postgres") && c.Engine != "postgres":
		return errors.New("--break postgres needs --engine postgres")
	}

	return nil
}

// Outcome is what the command reports.
type Outcome struct {
	Engine     string           `json:"engine"`
	Rounds     int              `json:"rounds"`
	Broken     map[string]int   `json:"broken"`
	Seconds    float64          `json:"seconds"`
	Answers    map[string]int64 `json:"answers"`
	Unexpected map[string]int64 `json:"unexpected,omitempty"`
	Verdict    *verify.Verdict  `json:"verdict"`
}

func (o *Outcome) OK() bool { return o.Verdict.Complete() && len(o.Unexpected) == 0 }

func (o *Outcome) Print(w io.Writer) {
	fmt.Fprintf(w, "%s: %d rounds in %.0f s:", o.Engine, o.Rounds, o.Seconds)

	for _, name := range slices.Sorted(maps.Keys(o.Broken)) {
		fmt.Fprintf(w, " %s %d times;", name, o.Broken[name])
	}

	fmt.Fprintln(w)
	report.PrintCounts(w, "answers", o.Answers)
	report.PrintCounts(w, "UNEXPECTED answers", o.Unexpected)
	o.Verdict.Print(w)
}

// Run runs the command. A fault is an error.
func (c *Command) Run(ctx context.Context, term report.Terminal) error {
	b, err := instance.New(c.Program, c.Engine)
	if err != nil {
		return err
	}
	defer b.Close()

	outcome, err := c.Play(ctx, b, term.Log)
	if err != nil {
		return err
	}

	if c.JSON {
		err = json.NewEncoder(term.Out).Encode(outcome)
	} else {
		outcome.Print(term.Out)
	}

	if err == nil && !outcome.OK() {
		err = verify.ErrFaults
	}

	return err
}

// Play breaks a fresh bench and checks it.
func (c *Command) Play(ctx context.Context, b *instance.Instance, progress io.Writer) (*Outcome, error) {
	m := &mayhem{bench: b, random: rand.New(rand.NewPCG(c.Seed, 0)), broken: make(map[string]int), progress: progress, rounds: c.Rounds}

	if slices.Contains(c.Break, "redis") {
		if err := m.useRedis(); err != nil {
			return nil, err
		}
		defer m.redis.Kill()
	}

	if err := b.Server.Start(ctx); err != nil {
		return nil, err
	}

	flags := traffic.Flags{Mix: "realistic", Sites: c.Sites, Visitors: 2000, Seed: c.Seed}
	s, err := traffic.NewOwnSession(ctx, b.Server.Target(), &flags)
	if err != nil {
		return nil, err
	}

	m.events = m.eventsOf(c.Break)
	began := time.Now()

	r, err := m.during(ctx, func(ctx context.Context, successes *atomic.Int64) (*load.Result, error) {
		return s.Drive(ctx, filepath.Join(b.Dir, "journal"), load.Load{Connections: c.Connections, Successes: successes})
	})
	if err != nil {
		return nil, err
	}

	v, err := verify.Journal(ctx, filepath.Join(b.Dir, "journal"))
	return &Outcome{Engine: c.Engine, Rounds: c.Rounds, Broken: m.broken, Seconds: time.Since(began).Seconds(),
		Answers: r.Answers, Unexpected: s.Unexpected.Counts, Verdict: v}, err
}

// mayhem breaks things during a load.
type mayhem struct {
	bench    *instance.Instance
	redis    *instance.Redis // nil without one
	random   *rand.Rand
	rounds   int
	events   []event
	broken   map[string]int // how often, by event
	progress io.Writer
}

// event is one way to break something. Afterwards everything runs again.
type event struct {
	name string
	do   func(ctx context.Context) error
}

// eventsOf lists what can happen to the given parts.
func (m *mayhem) eventsOf(parts []string) []event {
	server, postgres := m.bench.Server, m.bench.Postgres
	var all []event

	for _, part := range parts {
		switch part {
		case "server":
			all = append(all,
				event{"kill server", func(ctx context.Context) error { server.Kill(); return server.Start(ctx) }},
				// the hardest: twice as often
				event{"kill server", func(ctx context.Context) error { server.Kill(); return server.Start(ctx) }},
				event{"pause server", func(ctx context.Context) error { server.Pause(); m.wait(ctx, longPause); server.Resume(); return nil }},
				event{"restart server", func(ctx context.Context) error { return errors.Join(server.Stop(), server.Start(ctx)) }})
		case "postgres":
			all = append(all,
				event{"crash postgres", func(context.Context) error { postgres.Crash(); return postgres.Restart() }},
				event{"pause postgres", func(ctx context.Context) error {
					pid := postgres.Pid()
					process.SignalFamily(pid, syscall.SIGSTOP)
					m.wait(ctx, longPause)
					process.SignalFamily(pid, syscall.SIGCONT)
					return nil
				}})
		case "redis":
			all = append(all,
				event{"kill redis", func(ctx context.Context) error { m.redis.Kill(); m.wait(ctx, shortPause); return m.redis.Start(ctx) }},
				event{"pause redis", func(ctx context.Context) error { m.redis.Pause(); m.wait(ctx, longPause); m.redis.Resume(); return nil }})
		}
	}

	return all
}

// How long a round lasts, and how long something is paused, at most.
const (
	shortPause = 150 * time.Millisecond
	longPause  = 800 * time.Millisecond
)

// wait waits for a random part of limit.
func (m *mayhem) wait(ctx context.Context, limit time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(m.random.Int64N(int64(limit)))):
	}
}

// during breaks things while the load runs, and ends the load when everything runs again.
func (m *mayhem) during(ctx context.Context, drive func(context.Context, *atomic.Int64) (*load.Result, error)) (*load.Result, error) {
	var successes atomic.Int64
	loading, stop := context.WithCancel(ctx)
	defer stop()

	type driven struct {
		result *load.Result
		err    error
	}

	finished := make(chan driven, 1)
	go func() {
		r, err := drive(loading, &successes)
		finished <- driven{r, err}
	}()

	err := m.breakThings(ctx, &successes)
	stop()
	d := <-finished

	return d.result, errors.Join(err, d.err)
}

func (m *mayhem) breakThings(ctx context.Context, successes *atomic.Int64) error {
	for round := range m.rounds {
		if err := m.awaitSuccesses(ctx, successes); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}

		// at any moment of the work
		m.wait(ctx, shortPause)
		e := m.events[m.random.IntN(len(m.events))]

		if m.progress != nil {
			fmt.Fprintf(m.progress, "round %d of %d: %s after %d successes\n", round+1, m.rounds, e.name, successes.Load())
		}
		if err := errors.Join(e.do(ctx), ctx.Err()); err != nil {
			return fmt.Errorf("round %d, %s: %w", round, e.name, err)
		}

		m.broken[e.name]++
	}

	return m.awaitSuccesses(ctx, successes)
}

// awaitSuccesses waits until the server serves again as it did: a round without any success would
// prove nothing.
func (m *mayhem) awaitSuccesses(ctx context.Context, successes *atomic.Int64) error {
	enough := successes.Load() + 200
	ctx, cancel := context.WithTimeout(ctx, instance.StartPatience)
	defer cancel()

	for successes.Load() < enough {
		if m.bench.Server.Ended() {
			return fmt.Errorf("the server ended by itself:\n%s", m.bench.Server.Logged())
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("no successes:\n%s", strings.TrimSpace(m.bench.Server.Logged()))
		case <-time.After(time.Millisecond):
		}
	}

	return nil
}

// useRedis gives the server a private Redis, and the role that needs it.
func (m *mayhem) useRedis() (err error) {
	if m.redis, err = instance.NewRedis(); err != nil {
		return err
	}
	if err := m.redis.Start(context.Background()); err != nil {
		return err
	}

	env := m.bench.Server.Env
	env["TALLYGATE_REDIS_URL"], env["TALLYGATE_ROLES"] = m.redis.URL(), "control,data,worker"
	return nil
}
