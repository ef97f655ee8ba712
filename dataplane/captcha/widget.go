package captcha

import (
	"net/http"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// widgetCall is the body of a widget's call (captcha contract, section 4). Config needs the
// sitekey, Verify all members. A member whose value has the wrong JSON type counts as absent.
type widgetCall struct {
	sitekey   string
	challenge string
	nonce     uint64
	hasNonce  bool // nonce is a whole number from 0 to pow.MaxNonce
	webdriver bool // the browser says that a program drives it; not in the contract

	deadline time.Time // of the answer
}

// readWidgetCall reads the body of a widget's call.
func readWidgetCall(r *http.Request) (call widgetCall, err error) {
	o := jsonbody.OpenRequest(r)
	defer o.Close()

	for o.Next() {
		switch o.Key() {
		case "sitekey":
			o.Exact(&call.sitekey)
		case "challenge":
			o.Exact(&call.challenge)
		case "webdriver":
			o.Bool(&call.webdriver)
		case "nonce":
			if number := o.Number(); number != "" {
				call.nonce, call.hasNonce = pow.ParseNonce([]byte(number))
			}
		}
	}

	return call, errBody(o.Err())
}

// openWidgetCall reads a widget's call, finds its sitekey and checks the domain of the page. It
// returns the page's host name, or an empty string if the browser does not send it. With an error,
// it returns the sitekey if that is known, and else nil.
//
// Every page may read its answer, also a refusal. So the widget on a domain that is not allowed can
// show the reason, and does not retry as if the server were unavailable.
func (s *Service) openWidgetCall(
	w http.ResponseWriter, r *http.Request,
) (call widgetCall, key *sitekey, hostname string, err error) {
	web.AllowOrigin(w, r, "Retry-After")

	if r.Method != http.MethodPost {
		return call, nil, "", errMethod
	}
	if call, err = readWidgetCall(r); err != nil {
		return call, nil, "", err
	}
	if call.sitekey == "" {
		return call, nil, "", errNoSitekey
	}

	call.deadline = s.deadline()
	if key, err = s.sitekeyOf(call.deadline, call.sitekey); err != nil {
		return call, nil, "", err
	}
	if key.suspended {
		return call, key, "", errSuspended
	}

	hostname, ok := pageHost(r)
	if len(key.domains) > 0 && !s.isFromFrame(r) && (!ok || !model.HostServed(hostname, key.domains)) {
		return call, key, "", errDomain
	}

	return call, key, hostname, nil
}

// pageHost returns the host name of the calling page, from Origin or else from Referer. It reports
// false if neither header has one.
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

// preflight answers OPTIONS. The sitekey is not known yet, so that every page is allowed: the call
// itself is checked.
func preflight(w http.ResponseWriter, r *http.Request) error {
	web.AllowOrigin(w, r, "Retry-After")
	web.Preflight(w)
	return nil
}
