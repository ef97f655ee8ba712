package browsertest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// Page is one tab.
type Page struct {
	browser *Browser
	ctx     context.Context
	close   context.CancelFunc

	mu       sync.Mutex // guards what follows
	console  []Message
	requests []Request
}

// Message is one line of the page's console, an uncaught exception, or a message of the browser
// itself.
type Message struct {
	// Level is the name of the console function ("log", "warning", "error", …), "exception", or the
	// level of the browser's own message, for example about a file that could not be loaded or a
	// violation of the Content-Security-Policy.
	Level string
	// Text is the text of the line.
	Text string
}

// Request is one request of the page, including beacons. It has no body, because the browser does
// not report it for all requests; the test's server sees it.
type Request struct {
	Method string
	URL    string
}

// Open opens an address in a new tab and waits until the page has loaded.
func (b *Browser) Open(address string) *Page {
	b.t.Helper()
	p := b.NewPage()
	p.Goto(address)
	return p
}

// NewPage opens a new, empty tab, which becomes the visible one.
func (b *Browser) NewPage() *Page {
	b.t.Helper()

	id, err := b.program.newTab(b.profile)
	if err != nil {
		b.t.Fatalf("open a tab: %v", err)
	}

	p := &Page{browser: b}
	p.ctx, p.close = chromedp.NewContext(b.program.ctx, chromedp.WithTargetID(id))
	b.t.Cleanup(p.close)
	chromedp.ListenTarget(p.ctx, p.record)

	// The first Run binds the tab to the context's lifetime, so the context must outlive this call.
	if err := chromedp.Run(p.ctx, network.Enable(), log.Enable(), cdppage.BringToFront()); err != nil {
		b.t.Fatalf("open a tab: %v", err)
	}

	return p
}

// Frame waits for a frame of another site, whose address begins with a text, and returns it as a
// page. It has a process of its own, into which the page around it cannot look.
func (b *Browser) Frame(address string) *Page {
	b.t.Helper()

	ctx, cancel := b.program.command()
	defer cancel()
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		targets, err := target.GetTargets().Do(ctx)
		for _, info := range targets {
			if info.Type == "iframe" && info.BrowserContextID == b.profile.id && strings.HasPrefix(info.URL, address) {
				p := &Page{browser: b}
				p.ctx, p.close = chromedp.NewContext(b.program.ctx, chromedp.WithTargetID(info.TargetID))
				b.t.Cleanup(p.close)
				chromedp.ListenTarget(p.ctx, p.record)
				if err := chromedp.Run(p.ctx, network.Enable(), log.Enable()); err != nil {
					b.t.Fatalf("attach to the frame %s: %v", address, err)
				}
				return p
			}
		}

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			b.t.Fatalf("there is no frame %s within %v (%v)", address, Timeout, err)
		}
	}
}

// record stores the browser's events about the page.
func (p *Page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()

	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		var words []string
		for _, arg := range e.Args {
			words = append(words, text(arg))
		}

		p.console = append(p.console, Message{string(e.Type), strings.Join(words, " ")})
	case *runtime.EventExceptionThrown:
		p.console = append(p.console, Message{"exception", e.ExceptionDetails.Error()})
	case *log.EventEntryAdded:
		p.console = append(p.console, Message{string(e.Entry.Level), strings.TrimSpace(e.Entry.Text + " " + e.Entry.URL)})
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, Request{e.Request.Method, e.Request.URL})
	}
}

// text returns an argument of a console call as the console shows it.
func text(arg *runtime.RemoteObject) string {
	var s string
	if json.Unmarshal(arg.Value, &s) == nil {
		return s
	}
	if arg.Description != "" {
		return arg.Description
	}

	return string(arg.Value)
}

// Do runs actions of the driver in the tab, such as clicks, keys, and what this package lacks.
func (p *Page) Do(actions ...chromedp.Action) {
	p.browser.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, Timeout)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.browser.t.Fatalf("browser: %v", err)
	}
}

// Goto navigates the tab to an address and waits until the page has loaded.
func (p *Page) Goto(address string) {
	p.browser.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, Timeout)
	defer cancel()

	// A form that the page has sent just before can begin its own navigation later than this one,
	// and ends this one then. The server has read the form by that time, so the form does not need
	// its answer.
	err := chromedp.Run(ctx, chromedp.Navigate(address))
	for tries := 0; tries < 3 && err != nil && strings.Contains(err.Error(), "net::ERR_ABORTED"); tries++ {
		err = chromedp.Run(ctx, chromedp.Navigate(address))
	}
	if err != nil {
		p.browser.t.Fatalf("open %s: %v", address, err)
	}
}

// Before runs a script in every page that the tab opens from now on, before any script of the page.
// The returned function ends that, so that a test can use one tab for cases with different scripts:
// opening a tab takes more of the browser's time than loading a page.
func (p *Page) Before(script string) (remove func()) {
	p.browser.t.Helper()

	var id cdppage.ScriptIdentifier
	p.Do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		id, err = cdppage.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}))

	return func() {
		p.browser.t.Helper()
		p.Do(cdppage.RemoveScriptToEvaluateOnNewDocument(id))
	}
}

// Eval evaluates a JavaScript expression in the page, waits if it is a promise, and decodes its
// value from JSON into the given pointer. A nil pointer discards the value. An exception fails the
// test.
func (p *Page) Eval(expression string, value any) {
	p.browser.t.Helper()

	ctx, cancel := context.WithTimeout(p.ctx, Timeout)
	defer cancel()

	await := func(e *runtime.EvaluateParams) *runtime.EvaluateParams {
		return e.WithAwaitPromise(true).WithUserGesture(true)
	}

	if value == nil {
		// The value is discarded in the page, because JSON may be unable to encode it.
		expression = "(async () => { await (" + expression + ") })()"
	}

	if err := chromedp.Run(ctx, chromedp.Evaluate(expression, value, await)); err != nil {
		p.browser.t.Fatalf("evaluate %s: %v", expression, err)
	}
}

// Text evaluates a JavaScript expression whose value is a string, and returns the value.
func (p *Page) Text(expression string) string {
	p.browser.t.Helper()
	var value string
	p.Eval(expression, &value)
	return value
}

// WaitFor doubles its pause after each check, because a check takes a millisecond of processor
// time, and much more under the race detector.
const shortestPause, longestPause = 5 * time.Millisecond, 80 * time.Millisecond

// WaitFor waits until a JavaScript expression is true in the page, even if the tab navigates
// meanwhile.
//
// It polls from outside the page, because timers within a page are throttled in hidden tabs and end
// with the page. An error means not yet, because nothing can be evaluated during a navigation.
func (p *Page) WaitFor(expression string) {
	p.browser.t.Helper()

	ctx, cancel := context.WithTimeout(p.ctx, Timeout)
	defer cancel()

	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		var holds bool
		err := chromedp.Run(ctx, chromedp.Evaluate("!!("+expression+")", &holds))

		if holds {
			return
		}

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			p.browser.t.Fatalf("page: %s\nconsole: %v\nwait for %s: not within %v (%v)", p.shown(), p.Console(), expression, Timeout, err)
		}
	}
}

// shown returns the beginning of the page's text, the address, and the element with the focus, for
// an error. The text comes first, because reports of failures may show only the end of a message.
func (p *Page) shown() string {
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()

	var text string
	err := chromedp.Run(ctx, chromedp.Evaluate(`document.body.innerText.slice(0, 1500) + '\n' +
		location.href + ', focus on ' + document.activeElement?.outerHTML.slice(0, 200)`, &text))
	if err != nil {
		return err.Error()
	}
	return text
}

// Click clicks on the first element that a CSS selector finds, as soon as it is visible.
func (p *Page) Click(selector string) {
	p.browser.t.Helper()
	p.Do(chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// Front makes the tab the visible one of the browser's window. The previously visible tab becomes
// hidden.
func (p *Page) Front() {
	p.browser.t.Helper()
	p.Do(cdppage.BringToFront())
}

// Console returns the messages of the tab's pages since the tab was opened.
func (p *Page) Console() []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.console)
}

// Requests returns the requests of the tab's pages since the tab was opened, in order.
func (p *Page) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Close closes the tab as a visitor would, so the page gets its pagehide event.
func (p *Page) Close() {
	p.browser.t.Helper()
	// A closed tab may not respond any more, so an error means nothing.
	_ = chromedp.Run(p.ctx, cdppage.Close())
	p.close()
}
