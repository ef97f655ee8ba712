package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

func TestCommittedFilesMatchTheirSources(t *testing.T) {
	testkit.SkipLong(t, "a build of all files, as in make check")
	var out strings.Builder
	testkit.NoError(t, run(&out, true, false))
	t.Logf("sizes in bytes:\n%s", out.String())
}

func TestCheckNamesEveryDifference(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	b, err := assets[0].build(root)
	testkit.NoError(t, err)

	files := map[string][]byte{"svc.js": b.Raw, "svc.js.gz": b.Gzip, "svc.js.br": b.Brotli}
	change := func(name string, content []byte) func(*testing.T, string) {
		return func(t *testing.T, dist string) {
			testkit.NoError(t, os.WriteFile(filepath.Join(dist, name), content, 0o644))
		}
	}

	other, err := gzipped([]byte("something else"))
	testkit.NoError(t, err)

	for _, test := range []struct {
		name   string
		change func(*testing.T, string)
		want   string // part of the error; empty for none
	}{
		{"nothing changed", func(*testing.T, string) {}, ""},
		{"edited script", change("svc.js", []byte("x")), "dist/svc.js: differs"},
		{"other script in the .gz", change("svc.js.gz", other), "dist/svc.js.gz: differs"},
		{"broken .br", change("svc.js.br", []byte("x")), "dist/svc.js.br: differs"},
		{"file without a source", change("old.js", nil), "dist/old.js: no source for"},
		{"missing file", func(t *testing.T, dist string) {
			testkit.NoError(t, os.Remove(filepath.Join(dist, "svc.js")))
		}, "dist/svc.js: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dist := t.TempDir()
			testkit.NoError(t, write(dist, files))

			test.change(t, dist)
			err := compare(dist, files)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("compare = %v, want an error with %q", err, test.want)
			}
			testkit.NoError(t, write(dist, files))
			testkit.Succeeds(t, compare(dist, files), "after writing again")
		})
	}
}

func TestBudgetIsHeld(t *testing.T) {
	b := built{asset: asset{Out: "svc.js", Budget: 3}, Gzip: []byte("abc")}
	testkit.Succeeds(t, b.withinBudget(), "3 of 3 bytes")

	b.Budget = 2
	if err := b.withinBudget(); err == nil || !strings.Contains(err.Error(), "svc.js has 3 bytes gzip-compressed, its budget is 2") {
		t.Errorf("3 of 2 bytes: %v", err)
	}
}

func TestOptionalPartsCanBeLeftOut(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	for _, a := range assets {
		whole, err := a.build(root)
		testkit.NoError(t, err)

		for _, part := range a.Optional {
			b, err := a.without(part).build(root)
			if err != nil {
				t.Errorf("%s without %s: %v", a.Out, part, err)
			} else if len(b.Raw) >= len(whole.Raw) {
				t.Errorf("%s has %d bytes without %s, %d with it", a.Out, len(b.Raw), part, len(whole.Raw))
			}
		}
	}
}

func TestStylesheetReachesTheScriptMinified(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"tsconfig.json": "{}",
		"main.ts":       `import css from './a.css'; document.title = css;`,
		"a.css":         "/* a comment */\n.a {\n  color: #ff0000;\n}\n",
	} {
		testkit.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o644))
	}

	script, err := asset{Entry: "main.ts", Out: "main.js"}.build(root)
	testkit.NoError(t, err)
	if !strings.Contains(string(script.Raw), `".a{color:red}"`) {
		t.Errorf("the script is %s", script.Raw)
	}

	sheet, err := asset{Entry: "a.css", Out: "a.css"}.build(root)
	testkit.NoError(t, err)
	testkit.Equal(t, string(sheet.Raw), ".a{color:red}\n", "the stylesheet")

	testkit.NoError(t, os.WriteFile(filepath.Join(root, "a.css"), []byte(".a { color: red"), 0o644))

	for _, entry := range []string{"main.ts", "a.css"} {
		if _, err := (asset{Entry: entry, Out: "out"}).build(root); err == nil || !strings.Contains(err.Error(), "Expected") {
			t.Errorf("%s with an unclosed rule: %v", entry, err)
		}
	}
}

func TestWidgetBudgetCountsWhatBrowsersLoad(t *testing.T) {
	var names []string
	for _, a := range assets {
		names = append(names, a.Out)
	}

	for _, name := range widget {
		if !slices.Contains(names, name) {
			t.Errorf("%s is counted but not built", name)
		}
	}

	sizes := map[string]int{widget[0]: widgetBudget - 1, widget[1]: 1, "svc.js": 5}
	testkit.Succeeds(t, withinWidgetBudget(sizes), "exactly the budget")

	sizes[widget[2]] = 1
	if err := withinWidgetBudget(sizes); err == nil || !strings.Contains(err.Error(), "14337 bytes gzip-compressed, its budget is 14336") {
		t.Errorf("a byte more: %v", err)
	}

	sizes = map[string]int{germanView[0]: germanViewBudget - 1, germanView[1]: 1}
	testkit.Succeeds(t, withinGermanViewBudget(sizes), "exactly the budget of the first view in German")

	sizes[germanView[1]] = 2
	if err := withinGermanViewBudget(sizes); err == nil || !strings.Contains(err.Error(), "its budget is 37500") {
		t.Errorf("a byte more in German: %v", err)
	}
}
