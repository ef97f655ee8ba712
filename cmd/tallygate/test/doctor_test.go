package test

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/tallygate/tallygate/cmd/tallygate/doctor"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// installation is one on which the doctor is tried.
type installation struct {
	withoutPath  string // that the proxy does not pass on
	from         string // address that the proxy connects from; empty: any
	hidesClients bool   // the proxy forwards no address

	*testing.T
	settings map[string]string
	args     []string // further ones of the command
	server   *pgserver.Server
	ca       *testAuthority
	printed  string // the findings of the last run, without what differs between runs
}

// examine runs the doctor and returns its findings as "level check".
func (i *installation) examine() (findings []string, status int) {
	i.Helper()
	status, out, logged := tallygate(i.T, i.settings, append([]string{"doctor", "--json"}, i.args...)...)

	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		i.Fatalf("status %d, %v: %s\n%s", status, err, out, logged)
	}

	i.printed = ""
	for _, f := range report.Findings {
		i.printed += fmt.Sprintf("%s %s: %s\n    %s\n", f.Level, f.Check, f.Problem, f.Action)
		findings = append(findings, string(f.Level)+" "+f.Check)
		if f.Problem == "" || f.Action == "" || strings.Contains(out, password) {
			i.Errorf("finding %+v", f)
		}
		i.Logf("%s: %s\n    %s", f.Check, f.Problem, f.Action)
	}
	slices.Sort(findings)
	i.printed = lasting(i.printed)

	return slices.Compact(findings), status
}

// password is in addresses of the tests, and must be in no finding.
const password = "p%40ss-word"

// prepared is the data folder of a service that has run once.
var prepared struct {
	once sync.Once
	dir  string
}

// embedded returns an installation with an embedded database that has been started once.
func embedded(t *testing.T) *installation {
	t.Helper()

	prepared.once.Do(func() {
		dir, err := os.MkdirTemp("", "tallygate-doctor-")
		testkit.NoError(t, err)
		settings := settingsFor(t, "sqlite:")
		settings["TALLYGATE_DATA_DIR"] = filepath.Join(dir, "data")
		start(t, settings, []string{"control", "data"}).signal(syscall.SIGTERM)
		prepared.dir = dir
	})

	settings := settingsFor(t, "sqlite:")
	settings["TALLYGATE_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	testkit.NoError(t, os.CopyFS(settings["TALLYGATE_DATA_DIR"], os.DirFS(filepath.Join(prepared.dir, "data"))))
	onlyForOwner(t, settings["TALLYGATE_DATA_DIR"])

	// On a busy machine the folder may be older than the clock may advance.
	i := &installation{T: t, settings: settings}
	i.exec("DELETE FROM settings WHERE name = 'trusted_clock'")
	return i
}

// onlyForOwner gives a copied folder the modes that the program gives.
func onlyForOwner(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	testkit.NoError(t, err)
}

// path returns a file in the data folder.
func (i *installation) path(name string) string {
	return filepath.Join(i.settings["TALLYGATE_DATA_DIR"], name)
}

// exec runs a statement in the installation's database.
func (i *installation) exec(statement string, args ...any) {
	i.Helper()
	i.execAt(databaseOf(i.settings), statement, args...)
}

// execAt runs a statement in a database, which is not open afterwards.
func (i *installation) execAt(databaseURL, statement string, args ...any) {
	i.Helper()
	d, err := db.Open(databaseURL)
	testkit.NoError(i, err)
	testkit.NoError(i, dbtest.Exec(d, statement, args...))
	testkit.NoError(i, d.Close())
}

// startPostgres starts a PostgreSQL server, which commits durably as in production or not.
func startPostgres(t *testing.T, durable bool) *pgserver.Server {
	t.Helper()
	bin, err := pgserver.Bin()
	if err != nil {
		testkit.Missing(t, "PostgreSQL's server programs are not installed: "+err.Error())
	}
	server, err := pgserver.Start(bin, pgserver.Options{Durable: durable})
	testkit.NoError(t, err)
	t.Cleanup(server.Stop)

	template, err := server.CreateDatabase(t.Context(), "prepared")
	testkit.NoError(t, err)
	if status, _, log := tallygate(t, settingsFor(t, template), "migrate"); status != 0 {
		t.Fatal(log)
	}

	return server
}

// onPostgres returns an installation on a new, migrated database of a server.
func onPostgres(t *testing.T, server *pgserver.Server) *installation {
	t.Helper()

	name := fmt.Sprint("copy", databases.Add(1))
	i := &installation{T: t, server: server}
	i.query("CREATE DATABASE " + name + " TEMPLATE prepared")
	i.settings = settingsFor(t, strings.Replace(server.URL(), "/postgres?", "/"+name+"?", 1))
	i.settings["TALLYGATE_SECRET"] = "a-quite-random-KEY-0123456789-of-the-tests"

	return i
}

// databases counts the databases of the tests.
var databases atomic.Int64

// query runs a statement on the server's first database, which is not the installation's.
func (i *installation) query(statement string) {
	i.Helper()
	i.execAt(i.server.URL(), statement)
}

// databaseName returns the name of the installation's database.
func (i *installation) databaseName() string {
	u, err := url.Parse(i.settings["TALLYGATE_DATABASE_URL"])
	testkit.NoError(i, err)
	return strings.TrimPrefix(u.Path, "/")
}

// trust makes the doctor's process trust the test's authority alone.
func (i *installation) trust() *testAuthority {
	i.Helper()
	if i.ca == nil {
		i.ca = newTestAuthority(i.T)
		file := filepath.Join(i.TempDir(), "ca.pem")
		testkit.NoError(i, os.WriteFile(file, i.ca.pem, 0o600))
		i.settings["SSL_CERT_FILE"] = file
	}
	return i.ca
}

// mailServer starts an SMTP server on localhost that requires a password, and offers STARTTLS if it
// has a certificate. It accepts the sender noreply@example.com only.
func (i *installation) mailServer(withTLS bool) {
	i.Helper()

	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &strictSession{}, nil }))
	server.Domain = "localhost"
	server.ErrorLog = discard{}
	if withTLS {
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{i.trust().issue(i.T, "localhost", time.Hour*24*60)}}
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(i, err)
	go server.Serve(listener)
	i.Cleanup(func() { server.Close() })

	_, port, _ := net.SplitHostPort(listener.Addr().String())
	i.settings["TALLYGATE_SMTP_URL"] = "smtp://user:" + password + "@localhost:" + port
	i.settings["TALLYGATE_MAIL_FROM"] = "Tallygate <noreply@example.com>"
	i.settings["TALLYGATE_BASE_URL"] = "http://localhost:1"
}

type discard struct{}

func (discard) Printf(string, ...any) {}
func (discard) Println(...any)        {}

// strictSession is a session of the mail server.
type strictSession struct{ in bool }

func (*strictSession) AuthMechanisms() []string             { return []string{sasl.Plain} }
func (*strictSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (*strictSession) Data(io.Reader) error                 { return nil }
func (*strictSession) Reset()                               {}
func (*strictSession) Logout() error                        { return nil }

func (s *strictSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, given string) error {
		if want, _ := url.PathUnescape(password); user != "user" || given != want {
			return smtp.ErrAuthFailed
		}
		s.in = true
		return nil
	}), nil
}

func (s *strictSession) Mail(from string, _ *smtp.MailOptions) error {
	switch {
	case !s.in:
		return smtp.ErrAuthRequired
	case from != "noreply@example.com":
		return &smtp.SMTPError{Code: 550, Message: "not your address"}
	}
	return nil
}

// tlsProxy starts a TLS proxy on localhost with a certificate that is valid for so long, and
// returns its origin.
func (i *installation) tlsProxy(target, name string, lifetime time.Duration, passHost bool) string {
	i.Helper()

	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: target})
		if !i.hidesClients {
			r.SetXForwarded()
		}
		r.Out.Host = "proxy.internal"
		if passHost {
			r.Out.Host = r.In.Host
		}
	}}

	if i.from != "" {
		transport := transportFrom(i.from)
		i.Cleanup(transport.CloseIdleConnections)
		proxy.Transport = transport
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(i, err)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == i.withoutPath {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	})
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	secure := tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{i.trust().issue(i.T, name, lifetime)}})
	go server.Serve(secure)
	i.Cleanup(func() { server.Close() })

	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return "https://localhost:" + port
}

// serveBehindProxies starts the service behind TLS proxies, and sets the addresses to the running
// ones.
func (i *installation) serveBehindProxies(passHost bool) *process {
	i.Helper()

	control, data := dbtest.FreeAddress(i.T), dbtest.FreeAddress(i.T)
	i.settings["TALLYGATE_CONTROL_ADDR"], i.settings["TALLYGATE_DATA_ADDR"] = control, data
	i.settings["TALLYGATE_BASE_URL"] = i.tlsProxy(control, "localhost", 60*24*time.Hour, passHost)
	i.settings["TALLYGATE_ANALYTICS_URL"] = i.tlsProxy(data, "localhost", 60*24*time.Hour, true)
	i.settings["TALLYGATE_CAPTCHA_URL"] = i.settings["TALLYGATE_ANALYTICS_URL"]
	i.settings["TALLYGATE_TRUSTED_PROXIES"] = cmp.Or(i.from, "127.0.0.1")

	return start(i.T, i.settings, []string{"control", "data"})
}

// TestDoctorSound: a sound configuration has no finding, before its first start, after it, and
// while the service runs with every part that can be configured.
func TestDoctorSound(t *testing.T) {
	t.Parallel()

	sound := func(i *installation) {
		i.Helper()
		if findings, status := i.examine(); len(findings) > 0 || status != 0 {
			i.Errorf("status %d, findings %q, want none", status, findings)
		}
	}

	t.Run("new", func(t *testing.T) {
		settings := settingsFor(t, "sqlite:")
		settings["TALLYGATE_DATA_DIR"] = filepath.Join(t.TempDir(), "a", "data")
		sound(&installation{T: t, settings: settings})
		if _, err := os.Stat(filepath.Dir(settings["TALLYGATE_DATA_DIR"])); !os.IsNotExist(err) {
			t.Errorf("the doctor created the data folder: %v", err)
		}
	})

	t.Run("sqlite", func(t *testing.T) {
		i := embedded(t)
		sound(i)

		text := maps.Clone(i.settings)
		if status, out, log := tallygate(t, text, "doctor"); status != 0 || !strings.HasPrefix(out, "0 findings. Checked: ") {
			t.Errorf("status %d: %s%s", status, out, log)
		}
	})

	t.Run("everything", func(t *testing.T) {
		i := onPostgres(t, startPostgres(t, true))
		redis := redistest.New(t)
		i.settings["TALLYGATE_REDIS_URL"] = redis.URL()
		i.mailServer(true)
		i.serveBehindProxies(true)
		sound(i)
	})
}
