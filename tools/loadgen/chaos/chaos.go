// Package chaos kills, pauses and restarts private servers under load, and checks that no
// acknowledged hit is lost.
package chaos

import (
	"context"
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

	"github.com/tallygate/tallygate/tools/loadgen/instance"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/process"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
	"github.com/tallygate/tallygate/tools/loadgen/verify"
)

// Command kills, pauses and restarts a private server under load, then checks that no acknowledged
// hit is lost, duplicated or miscounted.
type Command struct {
	Program     string   `default:"bin/tallygate" placeholder:"FILE" help:"The tallygate program."`
	Engine      string   `default:"sqlite" enum:"sqlite,postgres" help:"Database: sqlite, or a private postgres."`
	Break       []string `default:"server" enum:"server,postgres,redis" placeholder:"WHAT" help:"Servers to break: any of server, postgres, redis. With redis, the worker runs too."`
	Rounds      int      `default:"20" placeholder:"N" help:"Number of outages, 1 to 100000."`
	Seed        uint64   `default:"1" placeholder:"N" help:"Seed of the random choice of outages."`
	Connections int      `default:"64" placeholder:"N" help:"Concurrent browsers."`
	Sites       int      `default:"10" placeholder:"N" help:"Number of sites, 1 to 1000."`
	JSON        bool     `name:"json" help:"Print the outcome as JSON."`
}

// Validate checks the limits of the flags.
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

// Outcome is the result of the command.
type Outcome struct {
	Engine     string           `json:"engine"`
	Rounds     int              `json:"rounds"`
	Broken     map[string]int   `json:"broken"`
	Seconds    float64          `json:"seconds"`
	Answers    map[string]int64 `json:"answers"`
	Unexpected map[string]int64 `json:"unexpected,omitempty"`
	Verdict    *verify.Verdict  `json:"verdict"`
}

// OK reports whether no fault was found and every check was made.
func (o *Outcome) OK() bool { return o.Verdict.Complete() && len(o.Unexpected) == 0 }

// Print writes the outcome for people.
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

// Run prints the outcome. It returns an error if a fault was found.
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

	return verify.Print(term, c.JSON, outcome)
}

// Play runs the rounds on a new instance and verifies the hits.
func (c *Command) Play(ctx context.Context, b *instance.Instance, progress io.Writer) (*Outcome, error) {
	m := &mayhem{instance: b, random: rand.New(rand.NewPCG(c.Seed, 0)), broken: make(map[string]int),
		progress: progress, rounds: c.Rounds}

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
		return s.Drive(ctx, filepath.Join(b.Dir, "journal"),
			load.Load{Connections: c.Connections, Successes: successes})
	})
	if err != nil {
		return nil, err
	}

	v, err := verify.Journal(ctx, filepath.Join(b.Dir, "journal"))
	return &Outcome{Engine: c.Engine, Rounds: c.Rounds, Broken: m.broken, Seconds: time.Since(began).Seconds(),
		Answers: r.Answers, Unexpected: s.Unexpected.Counts, Verdict: v}, err
}

// mayhem breaks servers during a load.
type mayhem struct {
	instance *instance.Instance
	redis    *instance.Redis // nil unless it is broken too
	random   *rand.Rand
	rounds   int
	events   []event
	broken   map[string]int // count by event
	progress io.Writer
}

// event breaks something and repairs it.
type event struct {
	name string
	do   func(ctx context.Context) error
}

// eventsOf returns the events of the given servers.
func (m *mayhem) eventsOf(servers []string) []event {
	server, postgres := m.instance.Server, m.instance.Postgres
	var all []event

	for _, name := range servers {
		switch name {
		case "server":
			all = append(all,
				event{"kill server", func(ctx context.Context) error { server.Kill(); return server.Start(ctx) }},
				// A kill is the hardest test, so it is twice as frequent.
				event{"kill server", func(ctx context.Context) error { server.Kill(); return server.Start(ctx) }},
				event{"pause server",
					func(ctx context.Context) error {
						server.Pause()
						m.wait(ctx,
							longPause)
						server.Resume()
						return nil
					}},
				event{"restart server",
					func(ctx context.Context) error { return errors.Join(server.Stop(), server.Start(ctx)) }})
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
				event{"kill redis", func(ctx context.Context) error {
					m.redis.Kill()
					m.wait(ctx,
						shortPause)
					return m.redis.Start(ctx)
				}},
				event{"pause redis", func(ctx context.Context) error {
					m.redis.Pause()
					m.wait(ctx,
						longPause)
					m.redis.Resume()
					return nil
				}})
		}
	}

	return all
}

// The longest wait before an event, and the longest outage.
const (
	shortPause = 150 * time.Millisecond
	longPause  = 800 * time.Millisecond
)

// wait waits for a random time below limit.
func (m *mayhem) wait(ctx context.Context, limit time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(m.random.Int64N(int64(limit)))):
	}
}

// during runs the events while the load runs, and then ends the load.
func (m *mayhem) during(ctx context.Context, drive func(context.Context, *atomic.Int64) (*load.Result,
	error)) (*load.Result, error) {
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

		// Strike at a random time.
		m.wait(ctx, shortPause)
		e := m.events[m.random.IntN(len(m.events))]

		if m.progress != nil {
			fmt.Fprintf(m.progress, "round %d of %d: %s after %d successes\n",
				round+1, m.rounds, e.name, successes.Load())
		}
		if err := errors.Join(e.do(ctx), ctx.Err()); err != nil {
			return fmt.Errorf("round %d, %s: %w", round, e.name, err)
		}

		m.broken[e.name]++
	}

	return m.awaitSuccesses(ctx, successes)
}

// awaitSuccesses waits for 200 more successes, because a round without any would prove nothing.
func (m *mayhem) awaitSuccesses(ctx context.Context, successes *atomic.Int64) error {
	enough := successes.Load() + 200
	ctx, cancel := context.WithTimeout(ctx, instance.StartPatience)
	defer cancel()

	for successes.Load() < enough {
		if m.instance.Server.Ended() {
			return fmt.Errorf("the server terminated by itself:\n%s", m.instance.Server.Logged())
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("no successful calls:\n%s", strings.TrimSpace(m.instance.Server.Logged()))
		case <-time.After(time.Millisecond):
		}
	}

	return nil
}

// useRedis starts a private Redis for the server, and adds the worker role, which uses it.
func (m *mayhem) useRedis() (err error) {
	if m.redis, err = instance.NewRedis(); err != nil {
		return err
	}
	if err := m.redis.Start(context.Background()); err != nil {
		return err
	}

	env := m.instance.Server.Env
	env["TALLYGATE_REDIS_URL"], env["TALLYGATE_ROLES"] = m.redis.URL(), "control,data,worker"
	return nil
}
