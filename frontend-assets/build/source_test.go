package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tallygate/tallygate/tools/testkit"
)

// newerSyntax describes syntax in a script that the supported browsers lack. It returns an empty
// string if there is none.
//
// It runs esbuild with these browsers as targets and again without targets. Syntax that cannot be
// rewritten is an error, and rewritten syntax makes the two results differ.
func newerSyntax(script string) string {
	print := func(o api.TransformOptions) (string, string) {
		o.LogLevel, o.Charset = api.LogLevelSilent, api.CharsetASCII
		result := api.Transform(script, o)
		if len(result.Errors) > 0 {
			return "", result.Errors[0].Text
		}
		return string(result.Code), ""
	}

	old, problem := print(api.TransformOptions{Target: languageTarget, Engines: browserTargets})
	if problem != "" {
		return problem
	}

	today, problem := print(api.TransformOptions{Target: api.ESNext})
	if problem != "" {
		return problem
	}
	if old != today {
		return "esbuild rewrites it for the old browsers:\n" + old
	}

	return ""
}

func TestCommittedScriptsHaveTheSyntaxOfOldBrowsers(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	for _, a := range assets {
		if !strings.HasSuffix(a.Out, ".js") || a.Console {
			continue
		}

		script, err := os.ReadFile(filepath.Join(root, "dist", filepath.FromSlash(a.Out)))
		testkit.NoError(t, err)
		testkit.Equal(t, newerSyntax(string(script)), "", "%s", a.Out)
	}
}

func TestNewerSyntaxIsFound(t *testing.T) {
	for script, newer := range map[string]bool{
		`let a = {...b}; const f = async (c) => await c ?? 1`: false, // ES2018 to ES2020
		`a ||= b`:                    true, // ES2021
		`class A { static { a() } }`: true, // ES2022
		`class A { #b = 1 }`:         true, // ES2022
		`await a`:                    true, // ES2022, at the top
		`/(?<=a)b/.test(c)`:          true, // ES2018, but Safari since 16.4 only
		`/a/v.test(b)`:               true, // ES2024
		`const f = ([a]) => a`:       true, // ES2015, but wrong in Safari 14
		`a =`:                        true, // not a script
	} {
		if problem := newerSyntax(script); (problem != "") != newer {
			t.Errorf("%s: %q", script, problem)
		}
	}
}

// TestSourcesDoNotImportInCircles checks that no modules import each other. Such modules fail if
// one calls the other while it loads, and neither can be understood alone.
func TestSourcesDoNotImportInCircles(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	for _, a := range assets {
		if extension := filepath.Ext(a.Entry); extension != ".ts" && extension != ".tsx" {
			continue
		}
		testkit.Equal(t, importCircle(t, root, a.Entry), "", "%s", a.Out)
	}

	dir := t.TempDir()
	for name, source := range map[string]string{
		"a.ts": "import { b } from './b'; export const a = () => b()",
		"b.ts": "import { c } from './c'; export const b = () => c()",
		"c.ts": "import { a } from './a'; export const c = () => a()",
	} {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600))
	}

	if got, want := importCircle(t, dir, "a.ts"), "a.ts > b.ts > c.ts > a.ts"; got != want {
		t.Errorf("circle %q, want %q", got, want)
	}
}

// importCircle returns the first import cycle among the modules that an entry imports, or an empty
// string. Imports of types do not count, because they do not exist at run time.
func importCircle(t *testing.T, root, entry string) string {
	t.Helper()

	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root,
		EntryPoints:   []string{entry},
		Bundle:        true,
		Metafile:      true,
		Write:         false,
		LogLevel:      api.LogLevelSilent,
		Loader:        map[string]api.Loader{".css": api.LoaderText},
		External:      []string{"preact", "preact/*"},
		JSX:           api.JSXPreserve,
		Format:        api.FormatESModule,
	})
	if len(result.Errors) > 0 {
		t.Fatal(result.Errors[0].Text)
	}

	var meta struct {
		Inputs map[string]struct{ Imports []struct{ Path string } }
	}
	testkit.NoError(t, json.Unmarshal([]byte(result.Metafile), &meta))

	done := map[string]bool{}
	var walk func(path []string) string
	walk = func(path []string) string {
		module := path[len(path)-1]
		for i, earlier := range path[:len(path)-1] {
			if earlier == module {
				return strings.Join(path[i:], " > ")
			}
		}

		if done[module] {
			return ""
		}

		for _, imported := range meta.Inputs[module].Imports {
			if circle := walk(append(path, imported.Path)); circle != "" {
				return circle
			}
		}

		done[module] = true
		return ""
	}

	return walk([]string{entry})
}
