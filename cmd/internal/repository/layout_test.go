// Package repository checks the repository as a whole: who imports whom, what the documents link to
// and name, and that their limits are those of the code. It has tests only.
package repository

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

	"github.com/tallygate/tallygate/tools/testkit"
)

// ourModule is how the import path of every package of this repository begins.
const ourModule = "github.com/tallygate/tallygate/"

// areas are the areas of the repository, each with those it may import in addition to itself. A
// leaf may not import itself either: it is one package, or a few independent ones.
//
// The rules are not in depguard, because it cannot distinguish tests outside a package (package
// x_test), which may import more, and does not check the root's entries. Through golangci-lint it
// would also add several hundred modules to the build.
var areas = map[string]struct {
	mayImport []string
	leaf      bool
}{
	"cmd":             {mayImport: []string{"graph", "graph/client", "dataplane", "jobs", "web", "db", "db/model", "frontend-assets"}},
	"graph":           {mayImport: []string{"web", "db", "db/model", "frontend-assets"}},
	"graph/client":    {leaf: true},
	"dataplane":       {mayImport: []string{"web", "db", "db/model", "frontend-assets"}},
	"jobs":            {mayImport: []string{"db", "db/model"}},
	"web":             {mayImport: []string{"db/model"}, leaf: true},
	"db":              {mayImport: []string{"db/model"}},
	"db/model":        {leaf: true},
	"frontend-assets": {leaf: true},
	"tools":           {mayImport: []string{"cmd", "graph", "graph/client", "dataplane", "jobs", "web", "db", "db/model", "frontend-assets"}},
}

// The reasons, as printed in the messages.
const (
	apartReason = "graph, dataplane and jobs never import each other, so that each can run in a process of its own; " +
		"what two of them need is a domain rule (it moves down to db/model) or a row that the other one reads (it moves to db)"
	cmdReason = "only cmd imports every area, and no area imports cmd"
	dbReason  = "imports point from the edges to the middle (cmd -> graph | dataplane | jobs -> db -> db/model): " +
		"the database serves every caller alike and depends on none"
	modelReason = "db/model imports no other area: entities and their rules stand at the bottom, so that every layer can use them " +
		"and a test of a rule is a table"
	clientReason = "graph/client calls the API as any program outside does: it imports no other area, " +
		"and only cmd uses it"
	leafReason  = "frontend-assets is a leaf: the files are built, embedded and tested without the server"
	serveReason = "frontend-assets is for those that serve files (cmd, graph, dataplane)"
	sqlReason   = "SQL and bun appear only under db/: there the two dialects are kept equal, " +
		"and no other package can hold a transaction open or omit the tenant"
	webReason = "web holds what the HTTP edges (cmd, graph, dataplane) share: " +
		"errors and addresses, no endpoint and no database"
	edgeReason  = "web is for packages that answer HTTP requests (cmd, graph, dataplane)"
	queueReason = "asynq and go-redis appear only under jobs/queue/: other packages submit tasks, " +
		"and do not depend on how these reach a worker"
	roomReason = "packages of db import those below them only (db -> audit, exports, files, ingest, keys, reports -> certificates, outbox -> sites -> " +
		"accounts -> retention): what two of them need moves down"
	templateReason = "the executor of text/template calls methods by name, so that the linker keeps the methods of all types, " +
		"used or not; templates are *.qtpl files"
	toolsReason    = "tools measure and test the product and are no part of it: only _test.go files and other tools import them"
	outsideReason  = "packages live below graph, dataplane, jobs, web, db, frontend-assets, cmd or tools, so that a newcomer finds them"
	topLevelReason = "a newcomer reads the folder list and knows the product; " +
		"a new entry needs a noun that the product already uses, or a folder below an existing one"
)

// apart are the areas that never import each other, not even in tests of one of them.
var apart = []string{"graph", "dataplane", "jobs"}

// onlyUnderDB are the packages for SQL. Only packages under db/ may import them or packages below
// them.
var onlyUnderDB = []string{"github.com/uptrace/bun", "database/sql", "github.com/jackc/pgx", "modernc.org/sqlite", "modernc.org/libc"}

// onlyUnderQueue are the packages, with everything below them, that carry tasks.
var onlyUnderQueue = []string{"github.com/hibiken/asynq", "github.com/redis/go-redis"}

// onlyInTests are packages that no part of the program may import.
var onlyInTests = []string{"text/template", "html/template"}

// sqlOutsideDB are the packages elsewhere that speak SQL. None is part of the service.
var sqlOutsideDB = []string{"tools/dbtest", "tools/loadgen/bulk", "tools/pgserver"}

// rooms are the packages of db from the lowest to the highest. Each may import those before it. The
// packages of one line do not import each other.
var rooms = [][]string{
	{"db/nodeid", "db/pgpool", "db/saltfile", "db/sqlitefile", "db/tables", "db/turns", "db/watch"},
	{"db/celllist"},
	{"db"},
	{"db/audit", "db/exports", "db/files", "db/ingest", "db/inspect", "db/keys", "db/reports"},
	{"db/certificates", "db/outbox"},
	{"db/retention", "db/sites"},
	{"db/accounts", "db/cells", "db/copies", "db/imports"},
}

// topLevel lists the entries of the repository's root, without dot-files, which are permitted.
var topLevel = []string{"graph", "dataplane", "jobs", "web", "db", "frontend-assets", "cmd", "tools", "deploy", "docs", "go.mod",
	"go.sum", "gqlgen.yml",
	"Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "THIRD_PARTY.md"}

// TestLayoutImports checks the imports of every Go file of the repository, also of those that build
// tags leave out.
func TestLayoutImports(t *testing.T) {
	files := goFiles(t, moduleRoot(t))
	if !slices.ContainsFunc(files, func(f goFile) bool { return f.path == "cmd/internal/repository/layout_test.go" }) {
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
	testkit.NoError(t, err)

	for _, entry := range entries {
		if !allowedAtTop(entry.Name(), ignored) {
			t.Errorf("%s at the top of the repository: %s", entry.Name(), topLevelReason)
		}
	}
}

// goFile is a source file, as far as the rules need it.
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
	internal, isInternal := strings.CutPrefix(imported, ourModule)
	if !isInternal {
		return foreignObjection(f, imported)
	}

	if within(internal, "tools") {
		if f.isTest() || within(f.dir(), "tools") {
			return ""
		}
		return toolsReason
	}

	if from, to := roomOf(f.dir()), roomOf(internal); from >= 0 && to >= from && f.dir() != internal && !f.external {
		return roomReason
	}

	from, to := areaOf(f.dir()), areaOf(internal)
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
		// No package depends on an external test, so it may import any helper.
		return ""
	case from == "graph/client" || to == "graph/client":
		return clientReason
	case to == "cmd":
		return cmdReason
	case from == "db":
		return dbReason
	case from == "db/model":
		return modelReason
	case from == "frontend-assets":
		return leafReason
	case from == "web":
		return webReason
	case to == "web":
		return edgeReason
	default:
		// jobs
		return serveReason
	}
}

// foreignObjection returns the reason against the import of a package of another module, or
// nothing.
func foreignObjection(f goFile, imported string) string {
	speaksSQL := slices.ContainsFunc(onlyUnderDB, func(p string) bool { return within(imported, p) })
	carriesTasks := slices.ContainsFunc(onlyUnderQueue, func(p string) bool { return within(imported, p) })

	// Tests and tools are not part of the program.
	inProgram := !within(f.dir(), "tools") && !f.isTest()
	switch {
	case speaksSQL && !within(f.dir(), "db") && !slices.Contains(sqlOutsideDB, f.dir()):
		return sqlReason
	case carriesTasks && !within(f.dir(), "jobs/queue") && inProgram:
		return queueReason
	case slices.Contains(onlyInTests, imported) && inProgram:
		return templateReason
	}
	return ""
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

// roomOf returns the index of a package of db in rooms, or -1.
func roomOf(dir string) int {
	return slices.IndexFunc(rooms, func(row []string) bool { return slices.Contains(row, dir) })
}

// within reports whether a path is a folder or lies below it.
func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// allowedAtTop reports whether a name may be in the root: it is listed, a dot-file, or ignored by
// git.
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
	testkit.NoError(t, err)

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
	testkit.NoError(t, err)

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
	testkit.NoError(t, err)

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

// TestLayoutRules checks the rules one import at a time: what each forbids, and what it permits.
func TestLayoutRules(t *testing.T) {
	const external = true
	tests := []struct {
		file     string
		external bool
		imported string // without our module's path when it is internal
		reason   string // empty: allowed
	}{
		{"cmd/tallygate/serve/serve.go", false, "graph/auth", ""},
		{"cmd/tallygate/serve/serve.go", false, "dataplane/analytics", ""},
		{"cmd/tallygate/serve/serve.go", false, "jobs", ""},
		{"cmd/tallygate/serve/serve.go", false, "db", ""},
		{"cmd/tallygate/serve/serve.go", false, "db/model", ""},
		{"cmd/tallygate/serve/serve.go", false, "frontend-assets", ""},
		{"cmd/tallygate/serve/serve.go", false, "net/http", ""},
		{"tools/loadgen/main.go", false, "db", ""},
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
		{"graph/limits_test.go", external, "tools/redistest", ""},

		// Imports point to the middle.
		{"db/sites.go", false, "graph", dbReason},
		{"db/sites.go", false, "dataplane/analytics/visit", dbReason},
		{"db/sites.go", false, "frontend-assets", dbReason},
		{"tools/dbtest/dbtest.go", false, "jobs", ""},
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

		// Leaves import no other area.
		{"db/model/site.go", false, "db", modelReason},
		{"db/model/site.go", false, "graph/schema", modelReason},
		{"db/model/site.go", false, "db/model/plan", modelReason},
		{"frontend-assets/handler.go", false, "db/model", leafReason},
		{"frontend-assets/handler.go", false, "graph", leafReason},
		{"frontend-assets/build/main.go", false, "frontend-assets", leafReason},
		{"frontend-assets/handler_test.go", false, "db", leafReason},
		{"db/model/site_test.go", external, "db/model", ""},
		{"frontend-assets/handler_test.go", external, "frontend-assets", ""},

		// The generated client stays outside what it calls.
		{"cmd/tallygate/demo/demo.go", false, "graph/client", ""},
		{"graph/client/client.go", false, "db/model", clientReason},
		{"graph/client/client.go", false, "graph/schema", clientReason},
		{"graph/resolver/site.go", false, "graph/client", clientReason},
		{"jobs/quota.go", false, "graph/client", clientReason},

		// The edges share web, and nothing else does.
		{"graph/export/export.go", false, "web", ""},
		{"dataplane/errors.go", false, "web", ""},
		{"cmd/tallygate/serve/serve.go", false, "web", ""},
		{"web/errors.go", false, "db/model", ""},
		{"web/errors.go", false, "db", webReason},
		{"web/errors.go", false, "graph", webReason},
		{"web/errors_test.go", external, "web", ""},
		{"jobs/quota.go", false, "web", edgeReason},
		{"db/sites.go", false, "web", dbReason},
		{"db/model/site.go", false, "web", modelReason},

		// Only db speaks SQL.
		{"graph/site.go", false, "github.com/uptrace/bun", sqlReason},
		{"graph/site.go", false, "github.com/uptrace/bun/dialect/pgdialect", sqlReason},
		{"dataplane/analytics/writer.go", false, "database/sql", sqlReason},
		{"jobs/quota.go", false, "database/sql/driver", sqlReason},
		{"cmd/tallygate/serve/serve.go", false, "github.com/jackc/pgx/v5", sqlReason},
		{"cmd/tallygate/serve/serve.go", false, "modernc.org/sqlite", sqlReason},
		{"dataplane/collect_test.go", external, "database/sql", sqlReason},
		{"db/hits.go", false, "github.com/uptrace/bun", ""},
		{"tools/loadgen/bulk/bulk.go", false, "github.com/jackc/pgx/v5", ""},
		{"tools/loadgen/fill.go", false, "github.com/jackc/pgx/v5", sqlReason},
		{"db/migrations/outside.go", false, "database/sql", ""},
		{"tools/dbtest/postgres.go", false, "github.com/jackc/pgx/v5", ""},
		{"dataplane/routes.go", false, "github.com/uptrace/bunrouter", ""},

		// Only jobs/queue carries tasks.
		{"jobs/webhook/deliver.go", false, "github.com/hibiken/asynq", queueReason},
		{"cmd/tallygate/serve/serve.go", false, "github.com/redis/go-redis/v9", queueReason},
		{"jobs/queue/queue.go", false, "github.com/hibiken/asynq", ""},
		{"jobs/faults_test.go", external, "github.com/hibiken/asynq", ""},

		// Templates are compiled.
		{"jobs/mail/page.go", false, "html/template", templateReason},
		{"frontend-assets/console.go", false, "text/template", templateReason},
		{"jobs/mail/page_test.go", false, "html/template", ""},
		{"tools/loadgen/main.go", false, "text/template", ""},

		// Tools stay out of the program.
		{"cmd/tallygate/command/demo.go", false, "tools/dbtest", toolsReason},
		{"frontend-assets/handler.go", false, "tools/browsertest", toolsReason},
		{"jobs/worker.go", false, "tools/redistest", toolsReason},
		{"db/tx.go", false, "tools/dbtest", toolsReason},
		{"cmd/tallygate/test/process_test.go", false, "tools/dbtest", ""},
		{"cmd/tallygate/test/process_test.go", false, "tools/browsertest", ""},
		{"dataplane/harness_test.go", false, "tools/dbtest", ""},
		{"dataplane/collect_test.go", external, "tools/dbtest", ""},
		{"dataplane/collect_test.go", external, "tools/browsertest", ""},
		{"tools/redistest/redistest.go", false, "tools/dbtest", ""},

		// An external test imports what it needs.
		{"db/hits_test.go", external, "dataplane/analytics", ""},
		{"frontend-assets/test/script/pageview_test.go", external, "dataplane", ""},
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
			t.Errorf("%s (external test: %v) imports %s:\n got %q\nwant %q",
				test.file, test.external, imported, got, want)
		}
	}

	// Each forbidden import has its own message.
	got := violations(goFile{path: "jobs/quota.go",
		imports: []string{"database/sql", ourModule + "db", ourModule + "graph"}})
	testkit.Equal(t, len(got), 2, "two forbidden imports of three give %q", got)

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
		"util": false, "internal": false, "pkg": false, "main.go": false, "Makefile.bak": false, "notes.txt": false,
		"go.work": false,
	} {
		testkit.Equal(t, allowedAtTop(name, ignored), want, "%s allowed at the top", name)
	}
}
