package serve

import (
	"encoding/json"
	"net"
	"net/http"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// warnOfPlainOrigins logs each public origin that other machines reach without TLS.
func (a *App) warnOfPlainOrigins() {
	for _, o := range a.config.Origins() {
		if o.Origin.IsPlain() {
			a.log.Warn("passwords, sessions and visits cross the network in plain text: the public origin is http; "+
				"terminate TLS in front of it and set it to https",
				"setting", o.Setting, "origin", string(o.Origin))
		}
	}
}

// overTLS adds the header by which browsers use only TLS for the host for a year. It does not
// include subdomains or preload lists: these are the domain owner's decision.
func overTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		next.ServeHTTP(w, r)
	})
}

// onlyFor responds with 421 to requests whose Host is unknown. A page whose name resolves to this
// machine (DNS rebinding) is same-origin to the browser, but its Host header is still its own name.
// Accepted are the base URL's host and loopback names, on any port: proxies and tunnels change
// ports, but browsers cannot change names. Without a configured base URL the address of the
// connection is accepted too, because an address, unlike a name, cannot be rebound.
//
// Health checks accept any Host, because load balancers use the machine's address.
func onlyFor(base config.Origin, configured bool, next http.Handler) http.Handler {
	own := config.HostOf(string(base))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := config.HostOf(r.Host)
		switch {
		case host == own, config.IsLoopback(host), !configured && host != "" && host == localHost(r):
		case r.URL.Path == "/healthz", r.URL.Path == "/readyz":
		default:
			misdirected(w)
			return
		}

		next.ServeHTTP(w, r)
	})
}

// localHost returns the address of this machine that the connection was made to.
func localHost(r *http.Request) string {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return ""
	}
	return config.HostOf(addr.String())
}

// misdirected responds with 421 and a GraphQL error.
func misdirected(w http.ResponseWriter) {
	graphQLError(w, http.StatusMisdirectedRequest, "wrong_host", "The Host header is not this service's. Use the address in "+
		"TALLYGATE_BASE_URL, or set that to the address you use; a reverse proxy must pass Host on.")
}

// graphQLError responds with a status and a GraphQL error.
func graphQLError(w http.ResponseWriter, status int, code, message string) {
	type extensions struct {
		Code string `json:"code"`
	}

	type failure struct {
		Message    string     `json:"message"`
		Extensions extensions `json:"extensions"`
	}

	body, err := json.Marshal(map[string]any{
		"error":  code,
		"errors": []failure{{Message: message, Extensions: extensions{Code: code}}},
	})
	if err != nil {
		// Strings can always be encoded.
		panic(err)
	}

	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(body)
}
