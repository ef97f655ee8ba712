package browsertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// program is one Chromium process.
type program struct {
	key  string          // executable and flags
	ctx  context.Context // of the first tab, which stays empty and keeps the process alive
	stop func()
}

// programs holds the idle processes. Without Run they end when no test uses any, because no event
// marks the last test then.
var programs struct {
	sync.Mutex
	used int
	kept bool // until Run ends
	free []*program
}

// Run calls tests, which run a package's tests, keeps idle processes between them, and then ends
// the processes. Packages whose tests use the browser call it from TestMain. To start a process
// takes about a second of processor time.
func Run(tests func() int) int {
	programs.Lock()
	programs.kept = true
	programs.Unlock()

	code := tests()

	programs.Lock()
	programs.kept = false
	ending := programs.free
	programs.free = nil
	programs.Unlock()

	for _, each := range ending {
		each.stop()
	}

	return code
}

// acquire takes an idle process or starts one. The caller must release it.
func acquire(executable string, o options) (*program, error) {
	key := fmt.Sprint(executable, o.agent, o.flags)
	programs.Lock()
	programs.used++

	var p *program
	for i, each := range programs.free {
		if each.key == key {
			p = each
			programs.free = append(programs.free[:i], programs.free[i+1:]...)
			break
		}
	}

	programs.Unlock()

	if p == nil {
		var err error
		if p, err = start(executable, o); err != nil {
			release(nil, false)
			return nil, err
		}

		p.key = key
	}

	return p, nil
}

// release makes a process available to other tests, or ends it if it is not healthy.
func release(p *program, healthy bool) {
	var ending []*program
	programs.Lock()
	programs.used--

	if healthy {
		programs.free = append(programs.free, p)
	} else if p != nil {
		ending = append(ending, p)
	}

	if programs.used == 0 && !programs.kept {
		ending = append(ending, programs.free...)
		programs.free = nil
	}

	programs.Unlock()

	for _, each := range ending {
		each.stop()
	}
}

// Size of windows, in pixels.
const width, height = 1280, 800

// start starts Chromium.
func start(executable string, o options) (p *program, err error) {
	// Functions that undo the steps so far; stop calls them in reverse order.
	var ends []func()
	stop := func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i]()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()

	profile, err := os.MkdirTemp("", "browsertest-")
	if err != nil {
		return nil, err
	}

	// Helper processes may still write after the browser has ended, so a file that remains in the
	// temporary folder is not an error.
	ends = append(ends, func() { _ = os.RemoveAll(profile) })
	proxy, err := openProxy()
	if err != nil {
		return nil, err
	}

	ends = append(ends, proxy.close)
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), o.start(executable, profile, proxy)...)
	ends = append(ends, stopAllocator)
	ctx, closeBrowser := chromedp.NewContext(allocator, chromedp.WithErrorf(ignoreUnknownEvents))
	ends = append(ends, closeBrowser)

	if err := chromedp.Run(ctx); err != nil {
		return nil, err
	}

	return &program{ctx: ctx, stop: stop}, nil
}

// start returns the flags of the process.
func (o *options) start(executable, profile string, proxy *proxy) []chromedp.ExecAllocatorOption {
	all := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(executable),
		chromedp.UserDataDir(profile),
		chromedp.UserAgent(o.agent),
		chromedp.Headless,
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.NoSandbox, // not available to root, as in most containers; only the test's own pages are opened
		chromedp.IgnoreCertErrors,
		chromedp.WindowSize(width, height),
		// Chromium connects to its vendor's servers by itself. This proxy reaches no host. Each
		// profile has its own proxy, which reaches the hosts of its test.
		chromedp.Flag("proxy-server", "socks5://"+proxy.address()),
		chromedp.Flag("proxy-bypass-list", "<-loopback>"), // includes names of this machine
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-default-apps", true),
		chromedp.Flag("disable-extensions", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-gpu", true),
		// The popups of the address bar are pages that every window loads. They took half of the
		// tests' processor time. A spare renderer is a process for a page that a test may never
		// open.
		chromedp.Flag("disable-features", "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup,SpareRendererForSitePerProcess"),
		chromedp.Flag("disable-popup-blocking", true),
		chromedp.Flag("metrics-recording-only", true),
		chromedp.Flag("password-store", "basic"),
		chromedp.WSURLReadTimeout(Timeout),
	}
	for _, each := range o.flags {
		all = append(all, chromedp.Flag(each.name, each.value))
	}

	return all
}

// profile is an empty profile, as of a private window, with a proxy of its own, so that late
// requests of a test's pages do not reach the next test.
type profile struct {
	id    cdp.BrowserContextID
	proxy *proxy
}

// newProfile creates a profile that can reach these hosts.
func (p *program) newProfile(h hosts) (made profile, err error) {
	if made.proxy, err = openProxy(); err != nil {
		return made, err
	}

	made.proxy.hosts.Store(&h)
	ctx, cancel := p.command()
	defer cancel()

	made.id, err = target.CreateBrowserContext().WithProxyServer("socks5://" + made.proxy.address()).WithProxyBypassList("<-loopback>").Do(ctx)
	if err != nil {
		made.proxy.close()
	}

	return made, err
}

// newTab opens a tab in the profile's window, or in a new window if it has none.
func (p *program) newTab(of profile) (target.ID, error) {
	ctx, cancel := p.command()
	defer cancel()
	tab := target.CreateTarget("about:blank").WithBrowserContextID(of.id)
	if id, err := tab.Do(ctx); err == nil {
		return id, nil
	}
	return tab.WithNewWindow(true).WithWidth(width).WithHeight(height).Do(ctx)
}

// endProfile closes a profile's tabs and deletes its storage.
func (p *program) endProfile(ended profile) error {
	defer ended.proxy.close()
	ctx, cancel := p.command()
	defer cancel()
	return target.DisposeBrowserContext(ended.id).Do(ctx)
}

// command returns a context for commands to the process itself.
func (p *program) command() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(p.ctx, Timeout)
	return cdp.WithExecutor(ctx, chromedp.FromContext(p.ctx).Browser), cancel
}

// ignoreUnknownEvents logs the driver's errors, except those about protocol events that are newer
// than the driver, which are frequent and harmless.
func ignoreUnknownEvents(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !strings.Contains(line, "unmarshal event") && !strings.Contains(line, "unhandled node event") {
		fmt.Fprintf(os.Stderr, "browser: %s\n", line)
	}
}
