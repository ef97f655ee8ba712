package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestAdminScriptReadsSettings checks that tallygate-admin reads the service's settings as systemd 252
// does: backslashes between quotes and without quotes.
func TestAdminScriptReadsSettings(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("tallygate-admin runs as root")
	}

	settings := filepath.Join(t.TempDir(), "settings")
	script := regexp.MustCompile(`(?m)^settings=.*$`).ReplaceAllString(readDeploy(t, "packages/tallygate-admin"), "settings="+settings)
	script = regexp.MustCompile(`(?m)^exec .*$`).ReplaceAllString(script, `printf %s "$$TALLYGATE_SMTP_URL"`)

	for line, want := range map[string]string{
		`plain`: `plain`, `pa\\ss\wo"rd`: `pa\sswo"rd`, `"a\\b\"c\$d\x %s"`: `a\b"c$d\x %s`, `'a\b"c$d'`: `a\b"c$d`, ``: ``,
	} {
		text := "# a comment \\ with a backslash\nTALLYGATE_SMTP_URL=" + line + "\n"
		testkit.NoError(t, os.WriteFile(settings, []byte(text), 0o600))
		if got, err := exec.Command("sh", "-c", script, "sh", "accounts").CombinedOutput(); err != nil || string(got) != want {
			t.Errorf("%s is read as %q, %v; want %q", line, got, err, want)
		}
	}

	testkit.NoError(t, os.WriteFile(settings, []byte("TALLYGATE_SMTP_URL=a\\\nb\n"), 0o600))
	if got, err := exec.Command("sh", "-c", script, "sh", "accounts").CombinedOutput(); err == nil ||
		!strings.Contains(string(got), "ends with a backslash") {
		t.Errorf("a line that continues: %q, %v", got, err)
	}
}
