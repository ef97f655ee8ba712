package config

import (
	"maps"
	"strings"
	"testing"
)

// TestCellAddresses checks that addresses are assigned to their cells, and that errors name no
// password.
func TestCellAddresses(t *testing.T) {
	for text, want := range map[string]map[int64]string{
		"2=postgres://u:hunter2@a/x":                                {2: "postgres://u:hunter2@a/x"},
		"2=postgres://a/x, 3=postgresql://b:5433/x?sslmode=disable": {2: "postgres://a/x", 3: "postgresql://b:5433/x?sslmode=disable"},
		"12=postgres://a:5432,b:5433/x,3=postgres://c/x":            {12: "postgres://a:5432,b:5433/x", 3: "postgres://c/x"},
		"postgres://u:hunter2@a/x":                                  nil,
		"2=mysql://u:hunter2@a/x":                                   nil,
		"2=postgres://u:hunter2@a/x,2=postgres://u:hunter2@b/x":     nil,
		"1=postgres://u:hunter2@a/x":                                nil,
		"0=postgres://u:hunter2@a/x":                                nil,
		"99999999999999999999=postgres://u:hunter2@a/x":             nil,
		"hunter2,2=postgres://u:hunter2@a/x":                        nil,
		"2=postgres://u:hunter2@a/x,3=":                             nil,
		"2=postgres://u:hunter2@a/%zz":                              nil,
		"2=postgres://u:hunter2@a/x,three=postgres://hunter2@b/x":   nil,
	} {
		var c CellAddresses
		err := c.UnmarshalFlag(text)
		if !maps.Equal(c.URLs, want) || (err == nil) != (want != nil) {
			t.Errorf("%q is read as %v, error %v", text, c.URLs, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error names the password: %v", text, err)
		}
	}
}
