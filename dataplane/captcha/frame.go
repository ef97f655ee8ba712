package captcha

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	assets "github.com/tallygate/tallygate/frontend-assets"
)

// errFrameMethod answers other methods than GET and HEAD.
var errFrameMethod = &model.Error{Kind: model.MethodNotAllowed, Code: "method_not_allowed",
	Message: "Method not allowed: send a GET request."}

// Frame answers GET /widget?sitekey=…, the page that mCaptcha's clients put into a frame. The calls
// of its widget come from the page itself, so the domains of a bound sitekey are checked by the
// browser: only their pages may frame it. The page has the sitekey that the policy belongs to, so
// that its script does not read the address differently. Any page may frame the widget of an
// unknown sitekey, which the page does not have, and which shows the error.
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

// ancestorsOf returns the sources of frame-ancestors for domains and their subdomains, over any
// scheme and port: http matches https, too. Proxies limit the size of all headers together, so
// nothing is said twice.
func ancestorsOf(domains []string) string {
	var sources []string
	for _, domain := range domains {
		sources = append(sources, "http://"+domain+":*", "http://*."+domain+":*")
	}
	return strings.Join(sources, " ")
}

// FrameFolder is the folder of the page that Frame serves, of the page's files and of its widget's
// calls.
const FrameFolder = "/widget"

// isFromFrame reports whether a call comes from the page that Frame serves: its path is in the
// page's folder, and its origin is one of Options.Origins. The request's Host says nothing: a page
// of any domain may resolve its own name to this server.
func (s *Service) isFromFrame(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, FrameFolder+"/") && slices.Contains(s.origins, r.Header.Get("Origin"))
}

// sentOrigins returns origins as browsers send them: in lower case, and without the scheme's
// default port.
func sentOrigins(origins []string) []string {
	var sent []string
	for _, origin := range origins {
		origin = strings.ToLower(origin)
		if strings.HasPrefix(origin, "https:") {
			origin = strings.TrimSuffix(origin, ":443")
		} else {
			origin = strings.TrimSuffix(origin, ":80")
		}
		if origin != "" {
			sent = append(sent, origin)
		}
	}
	return sent
}
