package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestConsoleModulesShareTheCore checks that only main.js contains the core and Preact, and that it
// exports each name that the other modules import.
func TestConsoleModulesShareTheCore(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "dist/console", name))
		testkit.NoError(t, err)
		return string(text)
	}

	onDemand := []string{
		"drilldown.js", "timeline.js", "journeys.js", "why.js", "site.js", "install.js", "settings.js", "captcha.js", "account.js", "operator.js",
		"provider.js", "import.js", "alerts.js",
	}
	main := read("main.js")
	for _, name := range slices.Concat(onDemand, []string{"de.js", "de-pages.js"}) {
		loader, from := main, "main.js"
		if name == "journeys.js" || name == "why.js" {
			loader, from = read("drilldown.js"), "drilldown.js"
		}
		if address := `import("./` + name + `")`; !strings.Contains(loader, address) {
			t.Errorf("%s does not contain %s", from, address)
		}
	}

	// Minified: import{a as b,c}from"./main.js" and export{x as a,c}.
	exported := map[string]bool{}
	lists := regexp.MustCompile(`export\{([^}]*)\}`).FindAllStringSubmatch(main, -1)
	for _, list := range lists {
		for _, item := range strings.Split(list[1], ",") {
			words := strings.Fields(item)
			exported[words[len(words)-1]] = true
		}
	}

	for _, name := range onDemand {
		module := read(name)
		imports := regexp.MustCompile(`import\{([^}]*)\}from"([^"]*)"`).FindAllStringSubmatch(module, -1)
		if len(imports) == 0 || len(exported) == 0 {
			t.Fatalf("%s has %d imports, main.js exports %d names", name, len(imports), len(exported))
		}

		for _, list := range imports {
			testkit.Equal(t, list[2], "./main.js", "%s imports", name)
			for _, item := range strings.Split(list[1], ",") {
				if imported := strings.Fields(item)[0]; !exported[imported] {
					t.Errorf("%s imports %s, which main.js does not export", name, imported)
				}
			}
		}

		// The name of GraphQL's path is in the core alone.
		if !strings.Contains(main, `"/graphql"`) || strings.Contains(module, `"/graphql"`) {
			t.Errorf("the core is not in main.js alone: see %s", name)
		}
	}
}
