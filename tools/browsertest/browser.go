// Package browsertest opens real web pages in Chromium for tests. It finds the browser, starts it
// so that it can reach only the test's own servers, and provides the operations that tests of pages
// need. Only tests import it.
//
//	browser := browsertest.New(t, browsertest.Host("shop.example.test", server.URL))
//	page := browser.Open("http://shop.example.test/")
//	page.WaitFor(`document.title === "Shop"`)
//
// A method that cannot do its work fails the test. Waiting ends as soon as the condition holds, or
// fails the test after Timeout.
package browsertest

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// UserAgent is the browser's default user agent: Chrome on Linux. The service would treat
// Chromium's own headless user agent as a bot's.
const UserAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"

// Timeout limits each operation, and is what tests wait for messages of pages. Conditions usually
// hold within milliseconds; a busy machine may need more than a minute.
const Timeout = 4 * time.Minute

// Browser is a Chromium with an empty profile of its own. The profile ends with the test, together
// with its tabs, cookies and caches. The process may serve several tests, but only one at a time,
// so the focus and the visible tab belong to this test alone.
type Browser struct {
	t       testing.TB
	program *program
	profile profile
}

// Option changes how New starts the browser.
type Option func(*options)

type options struct {
	hosts hosts
	flags []flag
	agent string
}

// flag is a command-line flag of Chromium.
type flag struct {
	name  string
	value any
}

// Host resolves a host name to a server of the test, whose URL is http://127.0.0.1:PORT or
// https://127.0.0.1:PORT. The default port of that scheme connects to the server. Other ports of
// the name connect to the same port on 127.0.0.1, so http://name:PORT/ works too. The name may
// begin with "*." for all subdomains. Certificates are not verified.
func Host(name, serverURL string) Option {
	return func(o *options) {
		u, err := url.Parse(serverURL)
		if err != nil || u.Port() == "" {
			panic(fmt.Sprintf("browsertest: %q is not a server's URL with a port", serverURL))
		}
		port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		o.hosts = append(o.hosts, host{name, port, u.Host})
	}
}

// WithUserAgent sets the user agent, in requests and in navigator.userAgent.
func WithUserAgent(agent string) Option {
	return func(o *options) { o.agent = agent }
}

// WithFlag adds a command-line flag of Chromium, without the two dashes.
func WithFlag(name string, value any) Option {
	return func(o *options) { o.flags = append(o.flags, flag{name, value}) }
}

// New starts Chromium, or takes an idle process that was started with the same flags. The browser
// reaches 127.0.0.1 and the names of the Host options only. Without a Chromium on the PATH the test
// is skipped, or failed if the environment contains CI=true.
func New(t testing.TB, opts ...Option) *Browser {
	t.Helper()
	testkit.SkipLong(t, "Chromium")

	executable, ok := find()
	if !ok {
		testkit.Missing(t, "no Chromium is installed: none of "+strings.Join(executables, ", ")+" is on the PATH")
	}

	o := options{agent: UserAgent}
	for _, opt := range opts {
		opt(&o)
	}

	p, err := acquire(executable, o)
	if err != nil {
		t.Fatalf("start %s: %v", executable, err)
	}

	b := &Browser{t: t, program: p}
	if b.profile, err = p.newProfile(o.hosts); err != nil {
		release(p, false)
		t.Fatalf("%s: a new profile: %v", executable, err)
	}

	t.Cleanup(func() { release(p, p.endProfile(b.profile) == nil && !t.Failed()) })
	return b
}

// executables lists the names of Chromium's program, best first.
var executables = []string{"chromium", "chromium-browser", "google-chrome"}

func find() (string, bool) {
	for _, name := range executables {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}
