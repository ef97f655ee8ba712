package web

import (
	"net/http"
	"strings"
)

// varyOrigin is the Vary header of every answer. It is shared and never changed.
var varyOrigin = []string{"Origin"}

// AllowOrigin lets the calling page read the answer, with the listed response headers. It also
// keeps caches from giving the answer to another origin's page.
func AllowOrigin(w http.ResponseWriter, r *http.Request, exposed ...string) {
	header := w.Header()
	header["Vary"] = varyOrigin

	if origin := r.Header["Origin"]; len(origin) == 1 {
		header["Access-Control-Allow-Origin"] = origin

		if len(exposed) > 0 {
			header["Access-Control-Expose-Headers"] = exposed
		}
	}
}

// Preflight answers OPTIONS for an endpoint that takes a POST of any content type, and lets the
// browser reuse the answer for a day. headers are request headers that the call may have in addition
// to Content-Type. The caller has set the headers of AllowOrigin.
func Preflight(w http.ResponseWriter, headers ...string) {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", "POST, OPTIONS")
	header.Set("Access-Control-Allow-Headers", strings.Join(append([]string{"Content-Type"}, headers...), ", "))
	header.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}
