package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/serve"
)

// checkTLS checks what orders of certificates need, if this process obtains them. checkOrigins
// checks port 443.
func (e *examination) checkTLS(ctx context.Context) bool {
	if !e.c.UsesTLS() {
		return false
	}

	e.checkPort(ctx, "TALLYGATE_TLS_ADDR", e.c.TLSAddr)
	e.checkPort(ctx, "TALLYGATE_TLS_HTTP_ADDR", e.c.TLSHTTPAddr)
	e.checkDirectory(ctx)
	for _, host := range e.c.TLSHosts() {
		e.checkHost(ctx, host)
	}
	return true
}

// checkPort checks that the service can listen on an address. A service that runs may have rights
// that this process does not have.
func (e *examination) checkPort(ctx context.Context, setting string, addr config.Address) {
	if e.isRunning && answers(ctx, addr) {
		return
	}

	held, err := net.Listen("tcp", string(addr))
	switch {
	case err == nil:
		held.Close()
	case errors.Is(err, fs.ErrPermission):
		e.fault("tls-port-rights", "Give the service the right to use ports below 1024; see \"Ports below 1024\" in docs/operator/tls.md.",
			"%s: this user must not listen on %s", setting, addr)
	default:
		e.fault("listener-taken", "Stop the other program, for instance a proxy, or choose another address in "+setting+".",
			"%s: the address %s cannot be used: %v", setting, addr, cause(err))
	}
}

// answers reports whether connections to one of this machine's listeners are accepted.
func answers(ctx context.Context, addr config.Address) bool {
	conn, err := (&net.Dialer{Timeout: fetchTimeout}).DialContext(ctx, "tcp", strings.TrimPrefix(localURL(addr), "http://"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// checkDirectory checks that the authority answers, and compares its clock.
func (e *examination) checkDirectory(ctx context.Context) {
	roots, err := serve.Certificates(e.c.TLSCAFile)
	if err != nil {
		e.fault("tls-ca-file", "Correct the file.", "TALLYGATE_TLS_ACME_CA_FILE: %v", cause(err))
		return
	}

	before := e.Now()
	var at time.Time
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	client.Transport = dateReader{client.Transport, &at}
	status, body, err := fetch(ctx, client, e.c.TLSDirectory)

	var directory struct{ NewOrder string }
	if err == nil && (status != http.StatusOK || json.Unmarshal([]byte(body), &directory) != nil || directory.NewOrder == "") {
		err = errors.New("the answer is no ACME directory")
	}
	if err != nil {
		e.fault("tls-directory", "Permit connections to it, or correct TALLYGATE_TLS_ACME_DIRECTORY and TALLYGATE_TLS_ACME_CA_FILE.",
			"the authority at %s cannot be used: %v", e.c.TLSDirectory, cause(err))
		return
	}
	if !at.IsZero() {
		e.checkClock("tls-clock", "The authority's clock", at, before)
	}
}

// dateReader stores the date of an answer.
type dateReader struct {
	http.RoundTripper
	at *time.Time
}

// RoundTrip implements http.RoundTripper.
func (d dateReader) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.RoundTripper.RoundTrip(r)
	if err == nil {
		*d.at, _ = http.ParseTime(response.Header.Get("Date"))
	}
	return response, err
}

// checkHost checks that a host leads to this machine, as far as this machine knows its addresses,
// and that this service answers on port 80. checkOrigins reports a name that does not resolve.
func (e *examination) checkHost(ctx context.Context, host string) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return
	}

	own := publicAddresses()
	isOwn := func(a netip.Addr) bool { return a.IsLoopback() || slices.Contains(own, a.Unmap()) }
	if len(own) > 0 && !slices.ContainsFunc(found, isOwn) {
		e.warn("tls-host-elsewhere", "Correct the DNS records, unless a load balancer passes ports 80 and 443 on to this machine.",
			"%s resolves to %s, and this machine has %s", host, joined(found), joined(own))
	}

	if !e.isRunning {
		return
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status, _, err := fetch(ctx, client, "http://"+host+"/")
	switch {
	case err != nil:
		e.warn("tls-http", "Let port 80 of the host reach TALLYGATE_TLS_HTTP_ADDR. If this machine cannot reach its own public address, "+
			"check it from another one.", "no answer from http://%s: %v", host, cause(err))
	case status != http.StatusPermanentRedirect:
		e.warn("tls-http", "Let port 80 of the host reach TALLYGATE_TLS_HTTP_ADDR.",
			"http://%s answers with status %d instead of a redirect, so another program answers there", host, status)
	}
}

// publicAddresses returns the public addresses of this machine's interfaces.
func publicAddresses() []netip.Addr {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var public []netip.Addr
	for _, i := range interfaces {
		prefix, err := netip.ParsePrefix(i.String())
		if addr := prefix.Addr().Unmap(); err == nil && addr.IsGlobalUnicast() && !addr.IsPrivate() {
			public = append(public, addr)
		}
	}
	return public
}

func joined(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, a := range addrs {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
