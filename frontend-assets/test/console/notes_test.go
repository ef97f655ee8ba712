package console_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
)

// notes reads a site's notes as "day text" lines.
func (s *service) notes(id string) (all []string) {
	s.TB.Helper()
	var data struct {
		Site struct {
			Annotations struct{ Nodes []struct{ Day, Text string } }
		}
	}
	s.Do(`query ($id: ID!) { site(id: $id) { annotations(first: 10) { nodes { day text } } } }`, map[string]any{"id": id}, &data)
	for _, note := range data.Site.Annotations.Nodes {
		all = append(all, note.Day+" "+note.Text)
	}
	return all
}

// TestChartNotesChromium adds a note at a point of the chart, changes and deletes it, with the
// mouse and with keys. A reader of a shared link has no button for it.
func TestChartNotesChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	k := keyboard{s.openSignedIn("/sites/" + id + "?period=7d")}
	k.WaitFor("document.querySelector('.plot')?.ariaValueMax === '7'")
	day := time.Now().UTC().AddDate(0, 0, -5).Format(dayFormat) // the third of the seven days before today
	has := func(want ...string) {
		t.Helper()
		if got := s.notes(id); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("notes: %q, want %q", got, want)
		}
	}

	// A click pins the point. A text of blanks is refused, and nothing is stored.
	k.pointAt(2, 7, "0")
	x, y := k.placeOf(2, 7)
	k.Do(chromedp.MouseClickXY(x, y))
	k.press("Add a note here")
	k.WaitFor(fmt.Sprintf("%s?.value === %q", labelled("Day"), day))
	k.fill("Note", "   ")
	k.press("Save")
	k.WaitFor("document.querySelector('dialog [aria-invalid=true]')")
	has()
	k.fill("Note", "Campaign began")
	k.look("chart-note")
	k.press("Save")
	k.WaitFor("!document.querySelector('dialog') && document.querySelectorAll('.flag').length === 1")
	k.WaitFor("document.querySelector('.tip.pinned')?.innerText.includes('Campaign began')")
	has(day + " Campaign began")
	k.look("chart-pinned")

	// Enter on a day without notes opens the form of one. Letters go there, and no shortcut takes
	// them.
	k.click("document.querySelector('h1')")
	k.reach("document.querySelector('.plot')")
	k.keys(kb.Home + kb.Enter)
	k.WaitFor("document.activeElement === " + labelled("Note"))
	k.keys("mails today")
	k.WaitFor(labelled("Note") + ".value === 'mails today' && location.search === '?period=7d'")
	k.keys(kb.Escape)
	k.WaitFor("!document.querySelector('dialog, .tip.pinned') && document.activeElement.matches('.plot')")

	// A flag shows its note for the pointer next to its pole, too.
	k.click("document.querySelector('h1')")
	k.WaitFor("!document.querySelector('.tip')")
	x, y = k.placeOf(2, 7)
	k.Do(chromedp.MouseEvent(input.MouseMoved, x+9, y-112))
	k.WaitFor("document.querySelector('.tip')?.innerText.includes('Campaign began') && document.querySelector('.flag.on')")
	k.Do(chromedp.MouseEvent(input.MouseMoved, 1, 1))
	k.WaitFor("!document.querySelector('.tip')")

	// Keys: the focus shows the note, Enter leads before its buttons, and Escape back to the chart.
	k.reach("document.querySelector('.plot')")
	k.keys(kb.Home + kb.ArrowRight + kb.ArrowRight)
	k.WaitFor("document.querySelector('.plot').ariaValueText.endsWith('. Campaign began')")
	k.WaitFor("document.querySelector('.tip').innerText.includes('Campaign began')")
	k.keys(kb.Enter)
	k.WaitFor("document.activeElement.matches('.tip.pinned') && " + visibleFocus)
	k.use("Change Campaign began")
	k.WaitFor("document.activeElement === " + labelled("Note"))
	k.keys(kb.End + " today" + kb.Enter)
	k.WaitFor("!document.querySelector('dialog') && document.querySelector('.tip.pinned')?.innerText.includes('Campaign began today')")
	has(day + " Campaign began today")
	k.reach(button("Delete Campaign began today"))
	k.keys(kb.Escape)
	k.WaitFor("!document.querySelector('.tip') && document.activeElement === document.querySelector('.plot')")
	k.keys(kb.Home + kb.ArrowRight + kb.ArrowRight + kb.Enter)
	k.WaitFor("document.activeElement.matches('.tip.pinned')")
	k.use("Delete Campaign began today")
	k.WaitFor("!document.querySelector('.flag')")
	has()

	reader := &tab{browsertest.New(t).NewPage(), t}
	reader.Goto(s.Origin + "/share#" + s.createLink(id, "For the bank", ""))
	reader.WaitFor("document.querySelector('.plot svg')?.clientWidth > 300")
	reader.Eval("document.querySelector('.plot').focus()", nil)
	reader.Do(browsertest.Press(kb.Home))
	reader.WaitFor("document.querySelector('.tip dd')")
	reader.Do(browsertest.Press(kb.Enter))
	reader.WaitFor("document.querySelector('.tip.pinned') && !document.querySelector('.tip button, .tip .hint')")

	// A pinned point belongs to its period.
	reader.Do(browsertest.Press("w"))
	reader.WaitFor("location.search.includes('period=7d') && document.querySelector('.plot svg') && !document.querySelector('.tip')")
	k.clean(s)
}

// TestNoteOfLateModuleChromium presses Enter before the module with the form is loaded: the form
// opens by itself, and letters in between are no shortcuts.
func TestNoteOfLateModuleChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	k := keyboard{s.openSignedIn("/")}
	slow := []*network.Conditions{{URLPattern: "*://*:*/console/timeline*", Latency: 3_000, DownloadThroughput: -1, UploadThroughput: -1}}
	k.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := network.EmulateNetworkConditionsByRule(slow).Do(ctx)
		return err
	}))
	k.Goto(s.Origin + "/sites/" + id + "?period=7d")
	k.WaitFor("document.querySelector('.plot')?.ariaValueMax === '7'")
	k.Eval("document.querySelector('.plot').focus()", nil)
	k.keys(kb.Home + kb.Enter + "gm")
	k.WaitFor("document.activeElement === " + labelled("Note"))
	k.WaitFor("location.search === '?period=7d'")
	k.keys("late")
	k.WaitFor(labelled("Note") + ".value.endsWith('late')") // after the letters, if the module was early
	k.clean(s)
}
