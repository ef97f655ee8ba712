package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// runCommand drives an instance that is running already, or one that it starts itself.
type runCommand struct {
	trafficFlags `embed:""`
	targetFlags  `embed:""`
	Journal      string  `default:"loadgen.journal" placeholder:"FILE" help:"Where acknowledged hits are noted for verify."`
	Rate         float64 `default:"0" placeholder:"N" help:"Hits a second over all connections. 0: as fast as the answers come."`
	Connections  int     `default:"128" placeholder:"N" help:"Browsers that send at once, 1 to 4096."`
	JSON         bool    `name:"json" help:"Print the report as JSON."`
	Pid          int     `placeholder:"PID" help:"Process of the server on this machine, whose CPU and memory are measured."`
}

// trafficFlags say what is sent.
type trafficFlags struct {
	Duration time.Duration `default:"10s" placeholder:"TIME" help:"How long is measured."`
	Warmup   time.Duration `default:"1s" placeholder:"TIME" help:"How long is sent before that."`
	Mix      string        `default:"realistic" enum:"realistic,pageviews" help:"What is sent: realistic or pageviews."`
	Sites    int           `default:"20" placeholder:"N" help:"Sites, 1 to 1000. A few get most of the hits."`
	Visitors int           `default:"20000" placeholder:"N" help:"Visitors of each site."`
	Seed     uint64        `default:"1" placeholder:"N" help:"Two runs with one seed send the same hits."`
}

// maxSites bounds the sites of a run.
const maxSites = 1000

// targetFlags say where to.
type targetFlags struct {
	Control  string `default:"http://127.0.0.1:8080" env:"LOADGEN_CONTROL" placeholder:"ORIGIN" help:"Control plane of the running instance."`
	Data     string `default:"127.0.0.1:8081" env:"LOADGEN_DATA" placeholder:"HOST:PORT" help:"Data plane, which must trust this machine as a proxy (TALLYGATE_TRUSTED_PROXIES) and have no flood limit that a load reaches (TALLYGATE_FLOOD_BURST=1000000000)."`
	Email    string `env:"LOADGEN_EMAIL" placeholder:"ADDRESS" help:"Account to sign in to. Empty: a new one is made."`
	Password string `env:"LOADGEN_PASSWORD" placeholder:"TEXT" help:"Its password."`
	Token    string `env:"LOADGEN_TOKEN" placeholder:"TOKEN" help:"API token, instead of the password."`
}

// Validate checks what one flag alone cannot tell.
func (c *runCommand) Validate() error {
	if c.Connections < 1 || c.Connections > maxConnections {
		return fmt.Errorf("--connections: %d is not from 1 to %d", c.Connections, maxConnections)
	}
	return c.trafficFlags.validate()
}

func (f *trafficFlags) validate() error {
	switch {
	case f.Duration <= 0 || f.Duration > 24*time.Hour:
		return fmt.Errorf("--duration: %v is not more than 0 and at most 24h", f.Duration)
	case f.Warmup < 0 || f.Warmup > time.Hour:
		return fmt.Errorf("--warmup: %v is not from 0 to 1h", f.Warmup)
	case f.Sites < 1 || f.Sites > maxSites:
		return fmt.Errorf("--sites: %d is not from 1 to %d", f.Sites, maxSites)
	case f.Visitors < 1 || f.Visitors > 1<<24:
		return fmt.Errorf("--visitors: %d is not from 1 to %d", f.Visitors, 1<<24)
	}

	return nil
}

// Run runs the command.
func (c *runCommand) Run(ctx context.Context, term terminal) error {
	t := target{Control: c.Control, Data: c.Data, Email: c.Email, Password: c.Password, Token: c.Token}
	t.newcomer()

	s, err := newScene(ctx, t, &c.trafficFlags)
	if err != nil {
		return err
	}
	if !c.JSON {
		s.printNotes(term.out)
	}

	r, err := s.drive(ctx, c.Journal, load{connections: c.Connections, rate: c.Rate, warmup: c.Warmup, duration: c.Duration,
		least: leastAnswers, progress: term.log, watched: []int{c.Pid}})
	if err != nil {
		return err
	}

	report := newReport(r, c.Connections)
	report.Unexpected, report.Notes = s.surprises.count, s.account.notes

	if c.JSON {
		err = json.NewEncoder(term.out).Encode(report)
	} else {
		report.print(term.out)
		fmt.Fprintf(term.out, "The acknowledged hits are in %s; check them with: loadgen verify %s\n", c.Journal, c.Journal)
	}

	return errors.Join(err, ctx.Err(), r.enough(), report.check())
}

// scene is a target with sites, ready to be driven.
type scene struct {
	account   *account
	traffic   traffic
	surprises surprises

	connections int // of the run's phases so far
}

// newScene signs in and makes the sites.
func newScene(ctx context.Context, t target, f *trafficFlags) (*scene, error) {
	a, err := newAccount(t)
	if err != nil {
		return nil, err
	}
	if err := a.signIn(ctx); err != nil {
		return nil, err
	}

	sites, features, err := a.prepareSites(ctx, f.Sites)
	return &scene{account: a, traffic: traffic{
		seed: f.Seed, host: t.Data, mix: mixes[f.Mix], sites: sites, visitors: f.Visitors, features: features,
	}}, err
}

// newOwnScene is newScene with a server of our own, where everything can be set up: whatever is
// missing would pass unchecked.
func newOwnScene(ctx context.Context, b *bench, f *trafficFlags) (*scene, error) {
	s, err := newScene(ctx, b.server.target(), f)
	if err == nil && len(s.account.notes) > 0 {
		err = errors.New(strings.Join(s.account.notes, "; "))
	}
	return s, err
}

func (s *scene) printNotes(w io.Writer) {
	for _, note := range s.account.notes {
		fmt.Fprintln(w, "note:", note)
	}
}

// drive sends the traffic over fresh connections and notes what is acknowledged in a new journal.
func (s *scene) drive(ctx context.Context, path string, l load) (*result, error) {
	j, err := s.begin(ctx, path)
	if err != nil {
		return nil, err
	}
	r := s.phase(ctx, j, l, s.traffic.mix)
	return r, j.close()
}

// begin begins a run with its journal.
func (s *scene) begin(ctx context.Context, path string) (*journal, error) {
	for i := range s.traffic.sites {
		used, err := s.account.usage(ctx, s.traffic.sites[i].ID)
		if err != nil {
			return nil, err
		}

		s.traffic.sites[i].Used = used.Pageviews
	}

	// Not of the seed: the ids of a repeated run are new, like those that browsers make.
	s.traffic.run = uint16(rand.Uint32())
	s.connections = 0
	return createJournal(path, journalHead{Target: s.account.target, Run: s.traffic.run, Seed: s.traffic.seed,
		Started: time.Now().UnixMicro(), Features: s.traffic.features, Sites: s.traffic.sites})
}

// phase sends a mix, as one of several parts of a run. All phases together have at most
// maxConnections connections.
func (s *scene) phase(ctx context.Context, j *journal, l load, mix []share) *result {
	t := s.traffic
	t.mix = mix
	l.addr = t.host
	first := s.connections
	s.connections += l.connections

	return l.run(ctx, func(connection int) source {
		return &visitors{mixer: newMixer(&t, first+connection), journal: j, surprises: &s.surprises}
	})
}

// verifyCommand checks a journal against what is stored.
type verifyCommand struct {
	Journal string `arg:"" default:"loadgen.journal" placeholder:"FILE" help:"Journal of the run."`
	JSON    bool   `name:"json" help:"Print the verdict as JSON."`
}

// Run runs the command. A fault is an error.
func (c *verifyCommand) Run(ctx context.Context, term terminal) error {
	v, err := verify(ctx, c.Journal)
	if err != nil {
		return err
	}

	if c.JSON {
		err = json.NewEncoder(term.out).Encode(v)
	} else {
		v.print(term.out)
	}

	if err == nil && !v.ok() {
		err = errFaults
	}

	return err
}

var errFaults = errors.New("hits were lost, duplicated or miscounted, or none was acknowledged")
