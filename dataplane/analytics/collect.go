package analytics

import (
	"bytes"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/dataplane/bot"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

const (
	// collectEndpoint is collect's name in the counters of refused and ignored calls. Calls of the
	// paths of other products count under it, too, because they are the same hits of browsers.
	collectEndpoint = "collect"

	// KeyParameter is the path parameter with the site key of a call below /KEY/.
	KeyParameter = "key"
)

// Collect answers POST /collect.php (analytics contract, section 4). Status 204 means that the hit
// is committed, or ignored: for one of the reasons in errors.go, or because an engagement report
// has no page view id. It checks, in this order: method, body, JSON, site key (also of a paused
// site, or one of a suspended account), domain, bot, excluded address, path, what the site leaves
// out (country, data centre, path, referrer), event, flood; then, in the transaction, repetition
// and quota.
func (s *Service) Collect(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodOptions {
		return preflight(w, r)
	}

	// The page may read refusals, too. Otherwise its browser hides the error's code, and logs a
	// second line, about CORS, which misleads the owner.
	web.AllowOrigin(w, r)

	ignored, err := s.answerCollect(w, r)
	s.metrics.collect.count(ignored, err)
	return err
}

// answerCollect is Collect for all methods but OPTIONS. It returns why the call is ignored, if it
// is.
func (s *Service) answerCollect(w http.ResponseWriter, r *http.Request) (ignored string, err error) {
	if r.Method != http.MethodPost {
		return "", errMethod
	}

	p, size, err := readPayload(r)
	ignored, err = s.receive(r, p, size, err, time.Now().Add(s.timeout))
	if err != nil {
		return "", err
	}

	w.WriteHeader(http.StatusNoContent)
	return ignored, nil
}

// receive checks and stores the payload of a call, unless it was unreadable. size is the size of
// the body in bytes. It returns why the call is ignored, if it is.
func (s *Service) receive(
	r *http.Request, p *payload.Payload, size int, unreadable error, deadline time.Time,
) (ignored string, err error) {
	// A site key in the path takes precedence: pages may keep another product's id in the body.
	if key := r.PathValue(KeyParameter); key != "" {
		p.SiteKey = key
	}

	if unreadable != nil {
		s.countUnreadable(r, p.SiteKey, unreadable)
		return "", unreadable
	}

	site, err := s.siteOf(deadline, p.SiteKey)
	if err != nil {
		return "", err
	}

	at := model.At(s.now())
	if site.stopped != "" {
		s.count(site, at, collectEndpoint, site.stopped)
		return "", errUnknownSite
	}

	h := &hit{site: site, at: at, deadline: deadline, size: size}
	ignored, err = s.collect(r, h, p)
	if err != nil {
		s.count(site, at, collectEndpoint, codeOf(err))
		return "", err
	}

	if ignored != "" {
		s.count(site, at, collectEndpoint, ignored)
	}
	return ignored, nil
}

// readPayload reads the body of a call, and returns its size in bytes. With an error, it returns
// the members before the fault.
func readPayload(r *http.Request) (*payload.Payload, int, error) {
	b, tooLarge := jsonbody.ReadStart(r)
	defer jsonbody.Free(b)
	p, err := payload.Parse(b.Bytes())
	if tooLarge != nil || b.Len() == 0 {
		err = errBadBody
	}
	return p, b.Len(), err
}

// countUnreadable counts a call whose body could not be read, for the site that the body names. So
// an installation that sends only malformed calls shows in the site's notice. A call from a page of
// another domain is not counted, since the site's owner cannot correct that page. Malformed calls
// so cost and count no more than well-formed ones.
func (s *Service) countUnreadable(r *http.Request, key string, err error) {
	site, unknown := s.siteOf(time.Now().Add(s.timeout), key)
	if unknown != nil || site.stopped != "" {
		return
	}
	if _, err := bindDomain(r, site); err != nil {
		return
	}
	s.count(site, model.At(s.now()), collectEndpoint, codeOf(err))
}

// collect is Collect once the site is known: it fills in the hit and stores it. It returns why the
// call is ignored, if it is.
func (s *Service) collect(r *http.Request, h *hit, p *payload.Payload) (ignored string, err error) {
	site := h.site
	host, err := bindDomain(r, site)
	if err != nil {
		return "", err
	}

	addr, userAgent := s.clientAddr(r), cleanAgent(r.UserAgent())
	switch {
	case bot.Is(userAgent):
		return ignoredBot, nil
	case isExcluded(addr, site.excluded):
		return ignoredAddress, nil
	}

	path, ok := PagePath(p.Path)
	if !ok {
		return "", errBadPath
	}

	country := s.countryOf(site, addr)
	if reason := s.leavesOut(site, addr, country, path, p.Referrer); reason != "" {
		return reason, nil
	}

	switch p.Kind {
	case payload.KindEngagement:
		// A report without a page view id belongs to no page view.
		if h.engagement = newEngagement(p, site, h.at); h.engagement == nil {
			return "", nil
		}
	case payload.KindEvent:
		accepted, err := checkEvent(p, site)
		if errors.Is(err, event.ErrOwnLink) {
			return ignoredOwnLink, nil
		}
		if err != nil {
			s.countUnknown(site, h.at, p.Event, err)
			return "", err
		}

		h.event, h.path = &accepted, path

		if id, ok := pageviewID(p.PageviewID); ok {
			h.onPageview = &id
		}
	case payload.KindPageview:
		h.pageview = newPageview(p, site, path)
	}

	// The flood limit follows the other checks, so that refused calls use up no allowance. It
	// precedes all work that is shared with other sites.
	if s.isFlood(r, site, addr) {
		return ignoredFlood, nil
	}
	if h.engagement != nil {
		return s.store(h)
	}

	h.entry = newEntry(p.Campaign, p.Referrer, site.domains)
	h.client = clientOf(r, site, host, country, userAgent)
	h.userID = s.userIDOf(site, p.UserID)
	if h.visitor, err = s.visitorOf(h.deadline, site, h.at, addr, userAgent); err != nil {
		return "", err
	}

	return s.store(h)
}

// checkEvent applies the event rules. With data-auto="off" the page has disabled automatic events
// for itself. A malformed name is unknown_event here, and bad_event on server only (analytics
// contract, section 7).
func checkEvent(p *payload.Payload, site *site) (event.Accepted, error) {
	if !model.IsEventName(p.Event) {
		return event.Accepted{}, event.ErrUnknown
	}
	if p.Auto == "off" && model.IsAutomaticEvent(p.Event) {
		return event.Accepted{}, event.ErrUnknown
	}
	return event.Check(p.Event, p.Properties, &site.events)
}

// readBody reads a body of 1 to jsonbody.Max bytes (analytics contract, section 8). The caller
// passes the buffer to jsonbody.Free.
func readBody(r *http.Request) (*bytes.Buffer, error) {
	b, err := jsonbody.Read(r)
	if err != nil {
		return nil, errBadBody
	}

	if b.Len() == 0 {
		jsonbody.Free(b)
		return nil, errBadBody
	}

	return b, nil
}

// siteOf returns the site with a public key.
func (s *Service) siteOf(deadline time.Time, key string) (*site, error) {
	if !model.IsSiteKey(key) {
		return nil, errUnknownSite
	}

	site, err := s.bySiteKey.Get(deadline, key)
	if err != nil {
		return nil, errUnavailable(err)
	}
	if site == nil {
		return nil, errUnknownSite
	}

	return site, nil
}

// bindDomain returns the host of the calling page. It fails unless the host is on one of the site's
// domains (analytics contract, section 5).
func bindDomain(r *http.Request, site *site) (host string, err error) {
	from := r.Header["Origin"]
	if len(from) == 0 {
		from = r.Header["Referer"]
	}
	if len(from) != 1 {
		return "", errDomain
	}

	host, ok := model.OriginHost(from[0])
	if !ok || !model.HostBelongs(host, site.domains) {
		return "", errDomain
	}

	return host, nil
}

// preflight answers OPTIONS. The script never causes a preflight, but a page's own code may. The
// site is not known yet, so that every web origin is allowed: the call itself is checked.
// headers are request headers that the call may have in addition to Content-Type.
func preflight(w http.ResponseWriter, r *http.Request, headers ...string) error {
	origin := r.Header.Get("Origin")
	if _, ok := model.OriginHost(origin); !ok && origin != "" {
		w.Header().Set("Vary", "Origin")
		return errDomain
	}

	web.AllowOrigin(w, r)

	// Without an origin this is not a preflight, so that there is nothing to allow.
	if origin == "" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}

	web.Preflight(w, headers...)
	return nil
}

// isFlood counts a hit that passed all other checks, and reports whether it exceeds the limit.
func (s *Service) isFlood(r *http.Request, site *site, addr netip.Addr) bool {
	if s.flood == nil || s.isShared(r) {
		return false
	}
	return !s.flood.Allow(site.id, site.quota, addr, s.now())
}
