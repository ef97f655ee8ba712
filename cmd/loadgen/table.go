package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// This file writes measurements as Markdown, into the sections of docs/performance.md that are made
// by the program.

// replaceSection replaces what stands between the two markers of a section.
func replaceSection(path, name, text string) error {
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

// machine describes where it was measured, and when.
func machine() string {
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", time.Now().UTC().Format("2 January 2006"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// benchTables is the report of a bench.
func benchTables(reports []*engineReport, c *benchCommand) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; medians of %d rounds of %v, client, server and database on the same cores.\n\n", machine(), c.Rounds, c.Duration)
	b.WriteString("| database | calls | connections | a second | of the empty handler | of bulk copy | p50 ms | p99 ms | p99 of the empty handler's | µs CPU a call: server + database | empty handler | memory MB | failed |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")

	for _, r := range reports {
		for _, m := range r.Measurements {
			ofBulk := "–"

			if m.OfBulk > 0 {
				ofBulk = fmt.Sprintf("%.3f", m.OfBulk)
			}

			fmt.Fprintf(&b, "| %s | %s | %d | %.0f | %.2f | %s | %.2f | %.2f | %.2f | %.1f + %.1f | %.1f | %.0f | %s |\n", m.Engine, m.Mix, m.Connections,
				m.Throughput, m.OfNoop, ofBulk, m.P50, m.P99, m.P99OfNoop, m.ServerCPU, m.DatabaseCPU, m.NoopCPU, megabytes(m.PeakMemory), marked(m.FailedShare))
		}
	}

	b.WriteString("\n| goal | measured | met |\n|---|---|---|\n")

	for _, g := range goals(reports) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", g.what, g.measured, yesNo(g.met))
	}

	b.WriteString("\n")

	for _, r := range reports {
		fmt.Fprintf(&b, "%s copies %.0f page views a second in bulk. Of the hits of these runs %d were acknowledged, %d lost, %d duplicated, %d wrong.\n",
			r.Engine, r.BulkRate, r.Verdict.Acknowledged, r.Verdict.Lost, r.Verdict.Duplicated, r.Verdict.Wrong)

		fmt.Fprintf(&b, "Of the captcha tokens %d were accepted, %d of them twice; %d genuine ones were refused, and the account's usage is %s.\n",
			r.Captcha.Accepted, r.Captcha.Doubled, r.Captcha.Lost, map[bool]string{true: "their number", false: "**another number**"}[r.Captcha.Wrong == 0])
	}

	return b.String()
}

// goal is one of the project's goals with what was measured.
type goal struct {
	what, measured string
	met            bool
}

// goals compares with the goals of docs/performance.md.
func goals(reports []*engineReport) []goal {
	var all []goal
	add := func(met bool, what, format string, args ...any) {
		all = append(all, goal{what: what, measured: fmt.Sprintf(format, args...), met: met})
	}

	least := map[string]map[int]float64{"sqlite": {128: 0.30, 256: 0.30}, "postgres": {128: 0.40, 256: 0.45}}

	for _, r := range reports {
		memory, failed := int64(0), 0.0
		for _, m := range r.Measurements {
			memory, failed = max(memory, m.PeakMemory), max(failed, m.FailedShare)

			if m.Mix == stepNames[redeeming] && m.Engine == "postgres" && m.Connections == 128 {
				add(m.OfNoop >= 0.5, "postgres, 128 connections: siteverify at least 0.50 of the empty handler", "%.2f", m.OfNoop)
			}
			if m.Mix != "pageviews" {
				continue
			}

			name := fmt.Sprintf("%s, %d connections: ", m.Engine, m.Connections)

			if want := least[m.Engine][m.Connections]; want > 0 {
				add(m.OfNoop >= want, fmt.Sprintf("%sat least %.2f of the empty handler", name, want), "%.2f", m.OfNoop)
			}

			add(m.P99OfNoop <= 1.5, name+"p99 at most 1.5 of the empty handler's", "%.2f", m.P99OfNoop)

			if m.Connections == 4 {
				add(m.P50 <= 1, name+"p50 at most 1 ms", "%.2f ms", m.P50)
			}

			if m.Connections == 128 {
				add(m.ServerCPU <= 28, name+"at most 28 µs of the server's CPU a hit", "%.1f µs, of which the empty handler takes %.1f", m.ServerCPU, m.NoopCPU)
				add(m.BytesPerHit <= 175, name+"at most 175 bytes a page view on disk, visits included", "%.0f", m.BytesPerHit)

				if m.Engine == "postgres" {
					add(m.LogPerHit <= 460, name+"at most 460 bytes of log a page view", "%.0f", m.LogPerHit)
				}
			}
		}

		add(failed == 0, r.Engine+": no call is refused or left without an answer", "%s", percent(failed))
		add(memory <= 256<<20, r.Engine+": at most 256 MB under load", "%.0f MB", megabytes(memory))
		add(r.IdleMemory <= 80<<20, r.Engine+": at most 80 MB idle, all roles", "%.0f MB", megabytes(r.IdleMemory))
	}

	return all
}

// percent shows a share of failures, and marked lets it stand out unless it is nothing.
func percent(share float64) string {
	if share == 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f %%", 100*share)
}

func marked(share float64) string {
	if share == 0 {
		return "0"
	}
	return "**" + percent(share) + "**"
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "**no**"
}
