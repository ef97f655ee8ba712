package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// relativeImport matches the path of a relative import: static, dynamic, or of types only.
var relativeImport = regexp.MustCompile(`(?:\bfrom|\bimport)\s*\(?\s*'(\.[^']+)'`)

// consoleImports returns the files of the console, each with the files of the console that it
// imports.
func consoleImports(t *testing.T, folder string) map[string][]string {
	t.Helper()
	files := os.DirFS(folder)
	imports := map[string][]string{}

	err := fs.WalkDir(files, ".", func(path string, _ fs.DirEntry, err error) error {
		if extension := filepath.Ext(path); err != nil || extension != ".ts" && extension != ".tsx" {
			return err
		}

		source, err := fs.ReadFile(files, path)
		imports[path] = nil
		for _, match := range relativeImport.FindAllStringSubmatch(string(source), -1) {
			imported := filepath.ToSlash(filepath.Join(filepath.Dir(path), match[1]))
			for _, candidate := range []string{imported + ".ts", imported + ".tsx"} {
				if _, err := fs.Stat(files, candidate); err == nil {
					imports[path] = append(imports[path], candidate)
				}
			}
		}
		return err
	})
	testkit.NoError(t, err)
	return imports
}

// circle returns files that import each other in a circle, or nil. It removes files without imports
// until there is none: what remains imports each other.
func circle(imports map[string][]string) []string {
	left := map[string][]string{}
	for file, imported := range imports {
		left[file] = slices.Clone(imported)
	}

	for {
		before := len(left)
		for file, imported := range left {
			imported = slices.DeleteFunc(imported, func(name string) bool { _, ok := left[name]; return !ok })
			left[file] = imported
			if len(imported) == 0 {
				delete(left, file)
			}
		}
		if len(left) == before {
			break
		}
	}

	// Each file that is left leads into a circle. Walk until a file comes again.
	var walked []string
	for file := range left {
		for !slices.Contains(walked, file) {
			walked = append(walked, file)
			file = left[file][0]
		}
		return walked[slices.Index(walked, file):]
	}
	return nil
}

// TestConsoleImports checks that no files of the console import each other in a circle, also by
// types or by modules that are loaded on demand: otherwise no file of a circle can be read alone.
func TestConsoleImports(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	imports := consoleImports(t, filepath.Join(root, "src/console"))
	if len(imports) < 100 || !slices.Contains(imports["report/report.tsx"], "drilldown.tsx") {
		t.Fatalf("found %d files; report.tsx imports %q", len(imports), imports["report/report.tsx"])
	}
	if files := circle(imports); files != nil {
		t.Errorf("imports in a circle: %s", strings.Join(files, " -> "))
	}
}

func TestCircle(t *testing.T) {
	for _, test := range []struct {
		imports map[string][]string
		want    int
	}{
		{map[string][]string{"a": {"b", "c"}, "b": {"c"}, "c": nil}, 0},
		{map[string][]string{"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": nil}, 2},
		{map[string][]string{"a": {"a"}}, 1},
	} {
		if got := circle(test.imports); len(got) != test.want {
			t.Errorf("%v: %v, want %d files", test.imports, got, test.want)
		}
	}
}
