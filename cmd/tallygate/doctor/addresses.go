package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/graph/mcp"
)

// listener is a configured address to listen on.
type listener struct {
	name    string
	setting string
	addr    config.Address
}

// listeners returns the addresses on which a process with these settings listens.
func listeners(c *config.Config) []listener {
	var all []listener
	if c.Has(config.RoleControl) {
		all = append(all, listener{"control", "TALLYGATE_CONTROL_ADDR", c.ControlAddr})
	}
	if c.Has(config.RoleData) {
		all = append(all, listener{"data", "TALLYGATE_DATA_ADDR", c.DataAddr})
	}
	if c.MetricsAddr != "" {
		all = append(all, listener{"metrics", "TALLYGATE_METRICS_ADDR", c.MetricsAddr})
	}
	if c.HealthAddr != "" {
		all = append(all, listener{"health", "TALLYGATE_HEALTH_ADDR", c.HealthAddr})
	}
	return all
}

// Ready returns an error unless the service with these settings runs on this machine, and is ready
// on each of its listeners. A child process is not asked: the service starts it again, and a
// container that is replaced meanwhile would lose hits.
func Ready(ctx context.Context, c *config.Config) error {
	if c.Splits() {
		c, _ = c.Split()
	}
	all := listeners(c)
	if len(all) == 0 {
		return errors.New("a process with these settings listens nowhere; set TALLYGATE_HEALTH_ADDR")
	}

	for _, l := range all {
		status, body, err := fetch(ctx, http.DefaultClient, localURL(l.addr)+"/readyz")
		if err != nil {
			return fmt.Errorf("%s: %s", l.name, cause(err))
		}
		if status != http.StatusOK {
			return fmt.Errorf("%s: %s", l.name, oneLine(body))
		}
	}

	return nil
}

// localURL returns the origin at which this machine reaches one of its listeners.
func localURL(addr config.Address) string {
	host, port, _ := net.SplitHostPort(string(addr))
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// checkListeners checks that each address is free, or that this service listens on it. It takes
// over what a service that runs has found.
func (e *examination) checkListeners(ctx context.Context) bool {
	used := make(map[config.Address]string)

	for _, l := range listeners(e.c) {
		_, port, _ := net.SplitHostPort(string(l.addr))
		if port == "0" {
			continue // any free one
		}

		if other := used[l.addr]; other != "" {
			e.fault("listener-twice", "Give each listener an address of its own.", "%s and %s are both %s", other, l.setting, l.addr)
			continue
		}
		used[l.addr] = l.setting

		held, err := net.Listen("tcp", string(l.addr))
		if err == nil {
			held.Close()
			continue
		}

		found, ours := e.readiness(ctx, l.addr)
		if !ours {
			e.fault("listener-taken", "Stop the other program, or choose another address in "+l.setting+".",
				"%s: the address %s cannot be used: %v", l.setting, l.addr, cause(err))
			continue
		}

		e.isRunning = true
		for _, f := range found {
			if !slices.Contains(e.ofService, f) {
				e.ofService = append(e.ofService, f)
			}
		}
	}

	return len(listeners(e.c)) > 0
}

// readiness asks the service on an address for what it has found. ours is false for another
// program.
func (e *examination) readiness(ctx context.Context, addr config.Address) (found []health.Finding, ours bool) {
	base := localURL(addr)
	status, body, err := fetch(ctx, http.DefaultClient, base+"/healthz")
	if err != nil || status != http.StatusOK || !strings.HasPrefix(body, "ok") {
		return nil, false
	}

	status, body, err = fetch(ctx, http.DefaultClient, base+"/readyz?format=json")
	if err == nil && status != http.StatusOK {
		// Each process of one service has a time of its own, and the fault is one.
		reason, _, _ := strings.Cut(body, "\nsince: ")
		return []health.Finding{{Level: health.Error, Check: "service-not-ready", Problem: "the running service is not ready: " + oneLine(reason),
			Action: "See the log of the running service, and docs/operator/operations.md."}}, true
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &found)
	}
	return found, err == nil
}

// oneLine returns a text without line breaks.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }

// fetch sends a GET request and returns the beginning of the answer. It follows no redirects.
func fetch(ctx context.Context, client *http.Client, address string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}

	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := own.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()

	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	return response.StatusCode, string(text), err
}

const fetchTimeout = 5 * time.Second

// checkElsewhere ends the action for a public address that does not answer.
const checkElsewhere = " If this machine cannot reach its own public address, check it from another one."

// checkOrigins looks the public names up, checks their certificates and, while the service runs,
// that the proxy passes requests on.
func (e *examination) checkOrigins(ctx context.Context) bool {
	type served struct {
		origin config.Origin
		role   config.Role
	}

	seen := make(map[served]bool)
	for _, o := range e.c.Origins() {
		if seen[served{o.Origin, o.Role}] {
			continue
		}
		seen[served{o.Origin, o.Role}] = true

		host := config.HostOf(string(o.Origin))
		if strings.HasSuffix(host, ".localhost") {
			continue // browsers alone know these names
		}
		if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
			e.fault("origin-dns", "Create the DNS records of this name, or correct "+o.Setting+".",
				"%s: the name %s does not resolve", o.Setting, host)
			continue
		}

		if e.c.UsesTLS() && (!e.isRunning || e.lacksCertificate(host)) {
			continue // nothing answers before the start, and the missing certificate is reported
		}
		if !o.Origin.IsHTTPS() || e.checkCertificate(ctx, o) {
			e.checkPassedOn(ctx, o)
		}
	}

	return len(seen) > 0
}

// The remaining lifetime of a certificate below which a warning is reported. Certificates are
// usually renewed when a third of 90 days is left, or half of a shorter lifetime.
const certificateSoon = 14 * 24 * time.Hour

// checkCertificate reports an origin whose certificate browsers refuse, or soon will. It returns
// whether they accept it now.
func (e *examination) checkCertificate(ctx context.Context, o config.NamedOrigin) bool {
	certificate, err := serve.OriginCertificate(ctx, o.Origin)

	if invalid, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		action := "Install a valid certificate for this name at the proxy."
		if e.c.UsesTLS() {
			action = health.SeeTLS
		}
		e.fault("origin-certificate", action, "%s: browsers refuse the certificate: %v", o.Setting, cause(invalid))
		return false
	}
	if err != nil {
		e.warn("origin-unreachable", e.atProxy("Start the proxy.")+checkElsewhere,
			"%s: no TLS connection to %s: %v", o.Setting, o.Origin, cause(err))
		return false
	}

	// The database's check knows the lifetimes of the certificates that this program obtains.
	if left := certificate.NotAfter.Sub(e.Now()); left < certificateSoon && !e.c.UsesTLS() {
		e.warn("origin-certificate-expires", "Check why the proxy does not renew it.",
			"%s: the certificate expires on %s", o.Setting, certificate.NotAfter.UTC().Format(time.DateOnly))
	}
	return true
}

// atProxy returns an action at the proxy in front, or its counterpart if this program terminates
// TLS itself.
func (e *examination) atProxy(action string) string {
	if e.c.UsesTLS() {
		return "Let port 443 of the host reach TALLYGATE_TLS_ADDR."
	}
	return action
}

// checkPassedOn checks, if the service runs, that the right listener gets the requests for an
// origin, with their host.
func (e *examination) checkPassedOn(ctx context.Context, o config.NamedOrigin) {
	if !e.isRunning {
		return
	}

	path := "/"
	if o.Role == config.RoleData {
		path = "/svc.js"
	}

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status, body, err := fetch(ctx, client, string(o.Origin)+path)

	switch {
	case err != nil:
		e.warn("origin-unreachable", e.atProxy("Start the proxy.")+checkElsewhere,
			"%s: no answer from %s: %v", o.Setting, o.Origin, cause(err))
	case status == http.StatusMisdirectedRequest && strings.Contains(body, "wrong_host"):
		e.fault("origin-host", e.atProxy("Let the proxy pass the Host header on: proxy_set_header Host $host in nginx."),
			"%s: the proxy does not pass the Host header on", o.Setting)
	case status >= http.StatusBadRequest:
		e.fault("origin-answer", e.atProxy("Let the proxy pass "+string(o.Origin)+" on to the "+string(o.Role)+" listener."),
			"%s: %s%s answers with status %d", o.Setting, o.Origin, path, status)
	case o.Role == config.RoleControl:
		e.checkTools(ctx, client, o)
	default:
		e.checkClients(ctx, o)
	}
}

// checkTools checks that the proxy passes the tools for assistants on, which refuse a GET.
func (e *examination) checkTools(ctx context.Context, client *http.Client, o config.NamedOrigin) {
	status, _, err := fetch(ctx, client, string(o.Origin)+mcp.Path)
	if err == nil && status != http.StatusMethodNotAllowed {
		e.warn("origin-tools", "Let the proxy pass all paths on to the control listener.",
			"%s: assistants cannot use the tools, because %s%s answers a GET with status %d instead of 405", o.Setting, o.Origin, mcp.Path, status)
	}
}
