package serve

import (
	"net/http"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/acme"
	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

// openTLS opens the listeners for https and for http in front of it, if this process terminates
// TLS. The listeners of the control and the data plane stay, for this machine.
func (a *App) openTLS() (err error) {
	c := a.whole
	if !c.UsesTLS() {
		return nil
	}

	var secureOrigin, plainOrigin config.Origin
	if a.secure, err = listen("tls", string(c.TLSAddr), &secureOrigin); err != nil {
		return err
	}
	if a.plain, err = listen("tls-http", string(c.TLSHTTPAddr), &plainOrigin); err != nil {
		return err
	}
	roots, err := Certificates(c.TLSCAFile)
	if err != nil {
		return err
	}

	a.acme = acme.New(acme.Options{
		DB: a.db, Hosts: c.TLSHosts(), Directory: c.TLSDirectory, Email: c.TLSEmail, Roots: roots, Now: time.Now, Log: a.log,
	})

	origins := make(map[string]config.Origin)
	handlers := make(map[string]http.Handler)
	for _, o := range c.Origins() {
		host := config.HostOf(string(o.Origin))
		origins[host] = o.Origin
		switch {
		case o.Role == config.RoleData:
			handlers[host] = a.data.Handler
		case a.child != nil:
			handlers[host] = a.forward(config.RoleControl)
		default:
			handlers[host] = a.control.Handler
		}
	}

	a.secure.url, a.secure.overTLS, a.secure.TLSConfig = "https://"+a.secure.listener.Addr().String(), true, a.acme.TLS()
	a.secure.Handler = a.fromClients(byHost(handlers))
	a.plain.Handler = a.acme.Challenges(toHTTPS(origins))
	return nil
}

// byHost calls the handler of the request's host. A client can open a connection for one host and
// name another one in its requests.
func byHost(handlers map[string]http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler := handlers[config.HostOf(r.Host)]; handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		misdirected(w)
	})
}

// fromClients removes the headers in which proxies name a client, unless proxies are configured:
// clients connect to this listener themselves, and a client in a private network would count as a
// proxy.
func (a *App) fromClients(next http.Handler) http.Handler {
	if len(a.config.TrustedProxies) > 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
			r.Header.Del(name)
		}
		next.ServeHTTP(w, r)
	})
}

// toHTTPS redirects requests for the origins, by host, and refuses others: a redirect to a host
// that the client chose would be an open one. 308 keeps the method and the body.
func toHTTPS(origins map[string]config.Origin) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, known := origins[config.HostOf(r.Host)]
		if !known || r.URL.Path == "*" {
			misdirected(w)
			return
		}

		// After the origin, the target "http:.example.org" would continue the host's name.
		if r.URL.Opaque != "" || r.URL.Path != "" && r.URL.Path[0] != '/' {
			http.Error(w, "the target of the request has no path", http.StatusBadRequest)
			return
		}
		w.Header().Set("Connection", "close")
		http.Redirect(w, r, string(origin)+r.URL.RequestURI(), http.StatusPermanentRedirect)
	})
}
