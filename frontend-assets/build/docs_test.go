package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// documentedSizes are sentences and table rows with sizes of a file. Each group is a size: the file
// itself, then its compressed forms.
var documentedSizes = []struct {
	document, file string
	forms          []string // extensions, one per group
	text           *regexp.Regexp
}{
	{"browser-script.md", "svc.js", []string{"", ".gz", ".br"}, regexp.MustCompile("\\| `svc\\.js` \\| ([0-9,]+) \\| ([0-9,]+) \\| ([0-9,]+) \\|")},
	{"packages.md", "captcha.js", []string{"", ".gz"}, regexp.MustCompile("`captcha\\.js` has ([0-9,]+) bytes \\(([0-9,]+) gzip\\)")},
	{"captcha.md", "captcha.js", []string{".gz", ".br"}, regexp.MustCompile("\\| `captcha\\.js`[^|]* \\| ([0-9.]+) \\| ([0-9.]+) \\|")},
	{"captcha.md", "captcha-worker.js", []string{".gz", ".br"}, regexp.MustCompile("\\| `captcha-worker\\.js` \\| ([0-9.]+) \\| ([0-9.]+) \\|")},
}

// TestDocumentedSizes compares the sizes of the scripts in documents with the built files. Sizes
// with a decimal point are in KB of 1,000 bytes.
func TestDocumentedSizes(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	for _, d := range documentedSizes {
		text, err := os.ReadFile(filepath.Join(root, "../docs/owner", d.document))
		testkit.NoError(t, err)
		found := d.text.FindAllStringSubmatch(string(text), -1)
		if len(found) != 1 {
			t.Errorf("%s: %d passages with sizes of %s, want 1", d.document, len(found), d.file)
			continue
		}

		for i, form := range d.forms {
			info, err := os.Stat(filepath.Join(root, "dist", d.file+form))
			testkit.NoError(t, err)
			got, want := strings.ReplaceAll(found[0][i+1], ",", ""), strconv.FormatInt(info.Size(), 10)
			if strings.Contains(got, ".") {
				want = fmt.Sprintf("%.1f", float64(info.Size())/1000)
			}
			testkit.Equal(t, got, want, "%s: %s%s", d.document, d.file, form)
		}
	}
}
