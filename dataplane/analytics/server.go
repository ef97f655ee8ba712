package analytics

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/analytics/bot"
	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/body"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

const (
	// serverEndpoint is the server endpoint's name in the counts of refused and ignored calls.
	serverEndpoint = "server"
	// serverSecretPrefix begins every server secret key (analytics contract, section 2).
	serverSecretPrefix = "svcs_"
)

// call is the body of a server-side event (analytics contract, section 4). A key whose value has
// the wrong JSON type counts as absent.
type call struct {
	event      string
	ip         string
	userAgent  string
	path       string
	referrer   string
	campaign   model.Campaign
	properties []byte // meta; JSON text, nil when absent
	userID     string // a pseudonymous user id, as the script's identify takes it
}

func (c *call) member(d *jsontext.Decoder, key string) error {
	switch key {
	case "event":
		return body.Exact(d, &c.event)
	case "ip":
		return body.Exact(d, &c.ip)
	case "user_agent":
		return body.Text(d, &c.userAgent, maxText)
	case "path":
		return body.Exact(d, &c.path)
	case "referrer":
		return body.Text(d, &c.referrer, maxText)
	case "campaign":
		return readCampaign(d, &c.campaign)
	case "meta":
		return readRaw(d, &c.properties)
	case "user_id":
		return body.Exact(d, &c.userID)
	}

	return d.SkipValue()
}

// answer is what a server-side call is told: its event is recorded, or ignored for a reason, which
// needs no retry.
type answer struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Server answers POST /server.php (analytics contract, section 4). The checks run in this order:
// method, secret, body, JSON, visitor, event, bot or excluded address, transaction, quota.
func (s *Service) Server(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return errMethod
	}

	deadline := time.Now().Add(StoreTimeout)
	site, err := s.siteOfSecret(r, deadline)
	if err != nil {
		return err
	}

	at := model.At(s.now())
	ignored, err := s.serve(r, site, at, deadline)
	if err != nil {
		s.count(site, at, serverEndpoint, codeOf(err))
		return err
	}

	reply := answer{Status: "recorded"}

	if ignored != "" {
		s.count(site, at, serverEndpoint, ignored)
		reply = answer{Status: "ignored", Reason: ignored}
	}

	web.WriteJSON(w, reply)
	return nil
}

// siteOfSecret finds the site by its server secret key, which is known by its hash only.
func (s *Service) siteOfSecret(r *http.Request, deadline time.Time) (*site, error) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.Trim(secret, " \t")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return nil, errMissingSecret
	}

	// a typo costs no look-up
	if !model.IsSecret(serverSecretPrefix, secret) {
		return nil, errInvalidSecret
	}

	site, err := s.bySecret.Get(deadline, string(model.HashToken(secret)))
	if err != nil {
		return nil, errUnavailable(err)
	}
	if site == nil {
		return nil, errInvalidSecret
	}

	return site, nil
}

// serve is Server from the moment the site is known. It returns why the call is ignored, if it is.
func (s *Service) serve(r *http.Request, site *site, at model.Instant, deadline time.Time) (ignored string, err error) {
	reading := time.Now()
	b, err := readBody(r)

	// how long the caller takes to send is not ours
	deadline = deadline.Add(time.Since(reading))

	if err != nil {
		return "", err
	}
	defer body.Free(b)

	var c call
	if body.Object(b.Bytes(), c.member) != nil {
		return "", errBadJSON
	}

	addr, err := netip.ParseAddr(c.ip)
	userAgent := cleanAgent(c.userAgent)

	// A zone names an interface of the sender's own machine: no visitor has such an address.
	if err != nil || addr.Zone() != "" || userAgent == "" {
		return "", errVisitorRequired
	}

	addr = addr.Unmap()
	accepted, err := event.Check(c.event, c.properties, &site.events)
	switch {
	case errors.Is(err, event.ErrOwnLink):
		return ignoredOwnLink, nil
	case err != nil:
		return "", err
	case bot.Is(userAgent):
		return ignoredBot, nil
	case isExcluded(addr, site.excluded):
		return ignoredAddress, nil
	}

	path, ok := pagePath(c.path)
	if !ok {
		// the field is optional
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

	return s.store(r.Context(), h)
}
