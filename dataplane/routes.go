// Package dataplane is what browsers and back ends talk to over plain HTTP: the analytics contract and the captcha
// contract, and what the two share: routes, the table of errors, the client's address. The program mounts it on the data
// listener; it never serves the control plane.
package dataplane

import (
	"log/slog"
	"net/http"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
)

// Options are what the data plane's routes lead to.
type Options struct {
	Analytics *analytics.Service
	Captcha   *captcha.Service // nil: its endpoints do not exist
	Assets    http.Handler     // the browser scripts
	Log       *slog.Logger
}

// Handler returns all routes of the data plane.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/collect.php", serve(o.Log, "POST, OPTIONS", code, o.Analytics.Collect))
	mux.Handle("/server.php", serve(o.Log, "POST", code, o.Analytics.Server))
	if c := o.Captcha; c != nil {
		mux.Handle("/api/v1/pow/config", serve(o.Log, "POST, OPTIONS", sentence, c.Config))
		mux.Handle("/api/v1/pow/verify", serve(o.Log, "POST, OPTIONS", sentence, c.Verify))
		mux.Handle("/api/v1/pow/siteverify", serve(o.Log, "POST", sentence, c.Siteverify))
		mux.Handle("/siteverify", serveOK(o.Log, c.Compat, captcha.CompatUnavailable))
	}
	mux.Handle("/", o.Assets)
	return mux
}
