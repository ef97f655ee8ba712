// Package browsertest opens real web pages in Chromium for tests: it finds the browser, starts it so that nothing but the
// test's own servers can be reached, and offers what tests of pages need in a few words. Only tests import it.
//
//	browser := browsertest.New(t, browsertest.Host("shop.example.test", server.URL))
//	page := browser.Open("http://shop.example.test/")
//	page.WaitFor(`document.title === "Shop"`)
//
// Every method that cannot do its work fails the test. Nothing sleeps; waiting ends when the condition holds, or fails the
// test after a while.
package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// UserAgent is what the browser calls itself unless told otherwise: an ordinary Chrome on Linux. Chromium's own headless name
// would make every visit a robot's.
const UserAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"

// patience is how long a test waits for one thing. Conditions hold within milliseconds; a busy machine may need more.
const patience = 30 * time.Second

// Browser is one running Chromium with an empty profile of its own. It ends with the test.
type Browser struct {
	t   testing.TB
	ctx context.Context // of the browser's first tab, which stays empty; it keeps the browser alive
}

// Option changes how New starts the browser.
type Option func(*options)

type options struct {
	rules []string
	flags []chromedp.ExecAllocatorOption
	agent string
}

// Host makes a host name lead to a server of the test, whose URL is http://127.0.0.1:PORT or https://127.0.0.1:PORT: the name's
// default port of that scheme leads there. Other ports of the name lead to the same port on 127.0.0.1, so that the address
// http://name:PORT/ works as well. The name may begin with "*." for all subdomains. Certificates are not checked.
func Host(name, serverURL string) Option {
	return func(o *options) {
		u, err := url.Parse(serverURL)
		if err != nil || u.Port() == "" {
			panic(fmt.Sprintf("browsertest: %q is not a server's URL with a port", serverURL))
		}
		port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		// The first rule that fits is taken, so the one for any port comes last.
		o.rules = append([]string{"MAP " + name + ":" + port + " " + u.Host}, append(o.rules, "MAP "+name+" 127.0.0.1")...)
	}
}

// WithUserAgent sets the name that the browser calls itself, in its requests and in navigator.userAgent.
func WithUserAgent(agent string) Option {
	return func(o *options) { o.agent = agent }
}

// WithFlag adds a command-line flag of Chromium, written without the two dashes.
func WithFlag(name string, value any) Option {
	return func(o *options) { o.flags = append(o.flags, chromedp.Flag(name, value)) }
}

// New starts Chromium. Host names that no Host option gives cannot be resolved; 127.0.0.1 itself is always reachable. Without
// a Chromium on the PATH the test is skipped, or failed when the environment says CI=true.
func New(t testing.TB, opts ...Option) *Browser {
	t.Helper()
	program, ok := find()
	if !ok {
		missing(t, "no Chromium is installed: none of "+strings.Join(programs, ", ")+" is on the PATH")
	}
	o := options{agent: UserAgent}
	for _, opt := range opts {
		opt(&o)
	}
	profile, err := os.MkdirTemp("", "browsertest-")
	if err != nil {
		t.Fatal(err)
	}
	// Registered first, so that it runs when the browser has ended. Its helper processes may still write for a moment, hence
	// no complaint when a file is left over in the temporary folder.
	t.Cleanup(func() { _ = os.RemoveAll(profile) })

	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(o.start(program, profile), o.flags...)...)
	t.Cleanup(stop)
	ctx, closeBrowser := chromedp.NewContext(allocator, chromedp.WithErrorf(ignoreUnknownEvents(t)))
	t.Cleanup(closeBrowser)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{t: t, ctx: ctx}
}

// start lists the flags of every test.
func (o *options) start(program, profile string) []chromedp.ExecAllocatorOption {
	// Chromium calls its makers' servers on its own. Here their names do not resolve, and neither does any other.
	rules := strings.Join(append(o.rules, "EXCLUDE 127.0.0.1", "MAP * ~NOTFOUND"), ", ")
	return []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program),
		chromedp.UserDataDir(profile),
		chromedp.UserAgent(o.agent),
		chromedp.Headless,
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.NoSandbox, // root, as in most containers, cannot have one; only the test's own pages are opened
		chromedp.IgnoreCertErrors,
		chromedp.WindowSize(1280, 800),
		chromedp.Flag("host-resolver-rules", rules),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-default-apps", true),
		chromedp.Flag("disable-extensions", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-popup-blocking", true),
		chromedp.Flag("metrics-recording-only", true),
		chromedp.Flag("password-store", "basic"),
		chromedp.WSURLReadTimeout(patience),
	}
}

// programs are the names under which Chromium is known, best first.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

func find() (string, bool) {
	for _, name := range programs {
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

// ignoreUnknownEvents passes the driver's complaints on to the test's log, except those about protocol events that are younger
// than the driver; they come in numbers and mean nothing.
func ignoreUnknownEvents(t testing.TB) func(string, ...any) {
	return func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if !strings.Contains(line, "unmarshal event") && !strings.Contains(line, "unhandled node event") {
			fmt.Fprintf(os.Stderr, "%s: browser: %s\n", t.Name(), line)
		}
	}
}
