package bench

import (
	"fmt"
	"strings"

	"github.com/tallygate/tallygate/tools/loadgen/captcha"
	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// benchTables returns the report as Markdown tables.
func benchTables(reports []*EngineReport, c *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; medians of %d rounds of %v, client, server and database on the same cores.\n\n",
		report.Machine(), c.Rounds, c.Duration)
	b.WriteString("| database | calls | connections | a second | of the empty handler | of bulk copy | p50 ms | p99 ms | p99 of the empty handler's | µs CPU a call: server + database | empty handler | memory MB | failed |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")

	for _, r := range reports {
		for _, m := range r.Measurements {
			ofBulk := "–"

			if m.OfBulk > 0 {
				ofBulk = fmt.Sprintf("%.3f", m.OfBulk)
			}

			fmt.Fprintf(&b, "| %s | %s | %d | %.0f | %.2f | %s | %.2f | %.2f | %.2f | %.1f + %.1f | %.1f | %.0f | %s |\n", m.Engine, m.Mix, m.Connections,
				m.Throughput, m.OfNoop, ofBulk, m.P50, m.P99, m.P99OfNoop, m.ServerCPU, m.DatabaseCPU, m.NoopCPU,
				report.Megabytes(m.PeakMemory), report.Marked(m.FailedShare))
		}
	}

	b.WriteString("\n| goal | measured | met |\n|---|---|---|\n")

	for _, g := range goals(reports) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", g.what, g.measured, report.YesNo(g.met))
	}

	b.WriteString("\n")

	for _, r := range reports {
		fmt.Fprintf(&b, "%s copies %.0f page views a second in bulk. Of the hits of these runs %d were acknowledged, %d lost, %d duplicated, %d wrong.\n",
			r.Engine, r.BulkRate, r.Verdict.Acknowledged, r.Verdict.Lost, r.Verdict.Duplicated, r.Verdict.Wrong)

		fmt.Fprintf(&b, "Of the captcha tokens %d were accepted, %d of them twice; %d genuine ones were refused, and the account's usage is %s.\n",
			r.Captcha.Accepted, r.Captcha.Doubled, r.Captcha.Lost,
			map[bool]string{true: "their number", false: "**another number**"}[r.Captcha.Wrong == 0])
	}

	return b.String()
}

// goal is a goal of the project with the measured value.
type goal struct {
	what, measured string
	met            bool
}

// goals compares the reports with the goals of docs/performance.md.
func goals(reports []*EngineReport) []goal {
	var all []goal
	add := func(met bool, what, format string, args ...any) {
		all = append(all, goal{what: what, measured: fmt.Sprintf(format, args...), met: met})
	}

	// The shares of the empty handler's rate, the bytes on disk and the bytes of log.
	least := map[string]map[int]float64{"sqlite": {128: 0.35, 256: 0.35}, "postgres": {128: 0.40, 256: 0.40}}
	stored := map[string]float64{"sqlite": 120, "postgres": 175}
	const logged = 440

	// Four connections must not be slower than before their batches were made cheaper.
	p50 := map[string]float64{"sqlite": 0.97, "postgres": 1.69}

	for _, r := range reports {
		memory, failed := int64(0), 0.0
		for _, m := range r.Measurements {
			memory, failed = max(memory, m.PeakMemory), max(failed, m.FailedShare)

			if m.Mix == captcha.StepNames[captcha.Redeeming] && m.Engine == "postgres" && m.Connections == 128 {
				add(m.OfNoop >= 0.52, "postgres, 128 connections: siteverify at least 0.52 of the empty handler", "%.2f",
					m.OfNoop)
			}
			if m.Mix != openMix {
				continue
			}

			name := fmt.Sprintf("%s, %d connections: ", m.Engine, m.Connections)

			if want := least[m.Engine][m.Connections]; want > 0 {
				add(m.OfNoop >= want, fmt.Sprintf("%sat least %.2f of the empty handler", name, want), "%.2f", m.OfNoop)
			}

			if m.Connections == 4 {
				want := p50[m.Engine]
				add(m.P50 <= want, fmt.Sprintf("%sp50 at most %.2f ms", name, want), "%.2f ms", m.P50)
			}

			if m.Connections == 128 {
				add(m.OpenP99OfNoop <= 3, name+"open loop at half of that rate, p99 at most 3 times the empty handler's",
					"%.2f, %.2f ms at %.0f/s", m.OpenP99OfNoop, m.OpenP99, m.OpenRate)

				want := stored[m.Engine]
				add(m.BytesPerHit <= want, fmt.Sprintf("%sat most %.0f bytes a page view on disk, visits included", name, want),
					"%.0f", m.BytesPerHit)

				if m.Engine == "postgres" {
					add(m.LogPerHit <= logged, fmt.Sprintf("%sat most %d bytes of log a page view", name, logged), "%.0f",
						m.LogPerHit)
				}
			}
		}

		add(failed == 0, r.Engine+": no call is refused or left without an answer", "%s", report.Percent(failed))
		add(memory <= 256<<20, r.Engine+": at most 256 MB under load", "%.0f MB", report.Megabytes(memory))
		add(r.IdleMemory <= 80<<20, r.Engine+": at most 80 MB idle, all roles", "%.0f MB",
			report.Megabytes(r.IdleMemory))
	}

	return all
}
