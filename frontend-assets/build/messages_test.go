package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// consoleTexts lists the folders of the console's sources with the files of messages that are
// loaded when they run.
var consoleTexts = map[string][]string{
	"core": {"en"}, "pages": {"en"}, "lines": {"en"}, "report": {"en"},
	"drilldown": {"en", "drilldown"}, "timeline": {"en", "timeline"}, "journeys": {"en", "journeys"}, "zip": {"en", "zip"}, "why": {"en", "why"},
	"provider": {"en", "provider", "parts"},
	"operator": {"en", "operator"}, "alerts": {"en", "alerts", "alertform", "deliveries", "menu", "parts"}, "import": {"en", "import", "menu"},
	"install": {"en", "install", "menu", "parts"},
	"parts":   {"en", "parts", "deliveries", "menu", "progress"},
	"site":    {"en", "site", "deliveries", "parts", "menu"}, "settings": {"en", "settings", "parts", "menu"}, "captcha": {"en", "captcha", "parts"},
	"account": {"en", "account", "parts"}, "audit": {"en", "audit", "parts"},
}

// TestMessages checks that each text that the console uses is loaded with its module, that no key
// has two texts, and that the German ones are complete and loaded together with the English ones.
func TestMessages(t *testing.T) {
	root, err := assetsRoot()
	testkit.NoError(t, err)

	console := filepath.Join(root, "src/console")
	key := regexp.MustCompile(`(?m)^  '?([\w.-]+)'?:`)
	keysOf := func(name string) []string {
		text, err := os.ReadFile(filepath.Join(console, "messages", name+".ts"))
		testkit.NoError(t, err)

		var keys []string
		for _, match := range key.FindAllStringSubmatch(string(text), -1) {
			keys = append(keys, match[1])
		}
		return keys
	}

	german := make(map[string]string)
	for _, name := range []string{"de", "de-pages", "de-audit"} {
		for _, k := range keysOf(name) {
			if other, ok := german[k]; ok {
				t.Errorf("%s is in the messages %s and %s", k, other, name)
			}
			german[k] = name
		}
	}

	files := make(map[string]string)
	for _, name := range []string{
		"en", "drilldown", "timeline", "journeys", "why", "zip", "site", "install", "settings", "captcha", "account", "audit", "operator", "provider",
		"import", "alerts", "alertform", "deliveries", "menu", "parts", "progress",
	} {
		for _, k := range keysOf(name) {
			if other, ok := files[k]; ok {
				t.Errorf("%s is in the messages %s and %s", k, other, name)
			}
			if files[k] = name; german[k] == "" {
				t.Errorf("%s has no German text", k)
			}
			if (name == "en") != (german[k] == "de") || (name == "audit") != (german[k] == "de-audit") {
				t.Errorf("%s of the messages %s is in the messages %s", k, name, german[k])
			}
		}
	}

	// Keys that are put together, such as t(`role.${role}`), are typed by the compiler alone.
	use := regexp.MustCompile(`\bt\('([\w.-]+)'`)
	uses := 0
	for folder, loaded := range consoleTexts {
		paths, err := filepath.Glob(filepath.Join(console, folder, "*.ts*"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has %d files, %v", folder, len(paths), err)
		}

		for _, path := range paths {
			text, err := os.ReadFile(path)
			testkit.NoError(t, err)
			for _, match := range use.FindAllStringSubmatch(string(text), -1) {
				uses++
				if !strings.Contains(" "+strings.Join(loaded, " ")+" ", " "+files[match[1]]+" ") {
					t.Errorf("%s uses %s, which is in the messages %q", filepath.Base(path), match[1], files[match[1]])
				}
			}
		}
	}
	if uses < 100 {
		t.Errorf("only %d uses of texts were found", uses)
	}
}
