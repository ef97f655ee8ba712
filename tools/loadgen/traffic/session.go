package traffic

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// Session is a target with its sites, ready for traffic.
type Session struct {
	Account    *target.Account
	Traffic    Traffic
	Unexpected load.Counter

	connections int // of the run's phases until now
}

// NewSession signs in and creates the sites.
func NewSession(ctx context.Context, t target.Target, f *Flags) (*Session, error) {
	a, err := target.NewAccount(t)
	if err != nil {
		return nil, err
	}
	if err := a.SignIn(ctx); err != nil {
		return nil, err
	}

	sites, features, err := a.PrepareSites(ctx, f.Sites, cmp.Or(f.Webhook, target.NoReceiver))
	return &Session{Account: a, Traffic: Traffic{
		Seed: f.Seed, Host: t.Data, Mix: Mixes[f.Mix], Sites: sites, Visitors: f.Visitors, features: features,
	}}, err
}

// NewOwnSession is NewSession for a private server. There every feature must be available, because
// a missing feature would not be verified.
func NewOwnSession(ctx context.Context, t target.Target, f *Flags) (*Session, error) {
	s, err := NewSession(ctx, t, f)
	if err == nil && len(s.Account.Notes) > 0 {
		err = errors.New(strings.Join(s.Account.Notes, "; "))
	}
	return s, err
}

// Drive sends the traffic over new connections and records acknowledged hits in a new journal.
func (s *Session) Drive(ctx context.Context, path string, l load.Load) (*load.Result, error) {
	j, err := s.Begin(ctx, path)
	if err != nil {
		return nil, err
	}
	r := s.Phase(ctx, j, l, s.Traffic.Mix)
	return r, j.Close()
}

// Begin starts a run and creates its journal.
func (s *Session) Begin(ctx context.Context, path string) (*Journal, error) {
	for i := range s.Traffic.Sites {
		used, err := s.Account.Usage(ctx, s.Traffic.Sites[i].ID)
		if err != nil {
			return nil, err
		}

		s.Traffic.Sites[i].Used = used.Pageviews
	}

	// The run's number does not depend on the seed: a repeated run has new ids, as browsers have.
	s.Traffic.run = uint16(rand.Uint32())
	s.connections = 0
	return CreateJournal(path, JournalHead{Target: s.Account.Target, Run: s.Traffic.run, Seed: s.Traffic.Seed,
		Started: time.Now().UnixMicro(), Features: s.Traffic.features, Sites: s.Traffic.Sites})
}

// Phase sends a mix as one phase of a run. All phases together have at most MaxConnections
// connections.
func (s *Session) Phase(ctx context.Context, j *Journal, l load.Load, mix []share) *load.Result {
	t := s.Traffic
	t.Mix = mix
	l.Addr = t.Host
	first := s.connections
	s.connections += l.Connections

	return l.Run(ctx, func(connection int) load.Source {
		return &Visitors{Mixer: NewMixer(&t, first+connection), journal: j, unexpected: &s.Unexpected}
	})
}
