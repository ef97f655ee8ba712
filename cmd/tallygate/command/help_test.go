package command

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jessevdk/go-flags"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestHelp checks that the help of every command is the one in testdata/help.txt. A change of a
// text there is a change for users. With -update it writes the file.
func TestHelp(t *testing.T) {
	const file = "testdata/help.txt"

	parser, err := newParser(new(config.Config))
	testkit.NoError(t, err)

	var b strings.Builder
	for _, line := range append(commandLines("", parser.Command, "--help"), "--help-settings") {
		fmt.Fprintf(&b, "$ tallygate %s\n%s\n", line, helpOf(t, line))
	}

	if *updatePages {
		testkit.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}

	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s is not current (%v): run this test with -update, and read the difference", file, err)
	}
}

// commandLines returns the words of a command and of all commands below it, with a flag.
func commandLines(path string, command *flags.Command, flag string) []string {
	lines := []string{path + flag}
	for _, child := range command.Commands() {
		lines = append(lines, commandLines(path+child.Name+" ", child, flag)...)
	}
	return lines
}

// helpOf returns the help that a command line prints.
func helpOf(t *testing.T, line string) string {
	t.Helper()

	var out bytes.Buffer
	testkit.Require(t, Run(t.Context(), strings.Fields(line), &out, &out), 0, "%s: exit status", line)
	return out.String()
}
