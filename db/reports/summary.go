package reports

import (
	"cmp"
	"context"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// summaryRows is how many pages and names of sources a summary has.
const summaryRows = 5

// Summary returns the figures of a mail: those of the days from and to of the site's time zone and
// of those in between, and those of as many days before. They equal the figures of a report.
func (s *Store) Summary(ctx context.Context, site *model.Site, from, to model.Day) (*model.ReportSummary, error) {
	zone, err := site.Zone()
	if err != nil {
		return nil, err
	}
	now, err := s.db.Now(ctx)
	if err != nil {
		return nil, err
	}

	first, last := scan.DateOf(from.Start().Time()), scan.DateOf(to.Start().Time())
	days := int(to-from) + 1
	answer, err := s.Report(ctx, Request{SiteID: site.ID, Now: now, Periods: []*scan.Query{
		{Zone: zone, From: first, To: last, Breakdowns: []scan.Breakdown{{By: scan.Page}, {By: scan.SourceName}}},
		{Zone: zone, From: first.AddDays(-days), To: last.AddDays(-days)},
	}})
	if err != nil {
		return nil, err
	}

	r := answer.Results[0]
	return &model.ReportSummary{
		Figures: summaryFigures(&r.Totals), Previous: summaryFigures(&answer.Results[1].Totals),
		Pages: topRows(r.Breakdowns[0]), Sources: topRows(r.Breakdowns[1]),
	}, nil
}

// LiveVisitors returns how many visitors were on the site in the last 5 minutes.
func (s *Store) LiveVisitors(ctx context.Context, site *model.Site, now model.Instant) (int64, error) {
	live, err := s.Live(ctx, site.ID, now)
	if err != nil {
		return 0, err
	}
	return live.Visitors, nil
}

func summaryFigures(f *scan.Figures) model.ReportFigures {
	return model.ReportFigures{Visitors: f.Visitors, Visits: f.Visits, Pageviews: f.Pageviews}
}

// topRows returns the values with the most visitors. An empty one stands for visits without a
// value.
func topRows(figures *scan.Rows) []model.ReportRow {
	var rows []model.ReportRow
	for value, f := range figures.All() {
		if f.Visitors > 0 {
			rows = append(rows, model.ReportRow{Value: value, Visitors: f.Visitors})
		}
	}
	slices.SortFunc(rows, func(a, b model.ReportRow) int {
		return cmp.Or(cmp.Compare(b.Visitors, a.Visitors), cmp.Compare(a.Value, b.Value))
	})
	return rows[:min(summaryRows, len(rows))]
}
