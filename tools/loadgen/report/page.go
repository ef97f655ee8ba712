package report

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// This file writes measurements as Markdown, into the sections of docs/operator/performance.md that are made
// by the program.

// ReplaceSection replaces the text between the two markers of a section in a Markdown file.
func ReplaceSection(path, name, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, okEnd := strings.Cut(rest, end)
	if !ok || !okEnd {
		return fmt.Errorf("%s has no section between %q and %q", path, strings.TrimSpace(begin), end)
	}

	return os.WriteFile(path, []byte(before+begin+"\n"+strings.TrimSpace(text)+"\n\n"+end+after), 0o644)
}

// Machine describes the machine and the date of a measurement.
func Machine() string {
	return fmt.Sprintf("%s, %d cores, %s/%s, %s",
		time.Now().UTC().Format("2 January 2006"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// Percent formats a share of failures.
func Percent(share float64) string {
	if share == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f %%", 100*share)
}

// Marked is Percent in bold type, unless the share is 0.
func Marked(share float64) string {
	if share == 0 {
		return "0"
	}
	return "**" + Percent(share) + "**"
}

// YesNo formats a truth value. A no is in bold type.
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "**no**"
}

// Median returns the middle value. It returns the lower middle value of an even number of values,
// and 0 without values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
