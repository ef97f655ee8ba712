// Package dataplane is what browsers and back ends talk to over plain HTTP: the analytics contract and the captcha
// contract, and what the two share: routes, the table of errors, the client's address. The program mounts it on the data
// listener; it never serves the control plane.
package dataplane

import (
	"log/slog"
	"net/http"

	"github.com/tallygate/tallygate/dataplane/analytics"
)

// Options are what the data plane's routes lead to.
type Options struct {
	Analytics *analytics.Service
	Assets    http.Handler // the browser scripts
	Log       *slog.Logger
}

// Handler returns all routes of the data plane.
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/collect.php", serve(o.Log, "POST, OPTIONS", o.Analytics.Collect))
	mux.Handle("/server.php", serve(o.Log, "POST", o.Analytics.Server))
	mux.Handle("/", o.Assets)
	return mux
}
