package captcha

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	assets "github.com/tallygate/tallygate/frontend-assets"
)

// errFrameMethod answers other methods than GET and HEAD.
var errFrameMethod = &model.Error{Kind: model.MethodNotAllowed, Code: "method_not_allowed",
	Message: "Method not allowed: send a GET request."}

// Frame answers GET /widget?sitekey=…, the page that mCaptcha's clients put into a frame. The calls of
// its widget come from the page itself, so the domains of a bound sitekey are checked by the browser:
// only their pages may frame it. The page has the sitekey that the policy belongs to, so that its script
// does not read the address differently. Any page may frame the widget of an unknown sitekey, which the
// page does not have, and which shows the error.
func (s *Service) Frame(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return errFrameMethod
	}

	sitekey, ancestors := "", "*"
	key, err := s.sitekeyOf(s.deadline(), r.URL.Query().Get("sitekey"))
	switch {
	case err == nil:
		sitekey = key.text
		if len(key.domains) > 0 {
			ancestors = ancestorsOf(key.domains)
		}
	case err != error(errSitekey):
		return err
	}

	assets.ServeWidgetFrame(w, r, sitekey, ancestors)
	return nil
}

// ancestorsOf returns the sources of frame-ancestors for domains and their subdomains, over any scheme
// and port.
func ancestorsOf(domains []string) string {
	var sources []string
	for _, domain := range domains {
		for _, host := range []string{domain, "*." + domain} {
			sources = append(sources, "http://"+host+":*", "https://"+host+":*")
		}
	}
	return strings.Join(sources, " ")
}

// FrameFolder is the folder of the page that Frame serves, of the page's files and of its widget's calls.
const FrameFolder = "/widget"

// isFromFrame reports whether a call comes from the page that Frame serves: its path is in the page's
// folder, and its origin is the captcha's own. A proxy that replaces Host makes it a call of another
// domain.
func isFromFrame(r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, FrameFolder+"/") {
		return false
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}
