package bench

import (
	"fmt"
	"strings"

	"github.com/tallygate/tallygate/tools/loadgen/report"
)

// busyDay is the number of page views a day from which separate goals apply to a site's reports.
const busyDay = 200_000

// goalOf returns the longest p95 of a dashboard in milliseconds, or 0 if there is no goal.
func (r *ReportsReport) goalOf(days int) float64 {
	busy := r.Pageviews/max(r.Days, 1) >= busyDay
	switch {
	case busy && days <= 30:
		return 400
	case busy:
		return 0
	case days <= 30:
		return 50
	case days <= 92:
		return 100
	default:
		return 250
	}
}

// find returns the measurement of a case in a period.
func (r *ReportsReport) find(days int, name string) (ReportPeriod, bool) {
	for _, p := range r.Periods {
		if p.Days == days && p.Case == name {
			return p, true
		}
	}
	return ReportPeriod{}, false
}

// reportsTable returns the measurements as Markdown tables.
func reportsTable(all []*ReportsReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, client, server and database on the same cores. Durations are in ms.\n\n", report.Machine())
	b.WriteString("| database | page views of the site | period | goal, p95 | p50 | p95 | met | p95 with a filter by page | by channel | p95 with a comparison | processor time |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")

	for _, r := range all {
		for _, days := range reportPeriods {
			p, ok := r.find(days, "all")
			if !ok {
				continue
			}
			page, _ := r.find(days, "page")
			channel, _ := r.find(days, "channel")
			compared, _ := r.find(days, "compared")

			goal, met := "–", "–"
			if limit := r.goalOf(days); limit > 0 {
				goal, met = fmt.Sprintf("%.0f", limit), report.YesNo(p.P95 <= limit)
			}
			fmt.Fprintf(&b, "| %s | %d in %d days | %d | %s | %.0f | %.0f | %s | %.0f | %.0f | %.0f | %.0f |\n", r.Engine, r.Pageviews,
				r.Days, days, goal, p.Median, p.P95, met, page.P95, channel.P95, compared.P95, p.CPU)
		}
	}

	b.WriteString("\n| goal | measured | met |\n|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| %s: at most 100 ms of processor time to build a day of 30,000 page views | %.0f ms | %s |\n",
			r.Engine, r.DayCPU, report.YesNo(r.DayCPU <= 100))
		fmt.Fprintf(&b, "| %s: hits with 10 dashboards of 30 days a second at least 0.90 of the rate without | %.2f of %.0f/s with %.1f/s | %s |\n",
			r.Engine, r.Collect, r.CollectRate, r.Dashboards, report.YesNo(r.Collect >= 0.9))
	}

	b.WriteString("\n")
	for _, r := range all {
		fmt.Fprintf(&b, "%s: filled in %.0f s; all reports built in %.0f s with %.0f s of processor time; segments of %.0f MB, %.1f bytes a page view; memory %.0f MB before the first report, at most %.0f MB.\n",
			r.Engine, r.FillSeconds, r.BuildSeconds, r.BuildCPU, report.Megabytes(r.SegmentBytes),
			float64(r.SegmentBytes)/float64(max(r.Pageviews, 1)), report.Megabytes(r.IdleMemory), report.Megabytes(r.PeakMemory))
	}
	return b.String()
}
