package test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/command"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Steps of several tests.

// firefox is the user agent of a visitor.
const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

// stays is a client that follows no redirect.
var stays = &http.Client{Timeout: patience, CheckRedirect: noRedirect}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// exchange sends a request with headers. The header Host becomes the request's host. It returns the
// response and its body.
func exchange(
	t testing.TB, client *http.Client, method, url, body string, header map[string]string,
) (*http.Response, string) {
	t.Helper()

	request, err := http.NewRequest(method, url, strings.NewReader(body))
	testkit.NoError(t, err)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	request.Host = cmp.Or(header["Host"], request.Host)

	response, err := client.Do(request)
	testkit.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testkit.NoError(t, err)

	return response, string(text)
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, body := exchange(t, http.DefaultClient, http.MethodGet, url, "", nil)
	return response.StatusCode, body
}

// callServer sends a server-side event of a visitor.
func callServer(t *testing.T, addr, secret, event, visitor string) (status int, answer string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"event": event, "ip": visitor, "user_agent": firefox})
	testkit.NoError(t, err)
	response, answer := exchange(t, http.DefaultClient, http.MethodPost, "http://"+addr+"/server.php", string(body),
		map[string]string{"Authorization": "Bearer " + secret, "Content-Type": "application/json"})
	return response.StatusCode, strings.TrimSpace(answer)
}

// databaseOf returns the address of the database that settings name.
func databaseOf(settings map[string]string) string {
	return cmp.Or(settings["TALLYGATE_DATABASE_URL"], db.EmbeddedURL(settings["TALLYGATE_DATA_DIR"]))
}

// runAdmin runs an operator command in this process, with settings as flags. It returns the exit
// status and the output.
func runAdmin(t *testing.T, settings map[string]string, args ...string) (status int, out string) {
	t.Helper()
	args = append([]string{"admin"}, args...)
	for name, value := range settings {
		flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "TALLYGATE_"), "_", "-"))
		if value != "true" {
			flag += "=" + value
		}
		args = append(args, flag)
	}

	var printed bytes.Buffer
	status = command.Run(t.Context(), args, &printed, &printed)
	return status, printed.String()
}

// adminOf returns a function that runs operator commands with these settings. Their output must
// contain a text. They must fail if the text is an error's, which begins with "tallygate: ".
func adminOf(t *testing.T, settings map[string]string) func(want string, args ...string) string {
	return func(want string, args ...string) string {
		t.Helper()
		status, out := runAdmin(t, settings, args...)
		if !strings.Contains(out, want) || (status != 0) != strings.HasPrefix(want, "tallygate: ") {
			t.Errorf("%v: status %d\n%s\nwant %q", args, status, out, want)
		}
		return out
	}
}

// certificateFile writes the certificate of a server with TLS to a file, as the authorities of a
// process.
func certificateFile(t testing.TB, server *httptest.Server) (path string) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return writeFile(t, t.TempDir(), "authorities.pem", string(text))
}

// tokenOf creates an account with an API token.
func tokenOf(t *testing.T, p *process, scopes string) (owner *testOwner, token string) {
	t.Helper()
	owner = newOwner(t, p)
	owner.do(`mutation { signUp(input: {email: "owner@example.com", password: "correct horse", accountName: "Example"}) {
		viewer { id } } }`, &struct{}{})

	return owner, owner.apiToken(scopes)
}

// apiToken creates an API token.
func (o *testOwner) apiToken(scopes string) string {
	o.t.Helper()
	var made struct {
		CreateAPIToken struct{ Token string }
	}
	o.do(`mutation { createApiToken(input: {name: "program", scopes: [`+scopes+`]}) { token } }`, &made)
	return made.CreateAPIToken.Token
}

// data runs a GraphQL query and returns its data as the service sends it. An error fails the test.
func (o *testOwner) data(query string) string {
	o.t.Helper()
	var data json.RawMessage
	o.do(query, &data)
	return string(data)
}

// rotateServerSecret returns a new server secret of a site. The input may have further fields.
func (o *testOwner) rotateServerSecret(siteID, fields string) string {
	o.t.Helper()
	var rotated struct{ RotateServerSecret struct{ ServerSecret string } }
	o.do(`mutation { rotateServerSecret(input: {siteId: "`+siteID+`"`+fields+`}) { serverSecret } }`, &rotated)
	return rotated.RotateServerSecret.ServerSecret
}

// startLoad sends page views until a process stops, and counts the acknowledged ones.
func startLoad(
	t *testing.T, p *process, siteKey, prefix string,
) (count *atomic.Int64, acknowledged <-chan []string) {
	count = new(atomic.Int64)
	finished := make(chan []string)
	go func() { finished <- load(t, p.addr["data"], siteKey, prefix, count) }()
	return count, finished
}

// compareAfterStart starts a process and compares what it has stored.
func compareAfterStart(t *testing.T, settings map[string]string, site testSite, acknowledged []string) *testOwner {
	t.Helper()
	o := newOwner(t, start(t, settings, []string{"control", "data"}))
	o.signIn("crash.localhost")
	compare(t, o, site, acknowledged)
	return o
}

// stopsCleanly ends a process with SIGTERM.
func (p *process) stopsCleanly() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.wantCleanStop()
}

// awaitEnd waits until a process has ended by itself.
func (p *process) awaitEnd() {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("the process still runs:\n%s", p.logged())
	}
}

// wantCleanStop checks how a process has ended.
func (p *process) wantCleanStop() {
	p.t.Helper()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.logged(), `"msg":"stopped","clean":true`) {
		p.t.Errorf("exit status %d, want 0 and a clean stop:\n%s", code, p.logged())
	}
}

// eventually waits until a condition of a process holds.
func eventually(t *testing.T, p *process, holds func() bool) {
	t.Helper()
	testkit.AwaitState(t, "a condition of the process", func() (string, bool) { return p.logged(), holds() })
}

// awaitReadyz waits until the answer of a role's /readyz meets a condition, and returns its body.
// The status is 0 while nothing listens.
func (p *process) awaitReadyz(role string, holds func(status int, body string) bool) (body string) {
	p.t.Helper()
	testkit.AwaitState(p.t, "/readyz of "+role, func() (string, bool) {
		var status int
		status, body = readyz(p.addr[role])
		return fmt.Sprintf("%d %q\n%s", status, body, p.logged()), holds(status, body)
	})
	return body
}

// awaitStatus waits until a role's /readyz has a status.
func (p *process) awaitStatus(role string, want int) {
	p.t.Helper()
	p.awaitReadyz(role, func(status int, _ string) bool { return status == want })
}

// readFile returns the text of a file.
func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.NoError(t, err)
	return string(text)
}

// writeFile writes a file of a folder and returns its path.
func writeFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	testkit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
