package dataplane

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	assets "github.com/tallygate/tallygate/frontend-assets"
)

// TestUnknownPaths checks that paths without an endpoint or a script are answered alike, whatever
// the method, and that scripts accept GET and HEAD alone.
func TestUnknownPaths(t *testing.T) {
	h := Handler(Options{
		Analytics: new(analytics.Service), Captcha: new(captcha.Service), Log: slog.New(slog.DiscardHandler), Assets: assets.Handler(),
	})
	for _, path := range []string{"/", "/nonsense", "/svc.js/", "/SVC.JS", "/svc.000000000000.js", "/Collect.php", "/api/v2", "/recaptcha/"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader("{}")))
			if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Allow") != "" ||
				method != "HEAD" && !strings.Contains(w.Body.String(), `{"error":`) {
				t.Errorf("%s %s: %d %v %s", method, path, w.Code, w.Header(), w.Body)
			}
		}
	}

	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/svc.js", nil))
		if w.Code != want {
			t.Errorf("%s of a script: %d, want %d", method, w.Code, want)
		}
	}
}
