package command

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
)

var updatePages = flag.Bool("update", false, "rewrite the generated pages of docs/")

// TestConfigurationPage checks that docs/configuration.md is what config.Config and config.Texts generate.
// With -update, as "make generate" calls it, it writes the page.
func TestConfigurationPage(t *testing.T) {
	const page = "../../../docs/configuration.md"
	want := configurationPage(t)

	if *updatePages {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is not current (%v): run make generate", page, err)
	}
}

// configurationPage returns the reference of all settings, from the same texts as --help.
func configurationPage(t *testing.T) string {
	t.Helper()

	parser, err := newParser(t.Context(), new(commands), terminal{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}

	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Generated from cmd/tallygate/config/config.go and texts.go by "make generate". Edit them, not this page. -->

Each setting is an environment variable or a flag of the same name: ` + "`TALLYGATE_DATA_DIR`" + ` or ` + "`--data-dir`" + `. A flag takes
precedence. An empty variable counts as unset. An invalid value stops the start with an error that names the setting. A list
is separated by commas.

| variable | default | meaning |
|---|---|---|
`)

	writeSettings(&b, parser.Model.Flags)
	for _, command := range parser.Model.Children {
		writeSettings(&b, command.Flags)
	}

	return b.String()
}

// writeSettings writes the flags that have an environment variable.
func writeSettings(b *strings.Builder, flags []*kong.Flag) {
	for _, flag := range flags {
		if len(flag.Tag.Envs) > 0 {
			b.WriteString(settingRow(flag))
		}
	}
}

// settingRow returns a setting as a row of the table.
func settingRow(setting *kong.Flag) string {
	value := "–"
	switch {
	case setting.HasDefault && setting.Default != "":
		value = "`" + setting.Default + "`"
	case setting.IsBool():
		value = "`false`"
	}

	meaning := setting.Help
	if more := config.Texts[setting.Name].More; more != "" {
		meaning += " " + more
	}

	return fmt.Sprintf("| `%s` | %s | %s |\n", setting.Tag.Envs[0], value, strings.ReplaceAll(meaning, "|", `\|`))
}
