package report

import (
	"encoding/csv"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// This file formats measurements, for people and for the files in docs/operator/figures.

// CSV returns the rows of a text's Markdown tables as CSV, and its other lines as comments.
func CSV(text string) (string, error) {
	var out strings.Builder
	rows := csv.NewWriter(&out)

	for line := range strings.Lines(strings.ReplaceAll(text, "**", "")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "|---"):
		case strings.HasPrefix(line, "|"):
			if err := rows.Write(strings.Split(strings.Trim(line, "| "), " | ")); err != nil {
				return "", err
			}
			rows.Flush()
		default:
			fmt.Fprintln(&out, "#", line)
		}
	}

	return out.String(), rows.Error()
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
