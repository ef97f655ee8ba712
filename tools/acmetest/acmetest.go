// Package acmetest starts Pebble, the ACME server of Let's Encrypt for tests, with a DNS server
// that resolves every name to 127.0.0.1. Pebble connects to the ports of a test to check
// challenges, as an authority does.
package acmetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// patience is the longest wait for a server.
const patience = 20 * time.Second

// Options are the settings of an authority.
type Options struct {
	HTTPPort, TLSPort int           // to which it connects for HTTP-01 and TLS-ALPN-01
	Validity          time.Duration // of certificates
	Blocked           []string      // domains that it refuses
}

// Authority is a Pebble process. It keeps its addresses over Stop and Start, but no accounts and
// orders.
type Authority struct {
	Directory string // address
	CAFile    string // certificate of the directory

	t          testing.TB
	pool       *x509.CertPool // of CAFile
	config     string
	dns        string
	management string

	mu  sync.Mutex
	log strings.Builder // of all processes
	cmd *exec.Cmd
}

// New prepares an authority and its DNS server. It does not start the authority. Tests with an
// authority are left to make test-all, because make test does not install one.
func New(t testing.TB, o Options) *Authority {
	t.Helper()
	testkit.SkipLong(t, "an authority")
	dir := t.TempDir()
	a := &Authority{t: t, CAFile: filepath.Join(dir, "directory.pem"), config: filepath.Join(dir, "pebble.json"),
		dns: dbtest.FreeAddress(t), management: dbtest.FreeAddress(t)}
	key := filepath.Join(dir, "directory.key")
	a.pool = writeCertificate(t, a.CAFile, key)
	directory := dbtest.FreeAddress(t)
	a.Directory = "https://" + directory + "/dir"

	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": directory, "managementListenAddress": a.management, "certificate": a.CAFile, "privateKey": key,
		"httpPort": o.HTTPPort, "tlsPort": o.TLSPort, "domainBlocklist": o.Blocked, "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles":   map[string]any{"default": map[string]any{"description": "test", "validityPeriod": int(o.Validity.Seconds())}},
	}})
	testkit.NoError(t, err)
	testkit.NoError(t, os.WriteFile(a.config, text, 0o600))

	_, port, _ := net.SplitHostPort(a.dns)
	a.run(program(t, "pebble-challtestsrv"), "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver", ":"+port,
		"-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", dbtest.FreeAddress(t))
	return a
}

// Start starts the authority and waits until it answers.
func (a *Authority) Start() {
	a.t.Helper()
	a.cmd = a.run(program(a.t, "pebble"), "-config", a.config, "-dnsserver", a.dns)
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		response, err := a.client().Get(a.Directory)
		if err == nil {
			response.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("Pebble does not answer: %v\n%s", err, a.Log())
		}
	}
}

// Stop ends the authority.
func (a *Authority) Stop() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

// Orders returns how many orders the authority has accepted.
func (a *Authority) Orders() int { return strings.Count(a.Log(), "Added order") }

// Log returns what the processes have logged.
func (a *Authority) Log() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.String()
}

// Roots returns the root certificate of what the running authority issues. It differs after each
// start.
func (a *Authority) Roots() *x509.CertPool {
	a.t.Helper()
	response, err := a.client().Get("https://" + a.management + "/roots/0")
	testkit.NoError(a.t, err)
	defer response.Body.Close()

	text, err := io.ReadAll(response.Body)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		a.t.Fatalf("the root of Pebble: %v %q", err, text)
	}
	return pool
}

func (a *Authority) client() *http.Client {
	return &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: a.pool}}}
}

// run starts a process, and ends it after the test.
func (a *Authority) run(name string, args ...string) *exec.Cmd {
	a.t.Helper()
	cmd := exec.Command(name, args...)
	// It neither waits between checks nor refuses nonces at random, and checks each host for each
	// order.
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	cmd.Stdout, cmd.Stderr = logWriter{a}, logWriter{a}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.NoError(a.t, cmd.Start())
	a.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// logWriter appends to the log of an authority.
type logWriter struct{ *Authority }

// Write implements io.Writer.
func (w logWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(text)
}

// program finds a program that .ci/setup has built, or one on the PATH.
func program(t testing.TB, name string) string {
	t.Helper()
	testkit.SkipLong(t, name)
	for dir, _ := os.Getwd(); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		file := filepath.Join(dir, "bin", name)
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	file, err := exec.LookPath(name)
	if err != nil {
		testkit.Missing(t, name+" is neither in bin nor on the PATH; run .ci/setup pebble")
	}
	return file
}

// writeCertificate writes a certificate for 127.0.0.1 and its key, and returns a pool that trusts
// it.
func writeCertificate(t testing.TB, certificateFile, keyFile string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.NoError(t, err)

	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for file, text := range map[string][]byte{certificateFile: certificate,
		keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		testkit.NoError(t, os.WriteFile(file, text, 0o600))
	}

	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}
