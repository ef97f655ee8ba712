package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/tools/testkit"
)

// cellExceptions are functions and packages that name tables of cells without a cell, with the
// reason.
var cellExceptions = map[string]string{
	"db/ingest": "only names: a writer has the connection of one cell, see NewHitStore and NewClaimStore",
	"db/tables": "only names and columns",

	"db/cells:run":                  "its steps name the schemas of both cells",
	"db/cells:copyDay":              "names the schemas of both cells",
	"db/cells:copyUsage":            "names the schemas of both cells",
	"db/copies:tablesOf":            "reads the catalog; a copied installation has one cell",
	"db/celllist:HasTable":          "only names",
	"db/exports:query":              "runs on the connection of a cell, see page.read",
	"db/exports:engagementQuery":    "runs on the connection of a cell, see page.read",
	"db/exports:newExported":        "only names",
	"db/outbox:queueFailureMail":    "reads common tables; the delivery is an argument",
	"db/reports:countBySQL":         "runs in a snapshot of a cell",
	"db/reports:readVisits":         "runs in a snapshot of a cell",
	"db/reports:readViews":          "runs in a snapshot of a cell",
	"db/reports:readEngagement":     "runs in a snapshot of a cell",
	"db/reports:readEvents":         "runs in a snapshot of a cell",
	"db/retention:CorrectSchedule":  "correct runs each table in its cells",
	"db/retention:DeleteOldReports": "deleteByAge runs each table in its cells",
}

// defaultCells are the functions of db that choose the default cell.
var defaultCells = []string{
	"db/accounts:overviewsOf", "db/copies:each", "db/files:count", "db/migrations:applyOutside", "db/retention:common",
	"db:Cell", "db:EachCellOf", "db:InSiteTx",
}

// TestLayoutCells checks that each function of db that names a table of cells has a cell: a
// receiver, parameter or variable of the types db.Cell or db.CellTx, or of a type with such a
// field. Statements of common connections must not name such a table, in any function. Only a few
// functions choose the default cell.
func TestLayoutCells(t *testing.T) {
	root := moduleRoot(t)
	models := readPackage(t, filepath.Join(root, "db/model")).rowTypes("model.")
	if len(models) < 2 {
		t.Fatalf("rows of cells %v of package model, want deliveries and attempts", models)
	}

	var defaults []string
	used, functions := make(map[string]bool), 0
	for _, dir := range dirsWithGo(goFiles(t, root)) {
		if !within(dir, "db") || dir == "db/model" {
			continue
		}
		p := readPackage(t, filepath.Join(root, dir))
		p.dir, p.models = dir, models
		for _, name := range p.callersOf("DefaultCell") {
			defaults = append(defaults, dir+":"+name)
		}
		functions += p.check(func(name, fault string) {
			for _, key := range []string{dir, dir + ":" + name} {
				if cellExceptions[key] != "" {
					used[key] = true
					return
				}
			}
			t.Errorf("%s, %s: %s", dir, name, fault)
		})
	}

	if slices.Sort(defaults); !slices.Equal(defaults, defaultCells) {
		t.Errorf("%q choose the default cell, want %q", defaults, defaultCells)
	}
	if functions < 80 {
		t.Errorf("%d functions name tables of cells, want more than 80", functions)
	}
	for _, key := range slices.Sorted(maps.Keys(cellExceptions)) {
		if !used[key] {
			t.Errorf("the exception %s is not needed", key)
		}
	}
}

// TestLayoutCellsFindsMistakes checks that statements without a cell are found.
func TestLayoutCellsFindsMistakes(t *testing.T) {
	const head = `package p
type Store struct { db *db.DB }
type ofCell struct { cell *db.Cell }
type row struct { bun.BaseModel ` + "`bun:\"table:report_days\"`" + ` }
const text = "SELECT 1 FROM visits"
`
	for _, c := range []struct {
		faults int
		body   string
	}{
		{2, `func (s *Store) f() { s.db.Read.NewSelect().Table("pageviews").Scan(ctx) }`},
		{2, `func (s *Store) f() { s.db.Read.NewRaw(text).Scan(ctx) }`},
		{2, `func (s *Store) f() { s.db.Write.NewUpdate().Model((*row)(nil)).Exec(ctx) }`},
		{2, `func f(tx *db.Tx) { tx.ExecContext(ctx, "DELETE FROM deliveries") }`},
		{1, `func (s *Store) f() { in, _ := s.db.OfSite(ctx, 1); in.Read.NewRaw(text); s.db.Read.NewRaw(text) }`},

		{0, `func (s *Store) f() { s.db.InSiteTx(ctx, 1, func(in *db.CellTx) error { return in.F("DELETE FROM visits") }) }`},
		{0, `func (c *ofCell) f() { c.cell.Read.NewRaw(text) }`},
		{0, `func f(tx *db.CellTx) { tx.ExecContext(ctx, "DELETE FROM deliveries") }`},
		{0, `func (s *Store) f() { s.db.Read.NewSelect().Table("sites").Scan(ctx) }`},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", head+c.body, 0)
		testkit.NoError(t, err)
		var found []string
		newGoPackage([]*ast.File{file}).check(func(_, fault string) { found = append(found, fault) })
		testkit.Equal(t, len(found), c.faults, "%s: faults %q", c.body, found)
	}
}

// dirsWithGo returns the folders of files, each once.
func dirsWithGo(files []goFile) []string {
	dirs := make(map[string]bool)
	for _, f := range files {
		dirs[f.dir()] = true
	}
	return slices.Sorted(maps.Keys(dirs))
}

// goPackage is a package as far as the check of cells needs it.
type goPackage struct {
	dir     string
	models  map[string]bool // rows of cells of package model
	files   []*ast.File
	rows    map[string]bool // types of rows of cells
	named   map[string]bool // constants and variables with names of cells' tables
	holders map[string]bool // types that have a cell
}

func readPackage(t *testing.T, dir string) *goPackage {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	testkit.NoError(t, err)
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		testkit.NoError(t, err)
		files = append(files, file)
	}
	return newGoPackage(files)
}

func newGoPackage(files []*ast.File) *goPackage {
	p := &goPackage{files: files, named: make(map[string]bool), holders: make(map[string]bool)}
	p.rows = p.rowTypes("")

	for _, file := range files {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST && d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.ValueSpec)
				for i, value := range s.Values {
					if namesTable(value, true) {
						p.named[s.Names[min(i, len(s.Names)-1)].Name] = true
					}
				}
			}
		}
	}

	// A type can have a cell through another one.
	for before := -1; before != len(p.holders); {
		before = len(p.holders)
		p.eachStruct(func(name string, s *ast.StructType) {
			for _, field := range s.Fields.List {
				if p.isCell(field.Type) {
					p.holders[name] = true
				}
			}
		})
	}
	return p
}

// eachStruct calls a function for each struct type of the package.
func (p *goPackage) eachStruct(call func(name string, s *ast.StructType)) {
	for _, file := range p.files {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				if named, ok := spec.(*ast.TypeSpec); ok {
					if s, ok := named.Type.(*ast.StructType); ok {
						call(named.Name.Name, s)
					}
				}
			}
		}
	}
}

// tableTag matches the tag of a row's type.
var tableTag = regexp.MustCompile(`bun:"table:(\w+)`)

// rowTypes returns the types of rows of cells, with a prefix.
func (p *goPackage) rowTypes(prefix string) map[string]bool {
	rows := make(map[string]bool)
	p.eachStruct(func(name string, s *ast.StructType) {
		if celllist.HasTable(defaultTable(name)) {
			rows[prefix+name] = true
		}
		for _, field := range s.Fields.List {
			if field.Tag == nil {
				continue
			}
			if m := tableTag.FindStringSubmatch(field.Tag.Value); m != nil && celllist.HasTable(m[1]) {
				rows[prefix+name] = true
			}
		}
	})
	return rows
}

// defaultTable returns the table of a type without a tag: delivery_attempts for DeliveryAttempt.
func defaultTable(name string) string {
	snake := strings.ToLower(regexp.MustCompile(`(.)([A-Z])`).ReplaceAllString(name, "${1}_$2"))
	if singular, ok := strings.CutSuffix(snake, "y"); ok {
		return singular + "ies"
	}
	return snake + "s"
}

// isCell reports whether a type is a cell, a transaction in one, or has one.
func (p *goPackage) isCell(of ast.Expr) bool {
	name := strings.TrimPrefix(typeName(of), "*")
	return name == "db.Cell" || name == "db.CellTx" || p.holders[name] ||
		p.dir == "db" && (name == "Cell" || name == "CellTx")
}

// typeName returns the text of a simple type, such as *db.Cell.
func typeName(of ast.Expr) string {
	switch e := of.(type) {
	case *ast.StarExpr:
		return "*" + typeName(e.X)
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr:
		return typeName(e.X)
	}
	return ""
}

// statement matches a cell's table in a statement.
var statement = regexp.MustCompile(`(?i)\b(FROM|JOIN|INTO|UPDATE|TABLE|ONLY)\s+(` +
	strings.Join(celllist.Tables, "|") + `)\b`)

// alone matches a text that is a cell's table, perhaps with an alias.
var alone = regexp.MustCompile(`^(` + strings.Join(celllist.Tables, "|") + `)( AS \w+)?( \(|$)`)

// takesTable are the functions with a table as an argument.
var takesTable = []string{"Table", "TableExpr", "ModelTableExpr", "Ident", "copyTable", "putChunks"}

// namesTable reports whether a literal below a node is a statement on a cell's table, or, with all,
// the name of one. Otherwise only names that are arguments of builders count.
func namesTable(node ast.Node, all bool) (found bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			found = found || err == nil && (statement.MatchString(text) || all && alone.MatchString(text))
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "table" && namesTable(n.Value, true) {
				found = true
			}
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(takesTable, s.Sel.Name) {
				found = found || slices.ContainsFunc(n.Args, func(arg ast.Expr) bool { return namesTable(arg, true) })
			}
		}
		return !found
	})
	return found
}

// touches reports whether a node names a cell's table: in a literal, by a constant or variable, or
// by the type of a row in a function that uses models.
func (p *goPackage) touches(node ast.Node) bool {
	if namesTable(node, false) {
		return true
	}

	var named, models, rows bool
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			models = models || n.Sel.Name == "Model"
			rows = rows || p.models[typeName(n)]
		case *ast.Ident:
			named, rows = named || p.named[n.Name], rows || p.rows[n.Name]
		}
		return true
	})
	return named || models && rows
}

// check calls report for each fault, and returns how many functions name a table of cells.
func (p *goPackage) check(report func(function, fault string)) (functions int) {
	for _, file := range p.files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil || !p.touches(f) {
				continue
			}
			functions++
			if !p.hasCell(f) {
				report(f.Name.Name, "names a table of cells, and has no db.Cell or db.CellTx")
			}
			p.checkStatements(f, report)
		}
	}
	return functions
}

// callersOf returns the functions that call a method of a name.
func (p *goPackage) callersOf(method string) (names []string) {
	for _, file := range p.files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			calls := false
			ast.Inspect(f.Body, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				calls = calls || ok && s.Sel.Name == method && typeName(s.X) != "db"
				return true
			})
			if calls {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// cellMethods return a cell or a transaction in one.
var cellMethods = []string{"OfSite", "ofSite", "OfAccount", "DefaultCell", "Cell", "EnterCell", "EnterSite"}

// hasCell reports whether a function has a cell: its receiver, a parameter, one of a function
// within, or a variable.
func (p *goPackage) hasCell(f *ast.FuncDecl) (has bool) {
	if f.Recv != nil && p.isCell(f.Recv.List[0].Type) {
		return true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			has = has || slices.ContainsFunc(n.Params.List, func(param *ast.Field) bool { return p.isCell(param.Type) })
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			has = has || ok && slices.Contains(cellMethods, s.Sel.Name)
		}
		return !has
	})
	return has
}

// commonPool matches a pool of the common tables.
var commonPool = regexp.MustCompile(`(^|\.)(d|db|Common)\.(Read|Write|DataRead|DataWrite)(\.DB)?$`)

// checkStatements reports the statements on cells' tables that use a common pool or transaction.
func (p *goPackage) checkStatements(f *ast.FuncDecl, report func(function, fault string)) {
	transactions := make(map[string]bool) // names of common transactions
	ast.Inspect(f, func(n ast.Node) bool {
		if of, ok := n.(*ast.FuncType); ok {
			for _, param := range of.Params.List {
				for _, name := range param.Names {
					switch typeName(param.Type) {
					case "*db.Tx", "*Tx":
						transactions[name.Name] = true
					case "*db.CellTx", "*CellTx":
						// The parameter of a function within hides a common one.
						delete(transactions, name.Name)
					}
				}
			}
		}

		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		base := baseOf(call)
		if (commonPool.MatchString(base) || transactions[base]) && p.touches(call) {
			report(f.Name.Name, base+" runs a statement on a table of cells")
			return false
		}
		return true
	})
}

// baseOf returns what a chain of calls begins with: s.db.Read of s.db.Read.NewSelect().Where("…").
func baseOf(call *ast.CallExpr) string {
	for {
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		next, ok := s.X.(*ast.CallExpr)
		if !ok {
			return path.Clean(typeName(s.X))
		}
		call = next
	}
}
