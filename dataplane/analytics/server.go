package analytics

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/dataplane/bot"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

const (
	// serverEndpoint is the server endpoint's name in the counters of refused and ignored calls.
	serverEndpoint = "server"
	// serverSecretPrefix is the prefix of server secret keys (analytics contract, section 2).
	serverSecretPrefix = "svcs_"
)

// call is the body of a server-side event (analytics contract, section 4). A member whose value has
// the wrong JSON type counts as absent.
type call struct {
	event      string
	ip         string
	userAgent  string
	path       string
	referrer   string
	campaign   model.Campaign
	properties []byte // meta; JSON text, nil when absent
	userID     string // pseudonymous user id, as the script's identify takes it
}

// parseCall reads the body of a server-side event.
func parseCall(text []byte) (*call, error) {
	var c call
	o := jsonbody.Open(text)
	defer o.Close()

	for o.Next() {
		switch o.Key() {
		case "event":
			o.Exact(&c.event)
		case "ip":
			o.Exact(&c.ip)
		case "user_agent":
			o.Text(&c.userAgent, payload.MaxText)
		case "path":
			o.Exact(&c.path)
		case "referrer":
			o.Text(&c.referrer, payload.MaxText)
		case "campaign":
			payload.ReadCampaign(o, &c.campaign)
		case "meta":
			c.properties = []byte(o.Raw())
		case "user_id":
			o.Exact(&c.userID)
		}
	}

	if o.Err() != nil {
		return nil, errBadJSON
	}

	return &c, nil
}

// answer is the body of an accepted call: its event is recorded, or ignored for a reason. Neither
// needs a retry.
type answer struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Server answers POST /server.php (analytics contract, section 4). It checks, in this order:
// method, secret, body, JSON, visitor, event, bot or excluded address, flood; then, in the
// transaction, repetition and quota.
func (s *Service) Server(w http.ResponseWriter, r *http.Request) error {
	ignored, err := s.answerServer(w, r)
	s.metrics.server.count(ignored, err)
	return err
}

// answerServer is Server, and returns why the call is ignored, if it is.
func (s *Service) answerServer(w http.ResponseWriter, r *http.Request) (ignored string, err error) {
	if r.Method != http.MethodPost {
		return "", errMethod
	}

	deadline := time.Now().Add(s.timeout)
	site, err := s.siteOfSecret(r, deadline)
	if err != nil {
		return "", err
	}

	at := model.At(s.now())
	if site.stopped != "" {
		s.count(site, at, serverEndpoint, site.stopped)
		return "", errInvalidSecret
	}

	ignored, err = s.serve(r, site, at, deadline)
	if err != nil {
		s.count(site, at, serverEndpoint, codeOf(err))
		return "", err
	}

	reply := answer{Status: "recorded"}

	if ignored != "" {
		s.count(site, at, serverEndpoint, ignored)
		reply = answer{Status: "ignored", Reason: ignored}
	}

	web.WriteJSON(w, reply)
	return ignored, nil
}

// siteOfSecret returns the site with the server secret key of the Authorization header. The
// database stores only hashes of these keys.
func (s *Service) siteOfSecret(r *http.Request, deadline time.Time) (*site, error) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.Trim(secret, " \t")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return nil, errMissingSecret
	}

	// A malformed key needs no lookup.
	if !model.IsSecret(serverSecretPrefix, secret) {
		return nil, errInvalidSecret
	}

	hash := string(model.HashToken(secret))
	site, err := s.bySecret.Get(deadline, hash)
	if err != nil {
		return nil, errUnavailable(err)
	}
	if site == nil || !site.accepts(hash, model.At(s.now())) {
		return nil, errInvalidSecret
	}

	return site, nil
}

// serve is Server once the site is known. It returns why the call is ignored, if it is.
func (s *Service) serve(r *http.Request, site *site, at model.Instant, deadline time.Time) (ignored string, err error) {
	// The deadline bounds the waits for the database, not the time that the caller takes to send.
	reading := time.Now()
	b, err := readBody(r)
	deadline = deadline.Add(time.Since(reading))

	if err != nil {
		return "", err
	}
	defer jsonbody.Free(b)

	c, err := parseCall(b.Bytes())
	if err != nil {
		return "", err
	}

	addr, err := netip.ParseAddr(c.ip)
	userAgent := cleanAgent(c.userAgent)

	// A zone names an interface of the sender's own machine, so that no visitor's address has one.
	if err != nil || addr.Zone() != "" || userAgent == "" {
		return "", errVisitorRequired
	}

	addr = addr.Unmap()
	accepted, err := event.Check(c.event, c.properties, &site.events)
	switch {
	case errors.Is(err, event.ErrOwnLink):
		return ignoredOwnLink, nil
	case err != nil:
		s.countUnknown(site, at, c.event, err)
		return "", err
	case bot.Is(userAgent):
		return ignoredBot, nil
	case isExcluded(addr, site.excluded):
		return ignoredAddress, nil
	case s.isServerFlood(site):
		return ignoredServerFlood, nil
	}

	// The path is optional.
	path, ok := PagePath(c.path)
	if !ok {
		path = "/"
	}

	h := &hit{
		site:     site,
		at:       at,
		deadline: deadline,
		userID:   s.userIDOf(site, c.userID),
		entry:    newEntry(c.campaign, c.referrer, site.domains),
		event:    &accepted,
		path:     path,
		size:     b.Len(),
	}
	if h.visitor, err = s.visitorOf(deadline, site, at, addr, userAgent); err != nil {
		return "", err
	}

	ignored, err = s.store(h)
	if errors.Is(err, errUnknownSite) {
		// The site was deleted after it was cached, and its secret with it.
		return "", errInvalidSecret
	}
	if ignored == "" && err == nil && model.IsPrivateIP(addr) {
		s.count(site, at, serverEndpoint, model.RecordedPrivateIP)
	}

	return ignored, err
}

// isServerFlood counts a server-side event that passed all other checks, and reports whether it
// exceeds the limit. Like Collect, Server counts before any work that is shared with other sites.
func (s *Service) isServerFlood(site *site) bool {
	return s.serverFlood != nil && !s.serverFlood.AllowServer(site.id, site.quota, s.now())
}
