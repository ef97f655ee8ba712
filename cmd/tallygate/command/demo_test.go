package command

import (
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestDemoDataDir: the demo has its own data folder unless one is configured, whatever its name.
func TestDemoDataDir(t *testing.T) {
	for _, test := range []struct {
		variable string
		args     []string
		want     string
	}{
		{"", nil, demoDataDir},
		{"", []string{"--data-dir", "./tallygate-data"}, "./tallygate-data"},
		{"", []string{"--data-dir=./other"}, "./other"},
		{"./tallygate-data", nil, "./tallygate-data"},
	} {
		t.Setenv("TALLYGATE_DATA_DIR", test.variable)

		settings, _ := parsed(t, append([]string{"demo"}, test.args...))
		testkit.Equal(t, settings.DataDir, test.want, "%q %q", test.variable, test.args)
	}
}
