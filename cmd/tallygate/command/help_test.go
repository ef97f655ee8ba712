package command

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestHelp checks that the help of every command is the one in testdata/help.txt. A change of a
// text there is a change for users. With -update it writes the file.
func TestHelp(t *testing.T) {
	const file = "testdata/help.txt"
	t.Setenv("COLUMNS", "5000") // each flag on its own line

	parser, err := newParser(t.Context(), new(commands), terminal{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}

	// The settings are the same for all commands, so the file has them once.
	serve := helpOf(t, "serve")
	settings := slices.DeleteFunc(slices.Clone(serve), func(line string) bool {
		return !strings.Contains(line, "($TALLYGATE_")
	})

	var b strings.Builder
	for _, path := range commandPaths(parser.Model.Node) {
		fmt.Fprintf(&b, "$ tallygate %s --help\n", path)
		lines := helpOf(t, path)
		if path != "serve" {
			lines = withoutSettings(lines, settings)
		}
		b.WriteString(strings.Join(lines, "\n") + "\n\n")
	}

	if *updatePages {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s is not current (%v): run this test with -update, and read the difference", file, err)
	}
}

// commandPaths returns the words of the program itself, of groups and of commands.
func commandPaths(node *kong.Node) []string {
	paths := []string{strings.TrimPrefix(strings.TrimPrefix(node.FullPath(), "tallygate"), " ")}
	for _, child := range node.Children {
		paths = append(paths, commandPaths(child)...)
	}
	return paths
}

// helpOf returns the lines that a command's --help prints, without their columns.
func helpOf(t *testing.T, path string) []string {
	t.Helper()

	var out bytes.Buffer
	if status := Run(t.Context(), append(strings.Fields(path), "--help"), &out, &out); status != 0 {
		t.Fatalf("%s --help: exit status %d", path, status)
	}

	var lines []string
	for line := range strings.Lines(out.String()) {
		if words := strings.Join(strings.Fields(line), " "); words != "" {
			lines = append(lines, words)
		}
	}
	return lines
}

// withoutSettings replaces the settings in a command's help by their number.
func withoutSettings(lines, settings []string) []string {
	rest := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return slices.Contains(settings, line)
	})
	if n := len(lines) - len(rest); n > 0 {
		rest = append(rest, fmt.Sprintf("(%d settings as serve has them)", n))
	}
	return rest
}
