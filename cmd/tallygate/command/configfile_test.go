package command

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSitesFileKeepsTexts checks that texts with a meaning in YAML come back as they were written.
func TestSitesFileKeepsTexts(t *testing.T) {
	texts := []string{
		"", " ", " a", "a ", "a\nb", "\n", "a\n", "\ta", "a\tb", "a\rb", "- a", "-", "?", "a: b", "a #b", "#", "~", "null", "true",
		"yes", "No", "1", "0x1F", "1e3", "1_000", ".inf", "2026-11-20", "12:30:00", "'", `"`, `\`, `\n`, "{a}", "[a]", "*a", "&a",
		"!a", "%a", "@a", "`a", "|", ">", "a, b", "ä€😀", "\u2028", "\u0085", "\ufeffa", "\u00a0", "/shop/**", "<<", "---", "...", "=",
	}

	for _, text := range texts {
		want := sitesFile{Account: "a@example.com", Sites: []siteFile{{
			Domain: "example.com", SiteUpdate: sites.SiteUpdate{Name: &text, KeyEvents: &[]string{text, text}},
			Segments: &[]segmentFile{{
				Name:    text,
				Filters: []filterFile{{Dimension: "PAGE", Operator: "IS", Values: []string{text}, Property: text}},
			}},
			Annotations: &[]annotationFile{{Day: "2026-11-20", Text: text}},
		}}}

		var out bytes.Buffer
		testkit.NoError(t, writeSites(&out, &want))

		got, err := parseSites(out.Bytes())
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%q: %v, from\n%s", text, err, &out)
		}
	}
}
