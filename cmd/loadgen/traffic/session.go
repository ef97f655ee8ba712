package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/loadgen/load"
	"github.com/tallygate/tallygate/cmd/loadgen/target"
)

// Session is a target with sites, ready to be driven.
type Session struct {
	Account    *target.Account
	Traffic    Traffic
	Unexpected load.Unexpected

	connections int // of the run's phases so far
}

// NewSession signs in and makes the sites.
func NewSession(ctx context.Context, t target.Target, f *Flags) (*Session, error) {
	a, err := target.NewAccount(t)
	if err != nil {
		return nil, err
	}
	if err := a.SignIn(ctx); err != nil {
		return nil, err
	}

	sites, features, err := a.PrepareSites(ctx, f.Sites)
	return &Session{Account: a, Traffic: Traffic{
		Seed: f.Seed, Host: t.Data, Mix: Mixes[f.Mix], Sites: sites, Visitors: f.Visitors, features: features,
	}}, err
}

// NewOwnSession is newScene with a server of our own, where everything can be set up: whatever is
// missing would pass unchecked.
func NewOwnSession(ctx context.Context, t target.Target, f *Flags) (*Session, error) {
	s, err := NewSession(ctx, t, f)
	if err == nil && len(s.Account.Notes) > 0 {
		err = errors.New(strings.Join(s.Account.Notes, "; "))
	}
	return s, err
}

func (s *Session) PrintNotes(w io.Writer) {
	for _, note := range s.Account.Notes {
		fmt.Fprintln(w, "note:", note)
	}
}

// Drive sends the traffic over fresh connections and notes what is acknowledged in a new journal.
func (s *Session) Drive(ctx context.Context, path string, l load.Load) (*load.Result, error) {
	j, err := s.Begin(ctx, path)
	if err != nil {
		return nil, err
	}
	r := s.Phase(ctx, j, l, s.Traffic.Mix)
	return r, j.Close()
}

// Begin begins a run with its journal.
func (s *Session) Begin(ctx context.Context, path string) (*Journal, error) {
	for i := range s.Traffic.Sites {
		used, err := s.Account.Usage(ctx, s.Traffic.Sites[i].ID)
		if err != nil {
			return nil, err
		}

		s.Traffic.Sites[i].Used = used.Pageviews
	}

	// Not of the seed: the ids of a repeated run are new, like those that browsers make.
	s.Traffic.run = uint16(rand.Uint32())
	s.connections = 0
	return CreateJournal(path, JournalHead{Target: s.Account.Target, Run: s.Traffic.run, Seed: s.Traffic.Seed,
		Started: time.Now().UnixMicro(), Features: s.Traffic.features, Sites: s.Traffic.Sites})
}

// Phase sends a mix, as one of several parts of a run. All phases together have at most
// maxConnections connections.
func (s *Session) Phase(ctx context.Context, j *Journal, l load.Load, mix []share) *load.Result {
	t := s.Traffic
	t.Mix = mix
	l.Addr = t.Host
	first := s.connections
	s.connections += l.Connections

	return l.Run(ctx, func(connection int) load.Source {
		return &Visitors{Mixer: NewMixer(&t, first+connection), journal: j, surprises: &s.Unexpected}
	})
}
