package repository

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/tallygate/tallygate/tools/testkit"
)

var (
	fencedCode   = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.+)$`)
)

// TestDocsLinks checks that every relative link in a Markdown file leads to a file of the
// repository and, if it has a fragment, to one of that file's headings.
func TestDocsLinks(t *testing.T) {
	root := moduleRoot(t)
	documents := markdownFiles(t, root)
	if len(documents) < 20 {
		t.Fatalf("found only %d documents", len(documents))
	}

	for name, text := range documents {
		for _, match := range markdownLink.FindAllStringSubmatch(withoutCode(text), -1) {
			testkit.Equal(t, brokenLink(root, name, match[1], documents), "", "%s links to %s", name, match[1])
		}
	}
}

// brokenLink returns what is wrong with a link in the document name, or "".
func brokenLink(root, name, link string, documents map[string]string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}

	target, fragment, hasFragment := strings.Cut(link, "#")
	if target == "" {
		target = filepath.Base(name)
	}

	path := filepath.Join(filepath.Dir(name), target)
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		return "there is no such file"
	}

	if hasFragment && !slices.Contains(anchors(documents[path]), fragment) {
		return "the file has no such heading"
	}

	return ""
}

// anchors returns the fragments of a document's headings, as code hosts derive them: lower case,
// spaces as hyphens, no other punctuation.
func anchors(text string) []string {
	var all []string
	for _, match := range heading.FindAllStringSubmatch(fencedCode.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, match[1]))
	}
	return all
}

// withoutCode removes code, in which brackets are no links.
func withoutCode(text string) string {
	return inlineCode.ReplaceAllString(fencedCode.ReplaceAllString(text, ""), "")
}

// markdownFiles reads the repository's Markdown files, by their paths from root.
func markdownFiles(t *testing.T, root string) map[string]string {
	t.Helper()

	ignored := ignorePatterns(t, root)
	documents := make(map[string]string)

	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}

		if entry.IsDir() {
			hidden := name != "." && strings.HasPrefix(entry.Name(), ".")
			if hidden || entry.Name() == "node_modules" || slices.Contains(ignored, name) {
				return fs.SkipDir
			}
			return nil
		}

		if filepath.Ext(name) != ".md" {
			return nil
		}

		text, err := os.ReadFile(path)
		documents[name] = string(text)
		return err
	})
	testkit.NoError(t, err)

	return documents
}

// TestDocsNameTests checks that each test that a document or the table of their commands names
// exists.
func TestDocsNameTests(t *testing.T) {
	root := moduleRoot(t)
	declared := testNames(t, root)

	const table = "cmd/tallygate/test/documents_table_test.go"
	texts := markdownFiles(t, root)
	texts[table] = read(t, table)
	for name, text := range texts {
		for _, match := range regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(text, -1) {
			if !declared[match[1]] {
				t.Errorf("%s names %s, which does not exist", name, match[1])
			}
		}
	}
}

// testNames returns the names of all tests and fuzz targets.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()

	names := make(map[string]bool)
	for _, f := range goFiles(t, root) {
		if !f.isTest() {
			continue
		}

		for _, match := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(read(t, f.path), -1) {
			names[match[1]] = true
		}
	}

	return names
}

// TestDocsSize keeps the documents that newcomers read first short.
func TestDocsSize(t *testing.T) {
	for _, test := range []struct {
		name         string
		lines, words int
	}{
		{"README.md", 120, 900},
		{"docs/contributor/architecture.md", 200, 1500},
	} {
		text := read(t, test.name)
		if n := strings.Count(text, "\n"); n > test.lines {
			t.Errorf("%s has %d lines, at most %d", test.name, n, test.lines)
		}
		if n := len(strings.Fields(text)); n > test.words {
			t.Errorf("%s has %d words, at most %d", test.name, n, test.words)
		}
	}
}

// TestDependencies compares docs/contributor/dependencies.md with the direct dependencies in go.mod.
func TestDependencies(t *testing.T) {
	listed := read(t, "docs/contributor/dependencies.md")
	for _, module := range goCommand(t, "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}", "all") {
		if !strings.Contains(listed, "`"+module+"`") {
			t.Errorf("docs/contributor/dependencies.md lacks %s, with the reason to depend on it", module)
		}
	}
}

// TestThirdParty checks that THIRD_PARTY.md names every module in the program, so that its licence
// was read.
func TestThirdParty(t *testing.T) {
	listed := read(t, "THIRD_PARTY.md")
	for _, module := range goCommand(t, "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/tallygate") {
		if !strings.Contains(listed, "`"+module+"`") {
			t.Errorf("THIRD_PARTY.md lacks %s, with its licence", module)
		}
	}
}

// goCommand runs the go command at the module's root and returns the distinct lines of its output.
func goCommand(t *testing.T, args ...string) []string {
	t.Helper()

	command := exec.Command("go", args...)
	command.Dir = moduleRoot(t)

	var stderr bytes.Buffer
	command.Stderr = &stderr

	out, err := command.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("go %v: %w: %s", args, err, &stderr))
	}

	lines := strings.Fields(string(out))
	if len(lines) < 10 {
		t.Fatalf("go %v lists only %q", args, lines)
	}

	slices.Sort(lines)
	return slices.Compact(lines)
}

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()

	text, err := os.ReadFile(filepath.Join(moduleRoot(t), name))
	testkit.NoError(t, err)

	return string(text)
}
