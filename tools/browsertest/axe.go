package browsertest

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"
)

//go:embed axe/axe-core-4.10.2.min.js.gz
var axePacked []byte

// axe returns the source of axe-core, which finds accessibility faults.
var axe = sync.OnceValues(func() (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(axePacked))
	if err != nil {
		return "", err
	}
	source, err := io.ReadAll(r)
	return string(source), err
})

// Barriers returns the accessibility faults of any impact that axe-core finds within the elements
// of a CSS selector, one line each, such as "serious color-contrast: #send".
func (p *Page) Barriers(selector string) []string {
	p.browser.t.Helper()
	return p.barriers(selector, `{preload: false, resultTypes: ['violations']}`)
}

// ColorBarriers is Barriers for the rules about colors only, for a page whose theme has changed
// since all rules were checked. It takes a fraction of their time. A tag would include the rules
// that are off by default.
func (p *Page) ColorBarriers(selector string) []string {
	p.browser.t.Helper()
	return p.barriers(selector, `{preload: false, resultTypes: ['violations'], runOnly: {type: 'rule', values: ['color-contrast', 'link-in-text-block']}}`)
}

// barriers runs axe-core with options.
func (p *Page) barriers(selector, options string) []string {
	p.browser.t.Helper()

	source, err := axe()
	if err != nil {
		p.browser.t.Fatalf("unpack axe-core: %v", err)
	}

	// A document keeps the script, which has half a megabyte.
	var present bool
	p.Eval("typeof axe === 'object' && !!axe.run", &present)
	if !present {
		p.Eval("(() => {"+source+"})()", nil)
	}

	var result struct {
		Passes     []struct{}
		Violations []struct {
			ID, Impact string
			Nodes      []struct{ Target []any }
		}
	}

	p.Eval(fmt.Sprintf(`axe.run(%q, %s).then(({passes, violations}) => ({passes: passes.map(() => ({})),
		violations: violations.map(({id, impact, nodes}) => ({id, impact, nodes: nodes.map(({target}) => ({target}))}))}))`,
		selector, options), &result)

	if len(result.Passes) == 0 {
		p.browser.t.Fatalf("axe-core found nothing to check in %s", selector)
	}

	var lines []string
	for _, v := range result.Violations {
		var where []string
		for _, node := range v.Nodes {
			where = append(where, fmt.Sprint(node.Target...))
		}

		lines = append(lines, fmt.Sprintf("%s %s: %s", v.Impact, v.ID, strings.Join(where, ", ")))
	}

	return lines
}
