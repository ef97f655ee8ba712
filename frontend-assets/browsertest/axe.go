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

// Barriers returns the accessibility faults of any impact that axe-core finds within the elements of
// a CSS selector, one line each, such as "serious color-contrast: #send".
func (p *Page) Barriers(selector string) []string {
	p.browser.t.Helper()

	source, err := axe()
	if err != nil {
		p.browser.t.Fatalf("unpack axe-core: %v", err)
	}

	p.Eval("(() => {"+source+"})()", nil)
	var result struct {
		Passes     []struct{}
		Violations []struct {
			ID, Impact string
			Nodes      []struct{ Target []any }
		}
	}

	p.Eval(fmt.Sprintf(`axe.run(%q, {preload: false})`, selector), &result)

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
