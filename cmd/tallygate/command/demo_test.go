package command

import (
	"bytes"
	"testing"
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

		var cli commands
		var out bytes.Buffer
		parser, err := newParser(t.Context(), &cli, terminal{out: &out, log: &out}, func(int) {})
		if err != nil {
			t.Fatal(err)
		}

		if _, err := parser.Parse(append([]string{"demo"}, test.args...)); err != nil || cli.DataDir != test.want {
			t.Errorf("%q %q: %q, %v; want %q", test.variable, test.args, cli.DataDir, err, test.want)
		}
	}
}
