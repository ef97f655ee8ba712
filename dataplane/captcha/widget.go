package captcha

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/body"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// widgetCall is the body of a call of the widget: config sends the sitekey, verify all of it
// (captcha contract, section 4). A key whose value has the wrong JSON type counts as absent.
type widgetCall struct {
	sitekey   string
	challenge string
	nonce     uint64
	hasNonce  bool // and it is a whole number from 0 to pow.MaxNonce

	deadline time.Time // of the answer
}

func (c *widgetCall) member(d *jsontext.Decoder, key string) error {
	switch key {
	case "sitekey":
		return body.Exact(d, &c.sitekey)
	case "challenge":
		return body.Exact(d, &c.challenge)
	case "nonce":
		return c.readNonce(d)
	}

	return d.SkipValue()
}

func (c *widgetCall) readNonce(d *jsontext.Decoder) error {
	if d.PeekKind() != '0' {
		return d.SkipValue()
	}

	value, err := d.ReadValue()
	if err != nil {
		return err
	}

	c.nonce, c.hasNonce = parseNonce(value)
	return nil
}

// open reads a widget's call, finds its sitekey and checks where it comes from. It returns the host
// name of the page, empty when the browser does not tell. Every answer may be read by the page that
// asked, refusals too: the widget on a domain that is not allowed can say so, and does not ask
// again and again as if the server were away.
func (s *Service) open(w http.ResponseWriter, r *http.Request) (call widgetCall, key *sitekey, hostname string, err error) {
	web.AllowOrigin(w, r, "Retry-After")

	if r.Method != http.MethodPost {
		return call, nil, "", errMethod
	}
	if err := readObject(r, call.member); err != nil {
		return call, nil, "", err
	}
	if call.sitekey == "" {
		return call, nil, "", errNoSitekey
	}

	call.deadline = s.deadline()
	if key, err = s.sitekeyOf(call.deadline, call.sitekey); err != nil {
		return call, nil, "", err
	}

	hostname, ok := pageHost(r)
	if len(key.domains) > 0 && (!ok || !model.HostServed(hostname, key.domains)) {
		return call, nil, "", errDomain
	}

	return call, key, hostname, nil
}

// readObject reads a body that is one JSON object, whatever its declared type.
func readObject(r *http.Request, member func(*jsontext.Decoder, string) error) error {
	b, err := body.Read(r)
	if err != nil {
		return errBodySize
	}
	defer body.Free(b)

	if body.Object(b.Bytes(), member) != nil {
		return errBadJSON
	}

	return nil
}

// pageHost is the host of the page that calls: of Origin, or else of Referer. It is false when
// neither tells.
func pageHost(r *http.Request) (string, bool) {
	from := r.Header["Origin"]
	if len(from) == 0 {
		from = r.Header["Referer"]
	}
	if len(from) != 1 {
		return "", false
	}

	return model.OriginHost(from[0])
}

// preflight answers OPTIONS. The sitekey is not known yet, so every page may ask: the call itself
// is what is checked.
func preflight(w http.ResponseWriter, r *http.Request) error {
	web.AllowOrigin(w, r, "Retry-After")
	web.Preflight(w)
	return nil
}
