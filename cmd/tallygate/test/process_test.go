// Package test runs the program as its users do, end to end: its commands and roles in processes
// that are signalled and killed, its pages in a browser.
package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/command"
	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/programtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// asProgram is the environment variable that makes the test binary behave as the program. Most
// tests run the program of programtest, which is cheaper. The test binary has the race detector.
const asProgram = "TALLYGATE_TEST_AS_PROGRAM"

// answers compares answers of the data listeners with the OpenAPI document.
var answers = openapitest.NewTransport(http.DefaultTransport)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		command.Main()
	}

	http.DefaultTransport = answers

	code := browsertest.Run(func() int { return dbtest.Run(m) })
	if err := errors.Join(answers.Errors()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	programtest.Remove()
	_ = os.RemoveAll(prepared.dir)
	os.Exit(code)
}

// patience is the longest wait for a process. Under load, a child process of low priority needs
// long to start.
const patience = 2 * time.Minute

// process is a running tallygate.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{} // closed after the process has terminated and its output was read

	mu  sync.Mutex
	log bytes.Buffer

	out  bytes.Buffer // standard output; read it after done
	urls chan listening
	addr map[string]string // address by role
}

type listening struct {
	Msg, Role, Addr, URL string
}

// start starts tallygate with arguments and settings, and waits until it listens for the given
// roles.
func start(t *testing.T, settings map[string]string, roles []string, args ...string) *process {
	t.Helper()

	p := &process{t: t, done: make(chan struct{}), urls: make(chan listening, 100), addr: make(map[string]string)}
	p.cmd = newCommand(settings, args...)
	logs, err := p.cmd.StderrPipe()
	testkit.NoError(t, err)

	p.cmd.Stdout = &p.out
	testkit.NoError(t, p.cmd.Start())

	go p.follow(logs)
	t.Cleanup(func() {
		p.kill()
		if log := p.logged(); strings.Contains(log, "WARNING: DATA RACE") {
			t.Errorf("tallygate has a data race:\n%s", log)
		}
	})

	for range roles {
		select {
		case l := <-p.urls:
			p.addr[l.Role] = l.Addr
			if l.Role == "control" {
				answers.Ignore(l.Addr)
			}
		case <-p.done:
			t.Fatalf("tallygate ended before it listened:\n%s", p.logged())
		case <-time.After(patience):
			t.Fatalf("tallygate does not listen after %v:\n%s", patience, p.logged())
		}
	}

	for _, role := range roles {
		if p.addr[role] == "" {
			t.Fatalf("tallygate does not listen as %s:\n%s", role, p.logged())
		}
	}

	return p
}

// newCommand returns a tallygate command with only the given settings, on free ports. It runs the
// test binary if the settings have asProgram.
func newCommand(settings map[string]string, args ...string) *exec.Cmd {
	program, err := os.Args[0], error(nil)
	if settings[asProgram] == "" {
		program, err = programtest.Path()
	}

	cmd := exec.Command(program, args...)
	if err != nil {
		// The start returns it.
		cmd.Err = err
	}

	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TALLYGATE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}

	all := map[string]string{
		"TALLYGATE_CONTROL_ADDR": "127.0.0.1:0",
		"TALLYGATE_DATA_ADDR":    "127.0.0.1:0",
		"TALLYGATE_LOG_FORMAT":   "json",
	}
	for name, value := range settings {
		all[name] = value
	}

	for name, value := range all {
		cmd.Env = append(cmd.Env, name+"="+value)
	}

	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (p *process) follow(logs io.Reader) {
	defer close(p.done)

	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()

		var l listening
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "listening" {
			select {
			case p.urls <- l:
			default: // a child that starts again and again
			}
		}
	}

	// Tests read ProcessState.
	_ = p.cmd.Wait()
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

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

	// The process may have terminated by itself.
	_ = p.cmd.Process.Signal(s)

	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("tallygate still runs %v after %v:\n%s", patience, s, p.logged())
	}
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

// testOwner is a user with a cookie jar at the control plane.
type testOwner struct {
	t       *testing.T
	control string // origin
	http    *http.Client
}

func newOwner(t *testing.T, p *process) *testOwner {
	t.Helper()
	jar, err := cookiejar.New(nil)
	testkit.NoError(t, err)
	return &testOwner{t: t, control: "http://" + p.addr["control"], http: &http.Client{Jar: jar, Timeout: patience}}
}

// do runs a GraphQL query and decodes its data. An error fails the test.
func (o *testOwner) do(query string, data any) {
	o.t.Helper()

	body, err := json.Marshal(map[string]string{"query": query})
	testkit.NoError(o.t, err)

	response, err := o.http.Post(o.control+"/graphql", "application/json", bytes.NewReader(body))
	testkit.NoError(o.t, err)
	defer response.Body.Close()

	var answer struct {
		Data   json.RawMessage
		Errors []any
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Errors) > 0 {
		o.t.Fatalf("%s: %s, errors %v, %v", query, response.Status, answer.Errors, err)
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		o.t.Fatalf("%s: data %s: %v", query, answer.Data, err)
	}
}

// testSite is a site and its owner.
type testSite struct{ ID, SiteKey, ScriptTag string }

// signUp creates an account with a site.
func (o *testOwner) signUp(domain string) testSite {
	o.t.Helper()

	var account struct {
		SignUp struct {
			Viewer     struct{ Email string }
			UserErrors []any
		}
	}

	o.do(`mutation { signUp(input: {email: "owner@`+domain+`", password: "a long password", accountName: "Test"}) {
		viewer { email } userErrors { field code message } } }`, &account)

	if account.SignUp.Viewer.Email != "owner@"+domain {
		o.t.Fatalf("signUp: %+v", account)
	}

	var created struct {
		CreateSite struct {
			Site       *testSite
			UserErrors []any
		}
	}

	o.do(`mutation { createSite(input: {domain: "`+domain+`"}) { site { id siteKey scriptTag } userErrors { field code message } } }`, &created)

	if created.CreateSite.Site == nil {
		o.t.Fatalf("createSite: %+v", created)
	}

	return *created.CreateSite.Site
}

// signIn signs the owner of a domain in.
func (o *testOwner) signIn(domain string) {
	o.t.Helper()
	o.signInAs("owner@"+domain, "a long password")
}

func (o *testOwner) signInAs(email, password string) {
	o.t.Helper()
	var data struct {
		SignIn struct{ Viewer *struct{ Email string } }
	}

	o.do(`mutation { signIn(input: {email: "`+email+`", password: "`+password+`"}) { viewer { email } } }`, &data)

	if data.SignIn.Viewer == nil {
		o.t.Fatal("signIn: no viewer")
	}
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

	response, err := o.http.Get(o.control + "/products/analytics/api/export.php?" + query)
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
