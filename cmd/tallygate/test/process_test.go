// Package test runs the program as its users do, end to end: its commands and roles in processes
// that are signalled and killed, its pages in a browser.
package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/command"
	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/program"
)

// asProgram is the environment variable that makes the test binary behave as the program. Most
// tests run the program of package program, which is cheaper. The test binary has the race detector.
const asProgram = "TALLYGATE_TEST_AS_PROGRAM"

// answers compares answers of the data listeners with the OpenAPI document.
var answers = openapitest.NewTransport(http.DefaultTransport)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		command.Main()
	}

	http.DefaultTransport = answers

	code := browsertest.Run(func() int { return dbtest.RunByTurns(m) })
	if err := errors.Join(answers.Errors()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	program.Remove()
	_ = os.RemoveAll(prepared.dir)
	os.Exit(code)
}

// patience is the longest wait for a process.
const patience = program.Patience

// process is a running tallygate.
type process struct {
	*program.Process
	t    *testing.T
	cmd  *exec.Cmd
	done <-chan struct{}   // closed after the process has terminated and its output was read
	addr map[string]string // address by role
}

// start starts tallygate with arguments and settings, and waits until it listens for the given
// roles.
func start(t *testing.T, settings map[string]string, roles []string, args ...string) *process {
	t.Helper()
	p := program.Start(t, programOf(settings), settings, roles, args...)
	if control := p.Addr["control"]; control != "" {
		answers.Ignore(control)
	}
	return &process{Process: p, t: t, cmd: p.Cmd, done: p.Done, addr: p.Addr}
}

// newCommand returns a tallygate command with only the given settings, on free ports.
func newCommand(settings map[string]string, args ...string) *exec.Cmd {
	return program.Command(programOf(settings), settings, args...)
}

// programOf returns the test binary if the settings have asProgram, and else "".
func programOf(settings map[string]string) string {
	if settings[asProgram] == "" {
		return ""
	}
	return os.Args[0]
}

func (p *process) logged() string { return p.Log() }

// awaitLog waits for a line in a process's log.
func awaitLog(t *testing.T, p *process, text string) {
	t.Helper()
	testkit.AwaitState(t, "a log with "+text, func() (string, bool) {
		log := p.logged()
		return log, strings.Contains(log, text)
	})
}

// signal sends a signal and waits for the process to terminate.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	p.Signal(s)
}

func (p *process) kill() { p.signal(syscall.SIGKILL) }

// demoLogin returns the credentials of the demo's owner.
func (p *process) demoLogin(dataDir string) demo.Owner {
	p.t.Helper()
	o, err := demo.ReadOrCreateOwner(dataDir)
	if err != nil || o.Email != demo.Email {
		p.t.Fatalf("the demo's owner: %+v, %v", o, err)
	}
	return o
}

// testOwner is a user with a session of the control plane.
type testOwner struct {
	*program.Client
	t *testing.T
}

func newOwner(t *testing.T, p *process) *testOwner {
	t.Helper()
	c := p.Client()
	return ownerAt(t, c.Origin, c.HTTP)
}

// ownerAt returns an owner of the control plane at an origin. The client keeps cookies.
func ownerAt(t *testing.T, origin string, client *http.Client) *testOwner {
	return &testOwner{Client: &program.Client{TB: t, Origin: origin, HTTP: client}, t: t}
}

// do runs a GraphQL query and decodes its data. An error fails the test.
func (o *testOwner) do(query string, data any) {
	o.t.Helper()
	o.Do(query, nil, data)
}

// testSite is a site and its owner.
type testSite = program.Site

// signUp creates an account with a site.
func (o *testOwner) signUp(domain string) testSite {
	o.t.Helper()
	o.SignUp("owner@"+domain, "a long password", "Test")
	return o.CreateSite(domain, "")
}

// signIn signs the owner of a domain in.
func (o *testOwner) signIn(domain string) {
	o.t.Helper()
	o.SignIn("owner@"+domain, "a long password")
}

// exportLimit is the largest number of rows of one download.
const exportLimit = 50_000

// export downloads the page views of a site as JSON rows.
func (o *testOwner) export(siteID string) []map[string]any {
	o.t.Helper()
	return o.exportAfter(siteID, "")
}

func (o *testOwner) exportAfter(siteID, cursor string) []map[string]any {
	o.t.Helper()
	query := url.Values{"site_id": {siteID}, "type": {"pageviews"}, "from": {"2000-01-01"}, "to": {"2100-01-01"},
		"limit": {strconv.Itoa(exportLimit)}, "cursor": {cursor}}

	var rows []map[string]any
	if err := json.Unmarshal(o.download(query.Encode()), &rows); err != nil {
		o.t.Fatalf("export: %v", err)
	}

	return rows
}

func (o *testOwner) download(query string) []byte {
	o.t.Helper()

	response, err := o.HTTP.Get(o.Origin + "/products/analytics/api/export.php?" + query)
	testkit.NoError(o.t, err)
	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		o.t.Fatalf("export %s: %s %.500s %v", query, response.Status, body, err)
	}

	return body
}

// used returns the site's page views of this month.
func (o *testOwner) used(siteID string) int {
	o.t.Helper()
	var data struct {
		Site struct{ Usage struct{ Pageviews int } }
	}
	o.do(`{ site(id: "`+siteID+`") { usage { pageviews } } }`, &data)
	return data.Site.Usage.Pageviews
}
