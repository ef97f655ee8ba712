package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// why is the JavaScript expression for the line of causes, which opens their table.
const why = "document.querySelector('.chart details summary')"

// TestWhyChromium reads why the visits differ from the period compared with: the line below the
// chart names the first cause of the API, its table adds up to the difference, and both fit a phone.
func TestWhyChromium(t *testing.T) {
	t.Parallel()

	s := startDemo(t)
	id := s.demoSite()
	var data struct {
		Site struct {
			Report struct {
				Changes struct {
					Whole struct{ Before, After, Difference string }
					Chain []struct{ Names []struct{ Value string } }
				}
			}
		}
	}
	s.Do(`query ($id: ID!) { site(id: $id) { report(period: {preset: LAST_28_DAYS}, compare: {kind: PREVIOUS_PERIOD}) {
  changes(metric: VISITS) { whole { before after difference } chain { names { value } } } } } }`, map[string]any{"id": id}, &data)
	changes := data.Site.Report.Changes

	// Without a comparison there is no line.
	p := s.openSignedIn("/sites/" + id + "?period=28d&metric=visits")
	p.WaitFor("document.querySelector('.plot svg')?.clientWidth > 300")
	p.WaitFor("!document.querySelector('.chart details')")

	p.Goto(s.Origin + "/sites/" + id + "?period=28d&compare=previous&metric=visits")
	p.WaitFor("!!" + why)
	line := p.Text(why + ".textContent")
	t.Log(line)
	if !strings.HasPrefix(line, "Visits ") {
		t.Errorf("the line is %q", line)
	}

	// The values of each dimension and the rest add up to the difference.
	p.click(why)
	const number = `(row, i) => Number(row.cells[i].textContent.replace(/[,+]/g, '').replace('−', '-').split(' ·')[0])`
	sums := fmt.Sprintf(`(() => { const sums = []; const of = %s;
	for (const row of document.querySelectorAll('.chart details tbody tr')) {
		if (row.cells.length === 1) sums.push([0, 0, 0]);
		else [1, 2, 3].forEach(i => sums.at(-1)[i - 1] += of(row, i));
	}
	return sums.length > 3 && sums.every(sum => sum.join() === %q) || JSON.stringify(sums) })()`, number,
		strings.Join([]string{changes.Whole.Before, changes.Whole.After, changes.Whole.Difference}, ","))
	p.WaitFor(sums + " === true")
	p.look("why")

	// On a phone nothing is wider than the window.
	p.Do(emulation.SetDeviceMetricsOverride(375, 800, 1, true))
	p.WaitFor("innerWidth === 375 && document.documentElement.scrollWidth <= 375")
	p.WaitFor("document.querySelector('.chart details').scrollWidth <= document.querySelector('.chart details').clientWidth")
	p.Do(emulation.ClearDeviceMetricsOverride())

	p.Eval("localStorage.setItem('tallygate.language', 'de')", nil)
	p.Goto(s.Origin + "/sites/" + id + "?period=28d&compare=previous&metric=visits")
	p.WaitFor(why + "?.textContent.startsWith('Besuche ')")
	t.Log(p.Text(why + ".textContent"))
	p.click(why)
	p.look("why-de")
	p.clean(s)
}
