// Package analytics serves the endpoints of the analytics contract. dataplane.Handler mounts them.
// It never stores an address or a user agent, and answers with success only after the commit.
//
// A hit passes through these files: collect.go, foreign.go and server.go handle the request,
// package payload or foreign reads its body, sites.go finds its site, and hit.go builds the hit.
// writers.go has the writer of each cell. writer.go then stores the hit in a batch with others,
// decide.go decides the outcome of each, and conversion.go writes the bodies of webhook calls. The
// packages event, visit, channel and bot hold the rules that depend on their arguments alone;
// visitor computes the pseudonyms.
package analytics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/analytics/flood"
	"github.com/tallygate/tallygate/dataplane/analytics/visitor"
	"github.com/tallygate/tallygate/dataplane/counter"
	"github.com/tallygate/tallygate/dataplane/rulecache"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// Options configure a Service. The fields of the first group are required.
type Options struct {
	Cell       *db.Cell       // of Store; the writers of other cells are started when needed
	UserIDKey  []byte         // under which pseudonymous user ids are hashed
	VisitorKey visitor.Secret // returns the secret of a day for visitor ids
	ClientAddr func(*http.Request) netip.Addr
	Now        func() time.Time
	Store      HitStore // of the own cell's writer; the service closes it
	Log        *slog.Logger

	// IsShared reports whether many clients share the client address, so that the flood limit must
	// not apply; see web.Clients. Nil means never.
	IsShared func(*http.Request) bool

	// FloodBurst is the number of hits of one network for one site that are stored at once, and
	// FloodRate the number per second after that; see package flood. A burst of 0 disables the
	// limit; with any other burst the rate must be positive.
	FloodBurst, FloodRate int

	// ServerFloodBurst and ServerFloodRate limit the server-side events of one site likewise.
	ServerFloodBurst, ServerFloodRate int

	// Country returns the country of an address, see model.Client; empty if it is unknown. Nil: no
	// country is known.
	Country func(netip.Addr) string

	// IsSpam reports whether a referring host is on the operator's list of referrer spam, and
	// IsDataCentre whether an address is on the list of data-centre networks. Nil: no list.
	IsSpam       func(host string) bool
	IsDataCentre func(netip.Addr) bool

	// Notify is called with deliveries after they were committed. It must not block. Nil is
	// allowed.
	Notify func([]model.Delivery)

	// Timeout bounds all of a request's waits for the database together. 0 means StoreTimeout.
	Timeout time.Duration
}

// Service answers the analytics endpoints. It is safe for concurrent use.
type Service struct {
	clientAddr func(*http.Request) netip.Addr
	isShared   func(*http.Request) bool
	now        func() time.Time
	log        *slog.Logger
	userKey    model.UserIDKey

	bySiteKey *rulecache.Cache[site]
	bySecret  *rulecache.Cache[site] // keys are the bytes of a secret's hash
	watch     rulecache.Watch

	compareClock func(context.Context, func() time.Time) (model.Instant, time.Duration, error)

	visitorKeys *visitor.Keys
	rejections  *counter.Counter[ingest.RejectionKey]
	unknown     *counter.Counter[ingest.UnknownEventKey] // names of events that could be registered
	places      places
	timeout     time.Duration // see Options.Timeout
	flood       *flood.Limit  // of client networks; nil: no limit
	serverFlood *flood.Limit  // of server-side events; nil: no limit
	writers     *cellWriters
	metrics     *metrics

	background sync.WaitGroup
	cancel     context.CancelFunc // ends the background work
}

// New returns a service that stores hits after Start. It fails without a store or a key: otherwise
// each hit would, and only then.
func New(o Options) (*Service, error) {
	if o.Store == nil || o.UserIDKey == nil || o.VisitorKey == nil {
		return nil, errors.New("analytics: Options lack the store or a key")
	}
	if o.IsShared == nil {
		o.IsShared = func(*http.Request) bool { return false }
	}
	if o.Timeout == 0 {
		o.Timeout = StoreTimeout
	}

	d := o.Cell.Common
	store := ingest.New(d)

	s := &Service{
		clientAddr: o.ClientAddr,
		isShared:   o.IsShared,
		now:        o.Now,
		log:        o.Log,
		userKey:    o.UserIDKey,
		bySiteKey:  rulecache.New(loadSite(sites.New(d).Lookup.SiteRulesByKey), o.Now),
		bySecret: rulecache.New(loadSite(func(ctx context.Context, hash string) (*model.SiteRules, error) {
			return sites.New(d).Lookup.SiteRulesByServerSecret(ctx, []byte(hash))
		}), o.Now),
		watch: sites.New(d).Lookup.WatchSites,

		compareClock: d.CompareClock,

		visitorKeys: visitor.NewKeys(store, o.VisitorKey),
		rejections:  counter.New(store.AddRejections, counter.Options{Log: o.Log, What: "refused calls"}),
		unknown: counter.NewGrouped(store.AddUnknownEvents, ingest.UnknownEventKey.Site, unknownAtOnce,
			counter.Options{Log: o.Log, What: "unknown events"}),
		places:      newPlaces(&o),
		timeout:     o.Timeout,
		flood:       flood.New(o.FloodBurst, o.FloodRate),
		serverFlood: flood.New(o.ServerFloodBurst, o.ServerFloodRate),

		cancel: func() {},
	}
	s.metrics = newMetrics(func() int { return s.writers.Len() })
	s.writers = s.newCellWriters(o.Cell, o.Store, o.Timeout, o.Notify, s.metrics.batches)
	return s, nil
}

// visitorKeyPeriod is the period in which cached visitor keys are compared with the database and
// old ones dropped.
const visitorKeyPeriod = 10 * time.Second

// Start starts the writers, the flushing of counters, and the watch for changed sites and ended
// days. It is called once.
func (s *Service) Start() {
	s.writers.Start()
	s.rejections.Start()
	s.unknown.Start()

	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.background.Go(func() { rulecache.Keep(ctx, s.watch, s.log.With("of", "sites"), s.bySiteKey, s.bySecret) })
	s.background.Go(func() { s.watchDays(ctx) })
}

// watchDays keeps the visitor keys up to date, and checks the clock, until ctx ends.
func (s *Service) watchDays(ctx context.Context) {
	ticker := time.NewTicker(visitorKeyPeriod)
	defer ticker.Stop()

	var logged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.visitorKeys.Forget(model.At(s.now()).Day())

			if err := s.visitorKeys.Refresh(ctx); err != nil && ctx.Err() == nil {
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

// warnEvery is the least time between two log lines about a wrong clock.
const warnEvery = time.Minute

// warnOfClock logs an error if this process's clock differs from the database's, since hits and
// tokens then get wrong times. It reports whether it did. An unavailable database is logged
// elsewhere.
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

// Stop commits accepted hits and ends all that Start began. Later requests are answered with 503
// unavailable.
func (s *Service) Stop(ctx context.Context) error {
	err := s.writers.Stop(ctx)
	s.cancel()
	s.background.Wait()
	return errors.Join(err, s.rejections.Stop(ctx), s.unknown.Stop(ctx))
}

// visitorOf returns a visitor's pseudonym. No later step gets the address or the user agent.
func (s *Service) visitorOf(
	deadline time.Time, site *site, at model.Instant, addr netip.Addr, userAgent string,
) (model.VisitorID, error) {
	key, err := s.visitorKeys.Get(deadline, at.Day())
	if err != nil {
		return model.VisitorID{}, errUnavailable(err)
	}
	return key.ID(site.id, addr, userAgent), nil
}

// userIDOf returns the stored form of a pseudonymous user id: a keyed hash that is bound to the
// site, so that ids cannot be linked across sites. It returns nil for a site that does not allow
// user ids, and for a malformed id. Upper and lower case are the same id: some languages write
// hexadecimal numbers in upper case, and the script sends lower case.
func (s *Service) userIDOf(site *site, id string) []byte {
	id = strings.ToLower(id)
	if !site.allowUserID || !model.IsUserID(id) {
		return nil
	}
	return s.userKey.Of(site.id, id)
}

// store waits until the hit is committed, and returns why it is ignored, if it is. A client that
// disconnects does not cancel it: browsers send beacons while they close the page. While the site
// is moved to another cell, the hit waits until its deadline.
func (s *Service) store(h *hit) (ignored string, err error) {
	h.cell = h.site.cell
	result, err := s.writers.Do(context.Background(), h)
	if err != nil {
		return "", unavailable(err)
	}
	return result.ignored(), result.err()
}

// findSite reads the rules of a hit's site again that was found to be in another cell.
func (s *Service) findSite(h *hit) error {
	s.bySiteKey.Changed(int64(h.site.id))
	s.bySecret.Changed(int64(h.site.id))
	site, err := s.siteOf(h.deadline, h.site.key)
	if err != nil {
		return err
	}
	h.cell = site.cell
	return nil
}

// count adds a refused or ignored call to the site's daily counters.
func (s *Service) count(site *site, at model.Instant, endpoint, code string) {
	s.rejections.Add(ingest.RejectionKey{SiteID: site.id, Day: at.Day(), Endpoint: endpoint, Code: code})
}

// unknownAtOnce is how many different names of unknown events of one site are counted in a second.
const unknownAtOnce = 20

// countUnknown counts an event that was refused because its name is not registered. Names that no
// owner can register are not kept.
func (s *Service) countUnknown(site *site, at model.Instant, name string, err error) {
	if errors.Is(err, event.ErrUnknown) && model.IsEventName(name) && !model.IsReservedEvent(name) {
		// The name shares the memory of the request, which the counter must not keep.
		s.unknown.Add(ingest.UnknownEventKey{SiteID: site.id, Day: at.Day(), Name: strings.Clone(name)})
	}
}
