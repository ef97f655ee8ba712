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

// program is one running Chromium.
type program struct {
	key  string          // programs with the same key are alike
	ctx  context.Context // of the program's first tab, which stays empty; it keeps the program alive
	stop func()
}

// programs that have nothing to do wait here for the next test. When no test has one any more, they
// are ended: nothing says whether another test will come.
var programs struct {
	sync.Mutex
	used int
	free []*program
}

// acquire takes a free program or starts one. The caller must release it.
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

// release gives a program back; one that is not sound is ended.
func release(p *program, sound bool) {
	var ending []*program
	programs.Lock()
	programs.used--

	if sound {
		programs.free = append(programs.free, p)
	} else if p != nil {
		ending = append(ending, p)
	}

	if programs.used == 0 {
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
	// the last one first
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

	// When the browser has ended, its helper processes may still write for a moment, hence no
	// complaint when a file is left over in the temporary folder.
	ends = append(ends, func() { _ = os.RemoveAll(profile) })
	gate, err := openGate()
	if err != nil {
		return nil, err
	}

	ends = append(ends, gate.close)
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), o.start(executable, profile, gate)...)
	ends = append(ends, stopAllocator)
	ctx, closeBrowser := chromedp.NewContext(allocator, chromedp.WithErrorf(ignoreUnknownEvents))
	ends = append(ends, closeBrowser)

	if err := chromedp.Run(ctx); err != nil {
		return nil, err
	}

	return &program{ctx: ctx, stop: stop}, nil
}

// start lists the flags of every test.
func (o *options) start(executable, profile string, gate *gate) []chromedp.ExecAllocatorOption {
	all := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(executable),
		chromedp.UserDataDir(profile),
		chromedp.UserAgent(o.agent),
		chromedp.Headless,
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.NoSandbox, // root, as in most containers, cannot have one; only the test's own pages are opened
		chromedp.IgnoreCertErrors,
		chromedp.WindowSize(width, height),
		// Chromium calls its makers' servers on its own. Through this gate there is no way to them,
		// nor to anybody else's; each profile has its own, which leads to its test's hosts.
		chromedp.Flag("proxy-server", "socks5://"+gate.address()),
		chromedp.Flag("proxy-bypass-list", "<-loopback>"), // not even names of this machine go past it
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
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
	for _, each := range o.flags {
		all = append(all, chromedp.Flag(each.name, each.value))
	}

	return all
}

// profile is an empty profile, as a private window has, with a gate of its own: what a page still
// sends when its test is over does not reach the next one.
type profile struct {
	id   cdp.BrowserContextID
	gate *gate
}

// newProfile makes a profile that can reach these hosts.
func (p *program) newProfile(h hosts) (made profile, err error) {
	if made.gate, err = openGate(); err != nil {
		return made, err
	}

	made.gate.hosts.Store(&h)
	ctx, cancel := p.command()
	defer cancel()

	made.id, err = target.CreateBrowserContext().WithProxyServer("socks5://" + made.gate.address()).WithProxyBypassList("<-loopback>").Do(ctx)
	if err != nil {
		made.gate.close()
	}

	return made, err
}

// newTab opens a tab in the profile's window, or in a new one where it has none.
func (p *program) newTab(of profile) (target.ID, error) {
	ctx, cancel := p.command()
	defer cancel()
	tab := target.CreateTarget("about:blank").WithBrowserContextID(of.id)
	if id, err := tab.Do(ctx); err == nil {
		return id, nil
	}
	return tab.WithNewWindow(true).WithWidth(width).WithHeight(height).Do(ctx)
}

// endProfile closes a profile's tabs and forgets what it has stored.
func (p *program) endProfile(ended profile) error {
	defer ended.gate.close()
	ctx, cancel := p.command()
	defer cancel()
	return target.DisposeBrowserContext(ended.id).Do(ctx)
}

// command is a context for commands to the program itself.
func (p *program) command() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	return cdp.WithExecutor(ctx, chromedp.FromContext(p.ctx).Browser), cancel
}

// ignoreUnknownEvents passes the driver's complaints on, except those about protocol events that
// are younger than the driver; they come in numbers and mean nothing.
func ignoreUnknownEvents(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !strings.Contains(line, "unmarshal event") && !strings.Contains(line, "unhandled node event") {
		fmt.Fprintf(os.Stderr, "browser: %s\n", line)
	}
}
