// Package captcha is the data plane's half of the captcha contract. The life of a token reads from
// top to bottom: config.go issues a challenge, verify.go exchanges the answer for a token,
// siteverify.go and compat.go tell the site's server what the token is worth. widget.go is what the
// two browser endpoints share, sitekeys.go knows whose a sitekey is, pressure.go sets the
// difficulty, writer.go makes challenges and tokens count once. Work and tokens themselves are
// packages of their own: pow and token.
package captcha

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tallygate/tallygate/dataplane/snapshot"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// Options are what a Service works with. All fields but Rotation, IsShared and NoTestSitekey are
// required.
type Options struct {
	DB         *db.DB
	Secret     []byte             // application key, at least 16 bytes; the keys of challenges and tokens are derived from it
	Rotation   *model.KeyRotation // of the application key; nil: there is no previous one
	ClientAddr func(*http.Request) netip.Addr
	Difficulty uint32 // expected hashes of a challenge without any pressure; see MinDifficulty
	Now        func() time.Time
	Store      db.CaptchaStore // the service closes it
	Log        *slog.Logger

	// IsShared reports whether many clients share the client address, so that nothing may depend on
	// its network; see dataplane.Clients. Nil: never.
	IsShared func(*http.Request) bool

	// NoTestSitekey makes the test sitekey an unknown one and its secret a wrong one.
	NoTestSitekey bool
}

// Service answers the captcha endpoints. It is safe for concurrent use.
type Service struct {
	clientAddr    func(*http.Request) netip.Addr
	isShared      func(*http.Request) bool
	noTestSitekey bool
	now           func() time.Time
	timeout       time.Duration // of a request's waits for the database
	log           *slog.Logger

	keys      *keys
	pressure  *pressure
	bySitekey *snapshot.Cache[sitekey]
	bySecret  *snapshot.Cache[sitekey] // names are the bytes of a secret's hash
	watch     snapshot.Watch
	writer    *writer

	background sync.WaitGroup
	cancel     context.CancelFunc // ends the background work
}

// New returns a service that stores claims after Start. It fails when the secret is too short.
func New(o Options) (*Service, error) { return newService(o, storeTimeout) }

func newService(o Options, timeout time.Duration) (*Service, error) {
	keys, err := newKeys(o.Secret, o.Rotation)
	if err != nil {
		return nil, err
	}
	if o.IsShared == nil {
		o.IsShared = func(*http.Request) bool { return false }
	}

	return &Service{
		clientAddr:    o.ClientAddr,
		isShared:      o.IsShared,
		noTestSitekey: o.NoTestSitekey,
		now:           o.Now,
		timeout:       timeout,
		log:           o.Log,
		keys:          keys,
		pressure:      newPressure(o.Difficulty),
		bySitekey:     snapshot.New(loadSitekey(sites.New(o.DB).SitekeyByKey), o.Now),
		bySecret: snapshot.New(loadSitekey(func(ctx context.Context, hash string) (*model.Sitekey, error) {
			return sites.New(o.DB).SitekeyBySecret(ctx, []byte(hash))
		}), o.Now),
		watch:  sites.New(o.DB).WatchSitekeys,
		writer: newWriter(o.Store, timeout),
		cancel: func() {},
	}, nil
}

// deadline is when a request gives up waiting for the database that begins to now.
func (s *Service) deadline() time.Time { return time.Now().Add(s.timeout) }

// Start starts the writer and the watch for changed sitekeys. It is called once.
func (s *Service) Start() {
	s.writer.queue.Start()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.background.Go(func() { snapshot.Keep(ctx, s.watch, s.log.With("of", "sitekeys"), s.bySitekey, s.bySecret) })
}

// Stop stores what was accepted and ends everything that Start began. Requests that come later are
// answered like those of a database that is away.
func (s *Service) Stop(ctx context.Context) error {
	err := s.writer.stop(ctx)
	s.cancel()
	s.background.Wait()
	return err
}
