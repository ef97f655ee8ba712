package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/pgserver"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/program"
)

// fence is a fenced block of a document. Blocks within lists are indented.
var fence = regexp.MustCompile("(?ms)^( *)```(\\w*)\n(.*?)^ *```$")

// block is a fenced block of a document.
type block struct{ language, text string }

// documentSteps splits a block at the lines at which the table has a step.
func (b block) documentSteps(document string) []*documentStep {
	var all []*documentStep
	for line := range strings.Lines(b.text) {
		known := -1
		for i := range documentTable {
			if documentTable[i].document == document && strings.HasPrefix(line, documentTable[i].begins) {
				known = i
			}
		}

		switch {
		case known >= 0:
			step := documentTable[known]
			step.row = known
			all = append(all, &step)
		case len(all) == 0:
			begins, _, _ := strings.Cut(b.text, "\n")
			all = append(all, &documentStep{document: document, begins: begins, row: -1})
		}
		all[len(all)-1].text += line
	}
	return all
}

// documents returns the blocks of each Markdown file of the repository that has some.
func documents(t *testing.T) map[string][]block {
	t.Helper()
	all := map[string][]block{}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (path != root && strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin" || name == "testdata"):
			return fs.SkipDir
		case filepath.Ext(name) != ".md":
			return nil
		}

		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		for _, found := range fence.FindAllStringSubmatch(string(text), -1) {
			dedented := regexp.MustCompile("(?m)^"+found[1]).ReplaceAllString(found[3], "")
			all[name] = append(all[name], block{found[2], dedented})
		}
		return err
	})
	if err != nil || len(all) < 15 {
		t.Fatalf("%d documents, %v", len(all), err)
	}
	return all
}

// TestDocumentsCommands runs the commands of every document in their order, in one shell and one
// folder for each document, and checks what documentTable says. It fails for a block that is
// neither run nor in the table.
func TestDocumentsCommands(t *testing.T) {
	t.Parallel()
	used := make(map[int]bool)
	for name, blocks := range documents(t) {
		var commands []*documentStep
		for _, b := range blocks {
			steps := b.documentSteps(name)
			for _, step := range steps {
				used[step.row] = true
			}
			switch first := steps[0]; b.language {
			case "sh":
				commands = append(commands, steps...)
			case "json":
				if !json.Valid([]byte(b.text)) {
					t.Errorf("%s: %s is not JSON", name, b.text)
				}
				t.Logf("%s: json %.40q: parsed", name, first.begins)
			case "graphql":
				if filepath.Dir(name) != filepath.FromSlash("docs/owner") {
					t.Errorf("%s: TestGraphqlOfDocuments reads docs/owner only", name)
				}
				t.Logf("%s: graphql %.40q: TestGraphqlOfDocuments", name, first.begins)
			case "mermaid", "text":
			default:
				if b.language == "" && first.row < 0 {
					continue // an example without a language
				}
				if first.instead == "" {
					t.Errorf("%s: no step of documentTable begins a block of %q: %.60q", name, b.language, first.begins)
				}
				t.Logf("%s: %s %.40q: %s", name, b.language, first.begins, first.instead)
			}
		}

		if len(commands) > 0 {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				newReader(t).run(commands)
			})
		}
	}

	for i, step := range documentTable {
		if !used[i] {
			t.Errorf("%s has no block with a line that begins with %q", step.document, step.begins)
		}
	}
}

// reader is a user who enters a document's commands into a shell.
type reader struct {
	*testing.T
	root   string // folder of the shell, which stands for / as well
	shell  *exec.Cmd
	stdin  *os.File
	stdout *bufio.Scanner
	out    string // what the last step printed

	values   map[string]string // the document's names of what the test created
	settings map[string]string
	service  *process // nil while none runs
	owner    *testOwner
	site     testSite
	postgres *pgserver.Server
	want     int // page views in the backup
}

// standIn is a program that logs its call and does nothing: the machine of the test is not to be
// changed.
const standIn = "#!/bin/sh\necho \"${0##*/}\" >>\"$ROOT/stand-ins\"\n"

// programs are scripts on the PATH of a document's commands.
var programs = map[string]string{
	"apt": standIn, "systemctl": standIn, "certbot": standIn, "nginx": standIn, "make": standIn,
	"sudo": "#!/bin/sh\nexec \"$@\"\n",

	// A container sees the volumes in its root folder, which the test replaces.
	"docker": standIn + "[ \"$1\" = run ] || exit 0\nwhile [ \"$1\" != caddy:2 ]; do shift; done\nshift\nexec \"$@\"\n",
	"chown":  "#!/bin/sh\n",

	// Without arguments the program serves until it is stopped: until it has listened.
	"tallygate": `#!/bin/sh
[ $# = 0 ] || exec "$PROGRAM" "$@"
"$PROGRAM" 2>"$ROOT/served" &
until [ "$(grep -c '"role":"data"\|"role":"control"' "$ROOT/served")" = 2 ]; do
	kill -0 $! || { cat "$ROOT/served"; exit 1; }
	sleep 0.02
done
kill -TERM $!
wait $!
cat "$ROOT/served"
`,
}

// newReader starts a shell in a new folder with the settings of an installation.
func newReader(t *testing.T) *reader {
	r := &reader{T: t, root: t.TempDir(), settings: settingsFor(t, "sqlite:"), values: map[string]string{}}
	program, err := program.Path()
	testkit.NoError(t, err)
	repository, err := filepath.Abs("../../..")
	testkit.NoError(t, err)

	for _, folder := range []string{"programs", "backups", "elsewhere", "etc/tallygate", "usr/share/tallygate", "etc/nginx/conf.d",
		"var/lib/tallygate", "var/lib/tallygate-files", "var/lib/postgresql", "home"} {
		testkit.NoError(t, os.MkdirAll(r.path(folder), 0o700))
	}
	for name, script := range programs {
		r.write("programs/"+name, script)
	}
	r.write("programs/tallygate-admin", r.adminScript())

	// curl exits with an error for an answer with one.
	r.write("home/.curlrc", "fail\nsilent\nshow-error\n")
	for link, target := range map[string]string{
		"bin": r.path("programs"), "tallygate": r.path("programs/tallygate"), "docs": filepath.Join(repository, "docs"),
	} {
		testkit.NoError(t, os.Symlink(target, r.path(link)))
	}

	// The commands find the data in the folder of the shell.
	r.settings["TALLYGATE_DATA_DIR"] = r.path("tallygate-data")
	path := r.path("programs") + ":" + os.Getenv("PATH")
	if bin, err := pgserver.Bin(); err == nil {
		path += ":" + bin
	}
	r.shell = exec.Command("sh", "-e")
	r.shell.Dir = r.root
	r.shell.Env = append(newCommand(r.settings).Env, "PATH="+path, "PROGRAM="+program, "ROOT="+r.root, "HOME="+r.path("home"))
	r.shell.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.connect()
	return r
}

// connect starts the shell with pipes.
func (r *reader) connect() {
	r.Helper()
	stdin, write, err := os.Pipe()
	testkit.NoError(r, err)
	stdout, err := r.shell.StdoutPipe()
	testkit.NoError(r, err)

	r.shell.Stdin, r.shell.Stderr = stdin, os.Stderr
	testkit.NoError(r, r.shell.Start())
	stdin.Close()
	r.stdin, r.stdout = write, bufio.NewScanner(stdout)
	r.Cleanup(func() {
		write.Close()
		_ = r.shell.Wait()
	})
}

// path returns the path of a file below the folder that stands for /.
func (r *reader) path(name string) string { return filepath.Join(r.root, name) }

// write writes a file that can be run.
func (r *reader) write(name, text string) {
	r.Helper()
	testkit.NoError(r, os.WriteFile(r.path(name), []byte(text), 0o700))
}

// read returns a file.
func (r *reader) read(name string) string {
	r.Helper()
	text, err := os.ReadFile(r.path(name))
	testkit.NoError(r, err)
	return string(text)
}

// adminScript returns tallygate-admin of the package without a change of the user.
func (r *reader) adminScript() string {
	script := readDeploy(r.T, "packages/tallygate-admin")
	for pattern, with := range map[string]string{
		`(?m)^exec .*$`: `exec tallygate "$$@"`, `(?m)^\[ "\$\(id -u\)".*$`: "", `(/etc|/var/lib)/tallygate`: r.root + "$0",
	} {
		replaced := regexp.MustCompile(pattern).ReplaceAllString(script, with)
		if replaced == script {
			r.Errorf("tallygate-admin has no %s", pattern)
		}
		script = replaced
	}
	return script
}

// folders are absolute paths in documents that stand below the folder of the test.
var folders = regexp.MustCompile(`(^|[\s'"=>])(/(?:backups|elsewhere|etc|usr/share|var/lib|var/backups)/)`)

// literal returns the text of a step with the names of what the test created.
func (r *reader) literal(text string) string {
	for name, value := range r.values {
		text = strings.ReplaceAll(text, name, value)
	}
	return folders.ReplaceAllString(text, "${1}"+r.root+"${2}")
}

// sh runs commands in the shell, and returns what they printed. Each must succeed.
func (r *reader) sh(commands string) string {
	r.Helper()
	const done = "commands done"
	r.write("commands", commands)
	hung := time.AfterFunc(2*patience, func() { _ = r.shell.Process.Kill() })
	defer hung.Stop()

	fmt.Fprintf(r.stdin, ". '%s/commands' </dev/null >'%s/printed' 2>&1; echo %s\n", r.root, r.root, done)
	r.stdout.Scan()
	printed := r.read("printed")
	if r.stdout.Text() != done {
		r.Fatalf("the commands\n%s\nfailed:\n%s", commands, printed)
	}
	return printed
}

// run runs the steps of a document. The steps from one that takes long are a test of their own.
func (r *reader) run(steps []*documentStep) {
	for i, step := range steps {
		if step.long == "" {
			r.enter(step)
			continue
		}

		r.Run(step.long, func(t *testing.T) {
			testkit.SkipLong(t, step.long)
			rest := *r
			rest.T = t
			for _, step := range steps[i:] {
				rest.enter(step)
			}
		})
		return
	}
}

// enter runs a step and checks what it did.
func (r *reader) enter(step *documentStep) {
	r.Helper()
	if step.instead != "" {
		r.Logf("%s: %.60q: not run: %s", step.document, step.begins, step.instead)
		return
	}
	if step.before != nil {
		step.before(r)
	}

	r.write("stand-ins", "")
	r.out = r.sh(r.literal(step.text))
	called := slices.Compact(slices.Sorted(strings.FieldsSeq(r.read("stand-ins"))))
	if (len(called) > 0) != (step.except != "") {
		r.Errorf("%s: %q called stand-ins for %q: the table says %q", step.document, step.begins, called, step.except)
	}
	if step.check != nil {
		step.check(r)
	}

	result := "ran"
	if len(called) > 0 {
		result += fmt.Sprintf(", except %s: %s", strings.Join(called, ", "), step.except)
	} else if step.check != nil {
		result += " and checked"
	}
	r.Logf("%s: %.60q: %s", step.document, step.begins, result)
}
