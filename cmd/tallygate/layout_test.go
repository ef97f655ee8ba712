package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ourModule is how the import path of every package of this repository begins.
const ourModule = "github.com/tallygate/tallygate/"

// areas are the parts of the repository, each with what it may import beside itself. A leaf may not
// even import itself: it is one package, or a few that do not know each other.
var areas = map[string]struct {
	mayImport []string
	leaf      bool
}{
	"cmd":             {mayImport: []string{"graph", "dataplane", "jobs", "db", "db/model", "frontend-assets"}},
	"graph":           {mayImport: []string{"db", "db/model", "frontend-assets"}},
	"dataplane":       {mayImport: []string{"db", "db/model", "frontend-assets"}},
	"jobs":            {mayImport: []string{"db", "db/model"}},
	"db":              {mayImport: []string{"db/model"}},
	"db/model":        {leaf: true},
	"frontend-assets": {leaf: true},
}

// The reasons, as the messages give them.
const (
	apartReason = "graph, dataplane and jobs never import each other, so that each can run in a process of its own; " +
		"what two of them need is a domain rule (it moves down to db/model) or a row that the other one reads (it moves to db)"
	cmdReason = "only cmd knows everybody, and nobody knows cmd"
	dbReason  = "imports point from the edges to the middle (cmd -> graph | dataplane | jobs -> db -> db/model): " +
		"the database serves every caller alike and knows none"
	modelReason = "db/model imports nothing of ours: entities and their rules stand at the bottom, so that every layer can use them " +
		"and a test of a rule is a table"
	leafReason  = "frontend-assets is a leaf: the files are built, embedded and tested without the server"
	serveReason = "frontend-assets is for those that serve files (cmd, graph, dataplane)"
	sqlReason   = "SQL and bun appear only under db/: there the two dialects are kept equal, " +
		"and nobody else can hold a transaction open or forget whose rows they are"
	roomReason = "packages of db import those below them only (db -> exports, files, ingest, keys -> outbox -> sites -> " +
		"accounts -> retention): what two of them need moves down"
	testOnlyReason = "it exists for tests: only _test.go files and other test-only packages import it"
	outsideReason  = "packages live below graph, dataplane, jobs, db, frontend-assets or cmd, so that a newcomer finds them"
	topLevelReason = "a newcomer reads the folder list and knows the product; " +
		"a new entry needs a noun that the product already uses, or a place below an existing one"
)

// apart are the areas that nothing brings together, not even a test of one of them.
var apart = []string{"graph", "dataplane", "jobs"}

// testOnly are the packages that help tests.
var testOnly = []string{"db/dbtest", "frontend-assets/browsertest", "graph/typedclient", "jobs/redistest"}

// onlyUnderDB are the packages, with everything below them, that speak SQL.
var onlyUnderDB = []string{"github.com/uptrace/bun", "database/sql", "github.com/jackc/pgx", "modernc.org/sqlite"}

// sqlOutsideDB are the packages elsewhere that speak SQL. None is part of the service.
var sqlOutsideDB = []string{"cmd/loadgen/bulk"}

// rooms are the packages of db from the lowest to the highest. Each may import those before it. The
// packages of one line do not import each other.
var rooms = [][]string{
	{"db"},
	{"db/exports", "db/files", "db/ingest", "db/keys"},
	{"db/outbox"},
	{"db/sites"},
	{"db/accounts"},
	{"db/retention"},
}

// topLevel is the repository's root; beside these there may be dot-files.
var topLevel = []string{"graph", "dataplane", "jobs", "db", "frontend-assets", "cmd", "docs", "go.mod", "go.sum", "gqlgen.yml",
	"Makefile", "README.md", "CHANGELOG.md", "Dockerfile", "compose.yaml"}

// TestLayoutImports checks the imports of every Go file of the repository, also of those that build
// tags leave out.
func TestLayoutImports(t *testing.T) {
	files := goFiles(t, moduleRoot(t))
	if !slices.ContainsFunc(files, func(f goFile) bool { return f.path == "cmd/tallygate/layout_test.go" }) {
		t.Fatalf("this very file is not among the %d files found", len(files))
	}

	for _, f := range files {
		for _, v := range violations(f) {
			t.Error(v)
		}
	}
}

// TestLayoutTopLevel checks the folders and files of the repository's root.
func TestLayoutTopLevel(t *testing.T) {
	root := moduleRoot(t)
	ignored := ignorePatterns(t, root)

	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range entries {
		if !allowedAtTop(entry.Name(), ignored) {
			t.Errorf("%s at the top of the repository: %s", entry.Name(), topLevelReason)
		}
	}
}

// goFile is what the rules look at.
type goFile struct {
	path     string // from the module's root, with slashes
	external bool   // of a package x_test
	imports  []string
}

func (f goFile) dir() string { return path.Dir(f.path) }

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// violations returns one sentence, with the reason, for each import of f that breaks a rule.
func violations(f goFile) []string {
	var all []string

	if areaOf(f.dir()) == "" {
		all = append(all, fmt.Sprintf("%s: %s", f.path, outsideReason))
	}

	for _, imported := range f.imports {
		if reason := objection(f, imported); reason != "" {
			all = append(all, fmt.Sprintf("%s imports %s: %s", f.path, imported, reason))
		}
	}

	return all
}

// objection returns the reason against one import, or nothing.
func objection(f goFile, imported string) string {
	ours, isOurs := strings.CutPrefix(imported, ourModule)
	if !isOurs {
		speaksSQL := slices.ContainsFunc(onlyUnderDB, func(p string) bool { return within(imported, p) })
		if speaksSQL && !within(f.dir(), "db") && !slices.Contains(sqlOutsideDB, f.dir()) {
			return sqlReason
		}

		return ""
	}

	if slices.Contains(testOnly, ours) && !f.isTest() && !slices.Contains(testOnly, f.dir()) {
		return testOnlyReason
	}

	if from, to := roomOf(f.dir()), roomOf(ours); from >= 0 && to >= from && f.dir() != ours && !f.external {
		return roomReason
	}

	from, to := areaOf(f.dir()), areaOf(ours)
	bothApart := from != to && slices.Contains(apart, from) && slices.Contains(apart, to)
	switch {
	case bothApart:
		return apartReason
	case to == "":
		return outsideReason
	case from == to && (!areas[from].leaf || f.isTest()):
		return ""
	case slices.Contains(areas[from].mayImport, to):
		return ""
	case f.external:
		// nothing depends on it, so it may use what it needs to set its scene
		return ""
	case to == "cmd":
		return cmdReason
	case from == "db":
		return dbReason
	case from == "db/model":
		return modelReason
	case from == "frontend-assets":
		return leafReason
	default:
		// jobs
		return serveReason
	}
}

// areaOf finds the area of a folder: the longest of its names that fits.
func areaOf(dir string) string {
	longest := ""
	for name := range areas {
		if within(dir, name) && len(name) > len(longest) {
			longest = name
		}
	}
	return longest
}

// roomOf returns the height of a package of db in rooms, or -1.
func roomOf(dir string) int {
	return slices.IndexFunc(rooms, func(row []string) bool { return slices.Contains(row, dir) })
}

// within says whether a path is that of a folder or lies below it.
func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// allowedAtTop says whether a name may stand in the root: it is listed, a dot-file, or never
// committed.
func allowedAtTop(name string, ignored []string) bool {
	return slices.Contains(topLevel, name) || strings.HasPrefix(name, ".") ||
		slices.ContainsFunc(ignored, func(pattern string) bool {
			matches, err := path.Match(pattern, name)
			return err == nil && matches
		})
}

// ignorePatterns returns the patterns of .gitignore as they apply to the root's own entries.
func ignorePatterns(t *testing.T, root string) []string {
	t.Helper()

	text, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}

	var patterns []string
	for line := range strings.Lines(string(text)) {
		if pattern := strings.Trim(strings.TrimSpace(line), "/"); pattern != "" && pattern[0] != '#' {
			patterns = append(patterns, pattern)
		}
	}

	return patterns
}

// moduleRoot finds the folder of go.mod above the working directory.
func moduleRoot(t *testing.T) string {
	t.Helper()

	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("no go.mod above the working directory")
		}

		dir = filepath.Dir(dir)
	}
}

// goFiles reads the imports of every Go file below root, except in folders that the go command and
// git leave out.
func goFiles(t *testing.T, root string) []goFile {
	t.Helper()

	ignored := ignorePatterns(t, root)
	var files []goFile
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}

		relative = filepath.ToSlash(relative)

		if entry.IsDir() {
			dotted := relative != "." && strings.HasPrefix(entry.Name(), ".")
			if dotted || entry.Name() == "testdata" || slices.Contains(ignored, relative) {
				return fs.SkipDir
			}

			return nil
		}

		if !strings.HasSuffix(name, ".go") {
			return nil
		}

		f, err := readImports(name)
		f.path = relative
		files = append(files, f)

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return files
}

func readImports(name string) (goFile, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return goFile{}, err
	}

	f := goFile{external: strings.HasSuffix(name, "_test.go") && strings.HasSuffix(parsed.Name.Name, "_test")}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return goFile{}, err
		}

		f.imports = append(f.imports, imported)
	}

	return f, nil
}

// TestLayoutRules shows the rules one import at a time: what each forbids, and what it must leave
// alone.
func TestLayoutRules(t *testing.T) {
	const external = true
	tests := []struct {
		file     string
		external bool
		imported string // without our module's path when it is ours
		reason   string // empty: allowed
	}{
		{"cmd/tallygate/serve.go", false, "graph/auth", ""},
		{"cmd/tallygate/serve.go", false, "dataplane/analytics", ""},
		{"cmd/tallygate/serve.go", false, "jobs", ""},
		{"cmd/tallygate/serve.go", false, "db", ""},
		{"cmd/tallygate/serve.go", false, "db/model", ""},
		{"cmd/tallygate/serve.go", false, "frontend-assets", ""},
		{"cmd/tallygate/serve.go", false, "net/http", ""},
		{"cmd/loadgen/main.go", false, "db", ""},
		{"graph/site.go", false, "db", ""},
		{"graph/site.go", false, "db/model", ""},
		{"graph/server.go", false, "frontend-assets", ""},
		{"graph/server.go", false, "graph/generated", ""},
		{"graph/export/export.go", false, "db", ""},
		{"dataplane/analytics/collect.go", false, "dataplane/batch", ""},
		{"dataplane/routes.go", false, "frontend-assets", ""},
		{"jobs/quota.go", false, "db", ""},
		{"db/sites.go", false, "db/model", ""},

		// The three stay apart, whatever the file.
		{"graph/site.go", false, "dataplane", apartReason},
		{"graph/auth/auth.go", false, "jobs", apartReason},
		{"dataplane/analytics/collect.go", false, "graph/auth", apartReason},
		{"dataplane/routes.go", false, "jobs", apartReason},
		{"jobs/quota.go", false, "graph", apartReason},
		{"jobs/quota.go", false, "dataplane/batch", apartReason},
		{"jobs/quota_test.go", false, "dataplane/batch", apartReason},
		{"dataplane/collect_test.go", external, "graph", apartReason},
		{"graph/limits_test.go", external, "jobs/redistest", apartReason},

		// Imports point to the middle.
		{"db/sites.go", false, "graph", dbReason},
		{"db/sites.go", false, "dataplane/analytics/visit", dbReason},
		{"db/sites.go", false, "frontend-assets", dbReason},
		{"db/dbtest/dbtest.go", false, "jobs", dbReason},
		{"db/sites_test.go", false, "graph", dbReason},

		// Inside db they point down.
		{"db/accounts/delete.go", false, "db/sites", ""},
		{"db/accounts/delete.go", false, "db/outbox", ""},
		{"db/sites/site.go", false, "db/keys", ""},
		{"db/sites/site.go", false, "db", ""},
		{"db/sites/site.go", false, "db/accounts", roomReason},
		{"db/keys/keys.go", false, "db/files", roomReason},
		{"db/db.go", false, "db/keys", roomReason},
		{"db/watch_test.go", external, "db/sites", ""},
		{"graph/site.go", false, "cmd/tallygate/demo", cmdReason},
		{"db/sites.go", false, "cmd/tallygate/demo", cmdReason},
		{"jobs/quota.go", false, "frontend-assets", serveReason},

		// Leaves import nothing of ours.
		{"db/model/site.go", false, "db", modelReason},
		{"db/model/site.go", false, "graph/schema", modelReason},
		{"db/model/site.go", false, "db/model/plan", modelReason},
		{"frontend-assets/handler.go", false, "db/model", leafReason},
		{"frontend-assets/handler.go", false, "graph", leafReason},
		{"frontend-assets/build/main.go", false, "frontend-assets", leafReason},
		{"frontend-assets/handler_test.go", false, "db", leafReason},
		{"db/model/site_test.go", external, "db/model", ""},
		{"frontend-assets/handler_test.go", external, "frontend-assets", ""},

		// Only db speaks SQL.
		{"graph/site.go", false, "github.com/uptrace/bun", sqlReason},
		{"graph/site.go", false, "github.com/uptrace/bun/dialect/pgdialect", sqlReason},
		{"dataplane/analytics/writer.go", false, "database/sql", sqlReason},
		{"jobs/quota.go", false, "database/sql/driver", sqlReason},
		{"cmd/tallygate/serve.go", false, "github.com/jackc/pgx/v5", sqlReason},
		{"cmd/tallygate/serve.go", false, "modernc.org/sqlite", sqlReason},
		{"dataplane/collect_test.go", external, "database/sql", sqlReason},
		{"db/hits.go", false, "github.com/uptrace/bun", ""},
		{"cmd/loadgen/bulk/bulk.go", false, "github.com/jackc/pgx/v5", ""},
		{"cmd/loadgen/fill.go", false, "github.com/jackc/pgx/v5", sqlReason},
		{"db/migrations/embed.go", false, "database/sql", ""},
		{"db/dbtest/postgres.go", false, "github.com/jackc/pgx/v5", ""},
		{"dataplane/routes.go", false, "github.com/uptrace/bunrouter", ""},

		// Test-only packages stay out of the program.
		{"cmd/tallygate/demo.go", false, "db/dbtest", testOnlyReason},
		{"frontend-assets/handler.go", false, "frontend-assets/browsertest", testOnlyReason},
		{"jobs/jobs.go", false, "jobs/redistest", testOnlyReason},
		{"cmd/tallygate/serve.go", false, "graph/typedclient", testOnlyReason},
		{"db/tx.go", false, "db/dbtest", testOnlyReason},
		{"cmd/tallygate/process_test.go", false, "db/dbtest", ""},
		{"cmd/tallygate/process_test.go", false, "frontend-assets/browsertest", ""},
		{"dataplane/harness_test.go", false, "db/dbtest", ""},
		{"dataplane/collect_test.go", external, "db/dbtest", ""},
		{"dataplane/collect_test.go", external, "frontend-assets/browsertest", ""},
		{"jobs/redistest/redistest.go", false, "db/dbtest", ""},

		// An external test sets its scene with what it needs.
		{"db/hits_test.go", external, "dataplane/analytics", ""},
		{"frontend-assets/svc_pageview_test.go", external, "dataplane", ""},
	}
	for _, test := range tests {
		imported := test.imported
		if areaOf(imported) != "" {
			imported = ourModule + imported
		}

		got := violations(goFile{path: test.file, external: test.external, imports: []string{imported}})
		var want []string

		if test.reason != "" {
			want = []string{fmt.Sprintf("%s imports %s: %s", test.file, imported, test.reason)}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s (external test: %v) imports %s:\n got %q\nwant %q", test.file, test.external, imported, got, want)
		}
	}

	// Each forbidden import has its own message.
	got := violations(goFile{path: "jobs/quota.go", imports: []string{"database/sql", ourModule + "db", ourModule + "graph"}})
	if len(got) != 2 {
		t.Errorf("two forbidden imports of three give %q", got)
	}

	got = violations(goFile{path: "graph/site.go", imports: []string{ourModule + "util"}})
	if want := "graph/site.go imports " + ourModule + "util: " + outsideReason; !slices.Equal(got, []string{want}) {
		t.Errorf("an import from outside the layout gives %q, want %q", got, want)
	}

	got = violations(goFile{path: "util/strings.go"})
	if want := []string{"util/strings.go: " + outsideReason}; !slices.Equal(got, want) {
		t.Errorf("a package outside the layout gives %q, want %q", got, want)
	}
}

func TestLayoutTopLevelRule(t *testing.T) {
	ignored := []string{"tallygate-data", "*.prof"}
	for name, want := range map[string]bool{
		"graph": true, "go.mod": true, "README.md": true, "docs": true, ".ci": true, ".gitignore": true,
		"tallygate-data": true, "cpu.prof": true,
		"util": false, "internal": false, "pkg": false, "main.go": false, "Makefile.bak": false, "notes.txt": false, "go.work": false,
	} {
		if got := allowedAtTop(name, ignored); got != want {
			t.Errorf("%s allowed at the top: %v, want %v", name, got, want)
		}
	}
}
