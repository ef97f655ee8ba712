// Package unit_test runs the unit tests of the TypeScript sources in src and packages, which need
// no browser, with Node's own test runner. It compiles the sources and the tests next to it
// (*.test.ts) with the build's compiler, so that no npm package is involved, and reports each of
// them as a subtest.
package unit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tallygate/tallygate/tools/testkit"
)

// root is the frontend-assets folder, which is also the working directory of the tests.
const root = "../.."

// oldestNode is the oldest major release of Node whose test runner accepts a reporter as a file.
const oldestNode = 18

// result is one line of report.mjs.
type result struct {
	Name   string // the file below test/unit without extension, a slash, and the test's own name
	Passed bool
	Error  string // with its stack; empty if the test has passed
}

func TestTypeScript(t *testing.T) {
	t.Parallel()
	node := findNode(t)
	dir := t.TempDir()
	tests := compile(t, dir)

	reporter, err := filepath.Abs("report.mjs")
	testkit.NoError(t, err)

	args := []string{"--test", "--test-reporter=file://" + filepath.ToSlash(reporter), "--test-reporter-destination=stdout"}
	for _, file := range tests {
		args = append(args, filepath.Join(dir, "test/unit", file+".test.js"))
	}

	command := exec.CommandContext(t.Context(), node, args...)
	command.Dir = root
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	exit := command.Run()

	counts := map[string]int{}
	for decoder := json.NewDecoder(&stdout); decoder.More(); {
		var r result
		if err := decoder.Decode(&r); err != nil {
			t.Fatalf("read the report: %v\n%s", err, stderr.String())
		}

		for _, file := range tests {
			if strings.HasPrefix(r.Name, file+"/") {
				counts[file]++
			}
		}

		t.Run(r.Name, func(t *testing.T) {
			if !r.Passed {
				t.Error(r.Error)
			}
		})
	}

	// A file whose tests did not run must not pass unnoticed.
	for _, file := range tests {
		if counts[file] == 0 {
			t.Errorf("%s.test.ts has reported no test", file)
		}
	}

	if exit != nil && !t.Failed() {
		t.Errorf("node: %v\n%s", exit, stderr.String())
	}
}

// findNode returns the path of Node. Without a suitable release the test is skipped, or failed when
// the environment contains CI=true.
func findNode(t *testing.T) string {
	t.Helper()
	testkit.SkipLong(t, "Node")

	path, err := exec.LookPath("node")
	if err == nil {
		var version []byte
		version, err = exec.Command(path, "--version").Output()
		major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
		if n, atoiErr := strconv.Atoi(major); err == nil && (atoiErr != nil || n < oldestNode) {
			err = errors.New("node is version " + strings.TrimSpace(string(version)) + ", and the tests need " + strconv.Itoa(oldestNode) + " or newer")
		}
	}

	if err != nil {
		testkit.Missing(t, err.Error())
	}

	return path
}

// compile writes every TypeScript source and test as a CommonJS module below dir, without bundling,
// so that a test can load any module, and load it again in another state. It returns the test
// files' paths below test/unit, without extension.
func compile(t *testing.T, dir string) (tests []string) {
	t.Helper()

	var entries []string
	for _, folder := range []string{"src", "packages", "test/unit"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".ts" || strings.HasSuffix(path, ".d.ts") {
				return err
			}

			relative, err := filepath.Rel(root, path)
			relative = filepath.ToSlash(relative)
			entries = append(entries, relative)
			if file, isTest := strings.CutSuffix(relative, ".test.ts"); isTest {
				tests = append(tests, strings.TrimPrefix(file, "test/unit/"))
			}
			return err
		})
		testkit.NoError(t, err)
	}

	absolute, err := filepath.Abs(root)
	testkit.NoError(t, err)

	built := api.Build(api.BuildOptions{
		AbsWorkingDir: absolute,
		EntryPoints:   entries,
		Outdir:        dir,
		Outbase:       ".",
		Tsconfig:      "tsconfig.json",
		Format:        api.FormatCommonJS,
		Platform:      api.PlatformNode,
		Target:        api.ES2020,
		Sourcemap:     api.SourceMapInline,
		Write:         true,
		LogLevel:      api.LogLevelSilent,
	})
	for _, message := range append(built.Errors, built.Warnings...) {
		t.Errorf("compile: %s", message.Text)
	}
	if t.Failed() {
		t.FailNow()
	}

	return tests
}
