// Package analytics is the data plane's half of the analytics contract. The life of a hit reads
// from top to bottom: collect.go and server.go take the request, payload.go reads its body,
// sites.go knows whose it is, hit.go makes the hit, days.go has the key under its visitor's
// pseudonym. writer.go then stores it together with others, decide.go says what becomes of each,
// conversion.go writes what the owner's server will be told. The rules that need nothing but their
// arguments are packages of their own: event, visit, visitor, channel, bot.
package analytics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/tally"
	"github.com/tallygate/tallygate/dataplane/snapshot"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// Options are what a Service works with. The fields of the first group are required, of the three
// keys either Secret or the other two.
type Options struct {
	DB         *db.DB
	Secret     []byte // application key; keys that are not given are derived from it
	UserIDKey  []byte // under which pseudonymous user ids are hashed
	VisitorKey VisitorKey
	ClientAddr func(*http.Request) netip.Addr
	Now        func() time.Time
	Store      db.HitStore // the service closes it
	Log        *slog.Logger

	// IsShared reports whether many clients share the client address, so that the flood limit must
	// not apply; see dataplane.Clients. Nil: never.
	IsShared func(*http.Request) bool

	// FloodBurst hits of one network for one site are stored at once, and FloodRate a second after
	// that; see flood. A burst of 0 turns the limit off; with another one the rate must be
	// positive.
	FloodBurst, FloodRate int

	// Ring is told of deliveries after they were committed. It must not wait. Nil: nobody is.
	Ring func([]model.Delivery)
}

// VisitorKey returns the secret of a day from which, with the day's salt, its visitor ids are made.
// All processes must get the same one for a day.
type VisitorKey func(context.Context, model.Day) ([]byte, error)

// Service answers the analytics endpoints. It is safe for concurrent use.
type Service struct {
	clientAddr func(*http.Request) netip.Addr
	isShared   func(*http.Request) bool
	now        func() time.Time
	log        *slog.Logger
	userKey    model.UserIDKey

	bySiteKey *snapshot.Cache[site]
	bySecret  *snapshot.Cache[site] // names are the bytes of a secret's hash
	watch     snapshot.Watch

	compareClock func(context.Context, func() time.Time) (model.Instant, time.Duration, error)

	days   *dayKeys
	tally  *tally.Tally
	flood  *flood // nil: no limit
	writer *writer

	background sync.WaitGroup
	cancel     context.CancelFunc // ends the background work
}

// New returns a service that stores hits after Start.
func New(o Options) *Service {
	if o.IsShared == nil {
		o.IsShared = func(*http.Request) bool { return false }
	}
	if o.UserIDKey == nil {
		o.UserIDKey = model.ApplicationKey(o.Secret).Derive("user id")
	}

	if o.VisitorKey == nil {
		key := model.ApplicationKey(o.Secret).Derive("visitor id")
		o.VisitorKey = func(context.Context, model.Day) ([]byte, error) { return key, nil }
	}

	return &Service{
		clientAddr: o.ClientAddr,
		isShared:   o.IsShared,
		now:        o.Now,
		log:        o.Log,
		userKey:    o.UserIDKey,
		bySiteKey:  snapshot.New(loadSite(sites.New(o.DB).SiteRulesByKey), o.Now),
		bySecret: snapshot.New(loadSite(func(ctx context.Context, hash string) (*model.SiteRules, error) {
			return sites.New(o.DB).SiteRulesByServerSecret(ctx, []byte(hash))
		}), o.Now),
		watch: sites.New(o.DB).WatchSites,

		compareClock: o.DB.CompareClock,

		days:   newDayKeys(o.DB, o.VisitorKey),
		tally:  tally.New(o.DB.AddRejections, tally.Options{Log: o.Log}),
		flood:  newFlood(o.FloodBurst, o.FloodRate),
		writer: newWriter(o.Store, o.Ring),
		cancel: func() {},
	}
}

// checkDays is how often the visitor keys in memory are compared with the database's salts and old
// ones forgotten.
const checkDays = 10 * time.Second

// Start starts the writer, the flushing of counts, and the watch for changed sites and ended days.
// It is called once.
func (s *Service) Start() {
	s.writer.queue.Start()
	s.tally.Start()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.background.Go(func() { snapshot.Keep(ctx, s.watch, s.log.With("of", "sites"), s.bySiteKey, s.bySecret) })
	s.background.Go(func() { s.watchDays(ctx) })
}

func (s *Service) watchDays(ctx context.Context) {
	ticker := time.NewTicker(checkDays)
	defer ticker.Stop()

	var logged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.days.forget(model.At(s.now()).Day())

			if err := s.days.refresh(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "compare day salts", "error", err)
			}

			if logged.IsZero() || time.Since(logged) >= warnEvery {
				if s.warnOfClock(ctx) {
					logged = time.Now()
				}
			}
		}
	}
}

// warnEvery is how often a wrong clock is logged.
const warnEvery = time.Minute

// warnOfClock logs it when this process's clock is not the database's: hits and tokens then get
// wrong times. It reports whether it did. A database that does not answer is reported elsewhere.
func (s *Service) warnOfClock(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()

	_, ahead, err := s.compareClock(ctx, s.now)
	if err != nil || ahead.Abs() <= db.MaxClockDifference {
		return false
	}

	s.log.ErrorContext(ctx, "this process's clock differs from the database's", "seconds", ahead.Seconds())
	return true
}

// Stop stores what was accepted and ends everything that Start began. Requests that come later are
// answered 503 unavailable.
func (s *Service) Stop(ctx context.Context) error {
	err := s.writer.stop(ctx)
	s.cancel()
	s.background.Wait()
	return errors.Join(err, s.tally.Stop(ctx))
}

// visitorOf computes a visitor's pseudonym; the address and the user agent end here.
func (s *Service) visitorOf(deadline time.Time, site *site, at model.Instant, addr netip.Addr, userAgent string) (model.VisitorID, error) {
	key, err := s.days.get(deadline, at.Day())
	if err != nil {
		return model.VisitorID{}, errUnavailable(err)
	}
	return key.ID(site.id, addr, userAgent), nil
}

// userIDOf is how a pseudonymous user id is stored: keyed and bound to the site, so that ids do not
// link across sites. It is nil for a site that does not allow them, and for a value of another
// form.
func (s *Service) userIDOf(site *site, id string) []byte {
	if !site.allowUserID || !model.IsUserID(id) {
		return nil
	}
	return s.userKey.Of(site.id, id)
}

// store waits until the hit is committed, and tells why it is ignored, if it is. The caller's
// leaving does not stop it: beacons are sent while a page goes away.
func (s *Service) store(ctx context.Context, h *hit) (ignored string, err error) {
	result, err := s.writer.queue.DoBefore(context.WithoutCancel(ctx), h.deadline, h, h.size)
	if err != nil {
		return "", errUnavailable(err)
	}
	return result.ignored(), result.err()
}

// count adds a refused or ignored call to the site's daily counts.
func (s *Service) count(site *site, at model.Instant, endpoint, code string) {
	s.tally.Add(tally.Key{SiteID: site.id, Day: at.Day(), Endpoint: endpoint, Code: code})
}

// codeOf is the code under which an error is counted.
func codeOf(err error) string {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e.Code
	}
	return "unavailable"
}
