package test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateGolden = flag.Bool("update", false, "write the golden files of the doctor's findings")

// golden has the texts of a test's cases, in a file of testdata.
type golden map[string]string

// openGolden reads the file of a test. With -update it is written when the test ends.
func openGolden(t *testing.T) golden {
	t.Helper()
	path := filepath.Join("testdata", "doctor", t.Name()+".txt")
	text, err := os.ReadFile(path)
	if err != nil && !*updateGolden {
		t.Fatal(err)
	}

	g := make(golden)
	for _, part := range strings.Split(string(text), "# ")[1:] {
		name, printed, _ := strings.Cut(part, "\n")
		g[name] = printed
	}

	t.Cleanup(func() {
		if *updateGolden {
			g.write(t, path)
		}
	})
	return g
}

func (g golden) write(t *testing.T, path string) {
	t.Helper()
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(g)) {
		all.WriteString("# " + name + "\n" + g[name])
	}
	if err := os.WriteFile(path, []byte(all.String()), 0o600); err != nil {
		t.Error(err)
	}
}

// compare compares the text of a case.
func (g golden) compare(t *testing.T, name, printed string) {
	t.Helper()
	if *updateGolden {
		g[name] = printed
	} else if printed != g[name] {
		t.Errorf("printed:\n%s\nwant:\n%s", printed, g[name])
	}
}

// differing are the parts of findings that differ between runs and machines.
var differing = []struct {
	is      *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(/tmp|` + regexp.QuoteMeta(os.TempDir()) + `)/\S*/`), "DIR/"},
	{regexp.MustCompile(`(localhost|127\.0\.0\.1|\[::1\]):\d{2,}`), "$1:PORT"},
	{regexp.MustCompile(`127\.0\.\d+\.\d+`), "127.0.0.1"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?`), "DATE"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`), "DURATION"},
	{regexp.MustCompile(`\bcopy\d+`), "DATABASE"},
	{regexp.MustCompile(`\b\d+ (of \d+ )?MB`), "N MB"},
}

// lasting returns a text without the parts that differ between runs.
func lasting(text string) string {
	for _, d := range differing {
		text = d.is.ReplaceAllString(text, d.instead)
	}
	return text
}
