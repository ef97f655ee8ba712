// Package npmtest bundles pages that use published npm packages, for tests that open them in a
// browser. Only tests import it.
package npmtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tallygate/tallygate/tools/testkit"
)

// Script returns the element with the bundle of a page and its packages. In the bundle it replaces
// addresses that a package has no setting for, given as pairs of the old and the new one. Without
// the packages the test is skipped, or failed in CI.
func Script(t testing.TB, folder, page string, addresses ...string) string {
	t.Helper()
	absolute := Folder(t, folder)

	built := api.Build(api.BuildOptions{
		AbsWorkingDir: absolute, EntryPoints: []string{page}, Bundle: true, Format: api.FormatIIFE, JSX: api.JSXAutomatic,
		Define: map[string]string{"process.env.NODE_ENV": `"production"`, "process.env": "{}", "__VUE_OPTIONS_API__": "true",
			"__VUE_PROD_DEVTOOLS__": "false", "__VUE_PROD_HYDRATION_MISMATCH_DETAILS__": "false"},
	})
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}

	text := string(built.OutputFiles[0].Contents)
	for i := 0; i < len(addresses); i += 2 {
		if !strings.Contains(text, addresses[i]) {
			t.Fatalf("the package does not contain %s", addresses[i])
		}
		text = strings.ReplaceAll(text, addresses[i], addresses[i+1])
	}
	return "<script>" + strings.ReplaceAll(text, "</script", `<\/script`) + "</script>"
}

// Folder returns the absolute path of a folder with installed packages. Without them the test is
// skipped, or failed in CI.
func Folder(t testing.TB, folder string) string {
	t.Helper()

	absolute, err := filepath.Abs(folder)
	testkit.NoError(t, err)
	if !isInstalled(t, absolute) {
		testkit.Missing(t, "the packages of "+folder+" are not installed: make setup does that")
	}
	return absolute
}

// isInstalled reports whether the folder has the packages of its lock file. npm stores a copy of
// what it has installed, without the entry of the folder itself.
func isInstalled(t testing.TB, folder string) bool {
	t.Helper()
	installed, err := os.Stat(filepath.Join(folder, "node_modules/.package-lock.json"))
	if err != nil {
		return false
	}
	lock, err := os.Stat(filepath.Join(folder, "package-lock.json"))
	testkit.NoError(t, err)
	return !installed.ModTime().Before(lock.ModTime())
}
