package command

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/jessevdk/go-flags"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/testkit"
)

var updatePages = flag.Bool("update", false, "rewrite the generated pages of docs/")

// TestConfigurationPage checks that docs/operator/configuration.md is what config.Config and config.Texts
// generate. With -update, as "make generate" calls it, it writes the page.
func TestConfigurationPage(t *testing.T) {
	const page = "../../../docs/operator/configuration.md"
	want := configurationPage(t)

	if *updatePages {
		testkit.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	}

	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%s is not current (%v): run make generate", page, err)
	}
}

// configurationPage returns the reference of all settings, from the same texts as --help.
func configurationPage(t *testing.T) string {
	t.Helper()

	parser, err := newParser(new(config.Config))
	testkit.NoError(t, err)

	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Generated from cmd/tallygate/config/config.go and texts.go by "make generate". Edit them, not this page. -->

Each setting is an environment variable or a flag of the same name: ` + "`TALLYGATE_DATA_DIR`" + ` or ` + "`--data-dir`" + `. A flag takes
precedence. An empty variable counts as unset. An invalid value stops the start with an error that names the setting, and so does
a variable that begins with ` + "`TALLYGATE_`" + ` and is no setting. A list is separated by commas.

| variable | default | meaning |
|---|---|---|
`)

	for _, group := range parser.Groups() {
		writeSettings(&b, group.Options())
	}
	for _, command := range parser.Commands() {
		writeSettings(&b, command.Options())
	}

	return b.String()
}

// writeSettings writes the flags that have an environment variable.
func writeSettings(b *strings.Builder, settings []*flags.Option) {
	for _, setting := range settings {
		if setting.EnvDefaultKey != "" {
			b.WriteString(settingRow(setting))
		}
	}
}

// settingRow returns a setting as a row of the table.
func settingRow(setting *flags.Option) string {
	value := "–"
	switch {
	case len(setting.Default) > 0:
		value = "`" + setting.Default[0] + "`"
	case setting.Field().Type.Kind() == reflect.Bool:
		value = "`false`"
	}

	meaning := setting.Description
	if more := config.Texts[setting.LongName].More; more != "" {
		meaning += " " + more
	}

	return fmt.Sprintf("| `%s` | %s | %s |\n", setting.EnvDefaultKey, value, strings.ReplaceAll(meaning, "|", `\|`))
}
