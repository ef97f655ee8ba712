package test

import (
	"maps"
	"strings"
	"testing"
)

// TestFailuresAreLogLines checks that with LOG_FORMAT=json the reason of a failed start is a JSON
// line too.
func TestFailuresAreLogLines(t *testing.T) {
	t.Parallel()

	settings := settingsFor(t, "sqlite:")
	for _, test := range []struct {
		name, setting, value string
		args                 []string
		want                 string
		status               int
	}{
		{"a wrong value", "TALLYGATE_ROLES", "cook", nil, "TALLYGATE_ROLES", 2},
		{"an unknown flag", "TALLYGATE_ROLES", "data", []string{"serve", "--cook"}, "--cook", 2},
		{"an address that is taken", "TALLYGATE_CONTROL_ADDR", "203.0.113.1:1", []string{"serve"}, "TALLYGATE_CONTROL_ADDR", 1},
		{"of migrate", "TALLYGATE_DATABASE_URL", "postgres://x@127.0.0.1:1/x?connect_timeout=1", []string{"migrate"},
			"prepare the database", 1},
		{"by flag", "TALLYGATE_LOG_FORMAT", "text", []string{"serve", "--log-format", "json", "--control-addr", "x"},
			"--control-addr", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()

			own := maps.Clone(settings)
			own["TALLYGATE_DATA_DIR"], own[test.setting] = t.TempDir(), test.value
			status, _, log := tallygate(t, own, test.args...)
			lines := strings.Split(strings.TrimSpace(log), "\n")
			last := lines[len(lines)-1]
			if status != test.status || !strings.HasPrefix(last, `{"time":"`) ||
				!strings.Contains(last, `"level":"ERROR"`) || !strings.Contains(last, test.want) {
				t.Errorf("exit status %d, want %d with a line of JSON that names %s:\n%s",
					status, test.status, test.want, log)
			}
		})
	}

	if _, _, log := tallygate(t, settings, "serve", "--log-format=text", "--roles", "cook"); !strings.HasPrefix(log,
		"tallygate: --roles") {
		t.Errorf("as text: %s", log)
	}
}
