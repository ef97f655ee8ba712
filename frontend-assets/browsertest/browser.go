// Package browsertest opens real web pages in Chromium for tests: it finds the browser, starts it
// so that nothing but the test's own servers can be reached, and offers what tests of pages need in
// a few words. Only tests import it.
//
//	browser := browsertest.New(t, browsertest.Host("shop.example.test", server.URL))
//	page := browser.Open("http://shop.example.test/")
//	page.WaitFor(`document.title === "Shop"`)
//
// Every method that cannot do its work fails the test. Nothing sleeps; waiting ends when the
// condition holds, or fails the test after a while.
package browsertest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// UserAgent is what the browser calls itself unless told otherwise: an ordinary Chrome on Linux.
// Chromium's own headless name would make every visit a robot's.
const UserAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"

// patience is how long a test waits for one thing. Conditions hold within milliseconds; a busy
// machine may need more.
const patience = 30 * time.Second

// Browser is a Chromium with an empty profile of its own. The profile ends with the test, and its
// tabs, cookies and caches with it. The program itself may have served a test before, and may serve
// another one afterwards, but never two at a time: which window has the focus and which tab is
// visible is this test's alone.
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

// Host makes a host name lead to a server of the test, whose URL is http://127.0.0.1:PORT or
// https://127.0.0.1:PORT: the name's default port of that scheme leads there. Other ports of the
// name lead to the same port on 127.0.0.1, so that the address http://name:PORT/ works as well. The
// name may begin with "*." for all subdomains. Certificates are not checked.
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

// WithUserAgent sets the name that the browser calls itself, in its requests and in
// navigator.userAgent.
func WithUserAgent(agent string) Option {
	return func(o *options) { o.agent = agent }
}

// WithFlag adds a command-line flag of Chromium, written without the two dashes.
func WithFlag(name string, value any) Option {
	return func(o *options) { o.flags = append(o.flags, flag{name, value}) }
}

// New starts Chromium, or takes one that was started with the same flags and has nothing to do.
// Host names that no Host option gives cannot be reached; 127.0.0.1 itself always can. Without a
// Chromium on the PATH the test is skipped, or failed when the environment says CI=true.
func New(t testing.TB, opts ...Option) *Browser {
	t.Helper()

	executable, ok := find()
	if !ok {
		missing(t, "no Chromium is installed: none of "+strings.Join(executables, ", ")+" is on the PATH")
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

// executables are the names under which Chromium is known, best first.
var executables = []string{"chromium", "chromium-browser", "google-chrome"}

func find() (string, bool) {
	for _, name := range executables {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// missing skips the test because a program it needs is not installed. In CI that is a failure.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI must run every test, but %s", what)
	}
	t.Skipf("skipped: %s", what)
}
