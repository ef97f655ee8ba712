package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestUnknownVariables checks that commands of the service refuse variables that are no settings,
// without their values, and write nothing. Other commands ignore them.
func TestUnknownVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"TALLYGATE_BASEURL=hunter2":      "TALLYGATE_BASEURL is not a setting; did you mean TALLYGATE_BASE_URL?",
		"TALLYGATE_TRUSTED_PROXY=::1":    "TALLYGATE_TRUSTED_PROXY is not a setting; did you mean TALLYGATE_TRUSTED_PROXIES?",
		"TALLYGATE_DEMO_ADR=x":           "TALLYGATE_DEMO_ADR is not a setting; did you mean TALLYGATE_DEMO_ADDR?",
		"TALLYGATE_WRITER_LANES=2":       "TALLYGATE_WRITER_LANES is not a setting",
		"TALLYGATE_PORT=8080":            "TALLYGATE_PORT is not a setting",
		"TALLYGATE_CONTROL_SERVICE=http": "TALLYGATE_CONTROL_SERVICE is not a setting",
	} {
		for _, command := range []string{"serve", "demo", "migrate", ""} {
			t.Run(variable+" "+command, func(t *testing.T) {
				dir := t.TempDir()
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)

				var out, log bytes.Buffer
				status := Run(t.Context(), append(strings.Fields(command), "--data-dir", dir), &out, &log)
				if got := log.String(); status != 2 || got != "tallygate: "+want+"\n" {
					t.Errorf("exit status %d, %q, want %q", status, got, want)
				}
				if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
					t.Errorf("the refused command wrote %v, %v", files, err)
				}

				testkit.Equal(t, Run(t.Context(), []string{"version"}, &out, &log), 0, "another command: exit status")
			})
		}
	}
}

// TestOtherVariables checks that variables with other purposes, and empty ones, are no settings by
// mistake.
func TestOtherVariables(t *testing.T) {
	for name, value := range map[string]string{
		"TALLYGATE_TEST_POSTGRES_URL": "postgres://127.0.0.1/x",
		"TALLYGATE_API_TOKEN":         "tga_x", "TALLYGATE_URL": "https://app.example.com",
		"TALLYGATE_SERVICE_HOST": "10.0.0.1", "TALLYGATE_SERVICE_PORT": "80", "TALLYGATE_SERVICE_PORT_HTTP": "80",
		"TALLYGATE_PORT": "tcp://10.0.0.1:80", "TALLYGATE_PORT_80_TCP": "tcp://10.0.0.1:80",
		"TALLYGATE_PORT_80_TCP_PROTO": "tcp", "TALLYGATE_PORT_80_TCP_PORT": "80", "TALLYGATE_PORT_80_TCP_ADDR": "10.0.0.1",
		"TALLYGATE_CONTROL_SERVICE_HOST": "10.0.0.1", "TALLYGATE_CONTROL_PORT": "tcp://10.0.0.1:80",
		"TALLYGATE_WRITER_LANES": "",
	} {
		t.Setenv(name, value)
	}

	parsed(t, []string{"serve"})
}
