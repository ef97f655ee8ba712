package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// heard waits until the live region of the report has said a text.
func (p *tab) heard(text string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf("document.querySelector('p.sr[role=status]')?.textContent.startsWith(%q)", text))
}

// openDemoSite opens the page of the demo's site.
func (s *service) openDemoSite() *tab {
	s.TB.Helper()
	p := s.openSignedIn("/")
	p.press("Demo shop")
	p.WaitFor("document.querySelector('.ranks a')")
	return p
}

// TestReportIsHeardChromium uses a report by the keyboard, as a reader who hears it does: its
// changes are said, the focus follows filters, and figures are read with their columns.
func TestReportIsHeardChromium(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	p := s.openDemoSite()

	headings := p.Text("[...document.querySelectorAll('main h1, main h2, main h3')].map(h => h.tagName + ' ' + h.textContent).join()")
	for _, want := range []string{"H1 Demo shop", "H2 Visitors over time", "H2 Sources", "H2 Pages", "H2 Audience", "H2 Events"} {
		if !strings.Contains(headings, want) {
			t.Errorf("headings %s lack %s", headings, want)
		}
	}
	columns := p.Text("[...document.querySelectorAll('section[aria-label=Sources] [role=columnheader]')].map(h => h.textContent).join()")
	testkit.Equal(t, columns, "Channels,Visitors,%", "columns")

	row := func(value string) string {
		return fmt.Sprintf("[...document.querySelectorAll('.ranks a')].find(a => a.textContent === %q)", value)
	}
	focus := func(element string) {
		p.WaitFor(element)
		p.Do(browsertest.Press(kb.Tab)) // the keyboard is in use
		p.Eval(element+".focus()", nil)
	}
	chip := "document.activeElement.getAttribute('aria-label')"

	focus(row("email"))
	p.Do(browsertest.Press(kb.Enter))
	p.heard("Channel is email: ")
	p.WaitFor(`/^Channel is email: [0-9,]+ visitors$/.test(document.querySelector('p.sr[role=status]').textContent)`)
	p.WaitFor(chip + " === 'Remove the filter Channel is email'")
	focus(row("/shop"))
	p.Do(browsertest.Press(kb.Enter))
	p.heard("Channel is email, Page is /shop: ")
	p.WaitFor(chip + " === 'Remove the filter Page is /shop'")
	p.Do(browsertest.Press("w"))
	p.heard("Last 7 days: ")
	p.Do(browsertest.Press("x"))
	p.heard("Previous period: ")
	p.WaitFor("document.querySelector('p.sr[role=status]').textContent.includes(', from ')")

	// From a removed filter, the focus goes to the next one, and then to the button.
	focus(button("Remove the filter Channel is email"))
	p.Do(browsertest.Press(kb.Enter))
	p.heard("Page is /shop: ")
	p.WaitFor(chip + " === 'Remove the filter Page is /shop'")
	p.Do(browsertest.Press(kb.Enter))
	p.heard("No filter: ")
	p.WaitFor("document.activeElement.textContent === 'Filter'")

	p.Goto(s.Origin + p.Text("location.pathname") + "?f=channel:is:email")
	p.WaitFor(button("Remove the filter Channel is email"))
	p.Do(browsertest.Press(kb.Escape))
	p.heard("No filter: ")
	p.WaitFor("location.search === '?period=7d&compare=previous'")
	p.clean(s)
}

// TestFilterDialogChromium checks that the dialog of filters offers what exists, refuses an empty
// value, and closes when the user goes back.
func TestFilterDialogChromium(t *testing.T) {
	t.Parallel()
	s := startDemo(t)
	p := s.openDemoSite()
	page := p.Text("location.href")

	p.press("Filter")
	p.see("Frequent values")
	p.press("Add the filter")
	p.see("Enter a value, or choose")
	p.Eval("history.back()", nil)
	p.WaitFor("!document.querySelector('dialog[open]')")
	p.WaitFor(fmt.Sprintf("location.href === %q", page))

	p.press("Filter")
	p.fill("Filter by", "PROPERTY")
	p.WaitFor("[..." + labelled("Event") + ".options].some(o => o.value === 'purchase')")
	p.WaitFor("[..." + labelled("Property") + ".options].some(o => o.value === 'item_id')")
	p.look("figures-filter-property")
	p.press("Close")
	p.WaitFor("!document.querySelector('dialog[open]') && history.state === null")

	// No value is a choice of its own.
	p.press("Filter")
	p.fill("Filter by", "CHANNEL")
	p.choose("document.querySelectorAll('dialog select')[1]", "IS_NOT_NONE")
	p.press("Add the filter")
	p.see("Channel is not (none)")
	p.Eval("history.back()", nil)
	p.WaitFor(fmt.Sprintf("location.href === %q && !document.querySelector('.chips')", page))

	// The dialog of dates and the whole table are closed in the same way.
	// "Back" also closes a dialog that opens at that time, on a busy machine too.
	p.Eval(`new MutationObserver((_, observer) => {
		if (!document.querySelector('dialog[open]')) return;
		observer.disconnect();
		window.wentBack = true;
		history.back();
	}).observe(document, { subtree: true, childList: true, attributes: true })`, nil)
	p.Do(browsertest.Press("c"))
	p.WaitFor(fmt.Sprintf("window.wentBack && location.href === %q && !document.querySelector('dialog')", page))
	p.click("document.querySelector('section[aria-label=Sources] .all')")
	p.WaitFor("document.querySelector('dialog[open] tbody tr')")
	p.Eval("history.back()", nil)
	p.WaitFor(fmt.Sprintf("location.href === %q && !document.querySelector('dialog')", page))
	p.clean(s)
}
