// Package captcha serves the endpoints of the captcha contract. dataplane.Handler mounts them. It
// never accepts a challenge or token twice, and stores no address.
//
// A token passes through these files: challenge.go issues a challenge, verify.go exchanges its
// solution for a token, siteverify.go and compat.go redeem the token for the site's server.
// widget.go holds what the two browser endpoints share, sitekeys.go finds sitekeys, keys.go holds
// the signing keys, writer.go consumes challenges and tokens, and counts.go counts calls for
// owners. The packages pow and token define challenges and tokens, and difficulty sets how hard
// challenges are, from the sitekey's policy, what automation.go finds, and the attacks that
// attacks.go shares with other processes.
package captcha

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/difficulty"
	"github.com/tallygate/tallygate/dataplane/counter"
	"github.com/tallygate/tallygate/dataplane/rulecache"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// Options configure a Service. All fields but Rotation, IsShared, Origins, Timeout and
// NoTestSitekey are required.
type Options struct {
	Cell       *db.Cell           // of Store; the writers of other cells are started when needed
	Secret     []byte             // application key, at least 16 bytes; those of challenges and tokens derive from it
	Rotation   *model.KeyRotation // of the application key; nil without a previous one
	ClientAddr func(*http.Request) netip.Addr
	Difficulty uint32 // base difficulty in expected hashes; see difficulty.Min
	Now        func() time.Time
	Store      ClaimStore // the service closes it
	Log        *slog.Logger

	// IsShared reports whether many clients share the client address, so that nothing may depend on
	// its network; see web.Clients. Nil means never.
	IsShared func(*http.Request) bool

	// Origins are the public origins of the service, such as https://captcha.example.com. The page
	// that Frame serves makes its calls from them, and works for no bound sitekey without.
	Origins []string

	// Timeout bounds all of a request's waits for the database together. 0 means StoreTimeout.
	Timeout time.Duration

	// NoTestSitekey disables the test sitekey and its secret.
	NoTestSitekey bool
}

// Service answers the captcha endpoints. It is safe for concurrent use.
type Service struct {
	clientAddr    func(*http.Request) netip.Addr
	isShared      func(*http.Request) bool
	noTestSitekey bool
	origins       []string // as browsers send them
	now           func() time.Time
	timeout       time.Duration // see Options.Timeout
	log           *slog.Logger

	keys       *keys
	difficulty *difficulty.Control
	bySitekey  *rulecache.Cache[sitekey]
	bySecret   *rulecache.Cache[sitekey] // keys are the bytes of a secret's hash
	watch      rulecache.Watch
	writers    *cellWriters
	attacks    *attacks
	counts     *counter.Counter[ingest.CaptchaCountKey] // by sitekey and day, for owners
	metrics    *metrics

	background sync.WaitGroup
	cancel     context.CancelFunc // ends the background work
}

// New returns a service that stores claims after Start. It fails if the secret is too short.
func New(o Options) (*Service, error) {
	keys, err := newKeys(o.Secret, o.Rotation)
	if err != nil {
		return nil, err
	}
	if o.IsShared == nil {
		o.IsShared = func(*http.Request) bool { return false }
	}
	if o.Timeout == 0 {
		o.Timeout = StoreTimeout
	}

	d := o.Cell.Common
	s := &Service{
		clientAddr:    o.ClientAddr,
		isShared:      o.IsShared,
		noTestSitekey: o.NoTestSitekey,
		origins:       sentOrigins(o.Origins),
		now:           o.Now,
		timeout:       o.Timeout,
		log:           o.Log,
		keys:          keys,
		difficulty:    difficulty.New(o.Difficulty),
		bySitekey:     rulecache.New(loadSitekey(sites.New(d).Lookup.SitekeyByKey), o.Now),
		bySecret: rulecache.New(loadSitekey(func(ctx context.Context, hash string) (*model.Sitekey, error) {
			return sites.New(d).Lookup.SitekeyBySecret(ctx, []byte(hash))
		}), o.Now),
		watch:   sites.New(d).Lookup.WatchSitekeys,
		attacks: newAttacks(sites.New(d).Sitekeys.SawAttack, o.Log),
		counts:  counter.New(ingest.New(d).AddCaptchaCounts, counter.Options{Log: o.Log, What: "captcha calls"}),
		cancel:  func() {},
	}
	s.metrics = newMetrics(func() int { return s.writers.Len() })
	s.writers = s.newWriters(o.Cell, o.Store, o.Timeout, s.metrics.batches)
	return s, nil
}

// deadline returns when a request that waits for the database from now on gives up.
func (s *Service) deadline() time.Time { return time.Now().Add(s.timeout) }

// Start starts the writers, the flushing of counters, and the watch for changed sitekeys. It is
// called once.
func (s *Service) Start() {
	s.writers.Start()
	s.counts.Start()

	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.background.Go(func() { s.attacks.run(ctx) })
	s.background.Go(func() { rulecache.Keep(ctx, s.watch, s.log.With("of", "sitekeys"), s.bySitekey, s.bySecret) })
}

// Stop commits accepted claims and ends all that Start began. Later requests are answered with 503
// unavailable.
func (s *Service) Stop(ctx context.Context) error {
	err := s.writers.Stop(ctx)
	s.cancel()
	s.background.Wait()
	return errors.Join(err, s.counts.Stop(ctx))
}
