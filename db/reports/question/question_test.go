package question

import (
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/tools/testkit"
)

// noon is the time of the questions of these tests: 2026-03-10, 12:00 in Berlin.
var noon = time.Date(2026, time.March, 10, 11, 0, 0, 0, time.UTC)

// ask returns a question about days of March 2026.
func ask(t *testing.T, from, to int) *Question {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	testkit.NoError(t, err)
	day := func(n int) scan.Date { return scan.Date{Year: 2026, Month: time.March, Day: n} }
	return &Question{
		Site: &model.Site{ID: 7}, Zone: zone, Now: model.At(noon), Days: period.Period{From: day(from), To: day(to)},
	}
}

// is returns a filter by a dimension.
func is(by model.ReportDimension, values ...string) model.ReportFilter {
	return model.ReportFilter{Dimension: by, Operator: model.OperatorIs, Values: values}
}

func TestComparedPeriodEndsAtTheSameTime(t *testing.T) {
	for _, test := range []struct {
		from, to int
		until    string
	}{
		{10, 10, "2026-03-09 12:00"},
		{4, 10, "2026-03-03 12:00"},
		{3, 9, ""}, // is over
	} {
		q := ask(t, test.from, test.to)
		shift := period.Before(q.Days, false)
		q.Shift = &shift

		request, err := q.Request()
		if err != nil || len(request.Periods) != 2 || request.Checks != 0 {
			t.Fatalf("%d to %d: %+v, %v", test.from, test.to, request, err)
		}
		got := ""
		if until := request.Periods[1].Until; !until.IsZero() {
			got = until.In(q.Zone).Format("2006-01-02 15:04")
		}
		testkit.Equal(t, got, test.until, "%d to %d: compared until", test.from, test.to)
	}
}

func TestRequestOfDays(t *testing.T) {
	sums := &scan.Imported{Series: scan.ImportWholeDays}
	for name, test := range map[string]struct {
		to       int
		interval period.Interval
		imported *scan.Imported
		want     bool
	}{
		"imported sums":             {9, "", sums, true},
		"hours were chosen":         {9, period.Hour, sums, false},
		"a week has days":           {15, "", sums, false},
		"nothing was imported":      {9, "", nil, false},
		"imported hits have hours":  {9, "", &scan.Imported{}, false},
		"days were chosen, no sums": {9, period.Day, nil, false},
	} {
		q := ask(t, 9, test.to)
		q.Series, q.Interval = true, test.interval
		request, ok := q.RequestOfDays(&reports.Answer{Results: []*scan.Result{{Imported: test.imported}}})
		testkit.Equal(t, ok, test.want, "%s", name)
		if ok && len(request.Periods[0].Points) != 2 {
			t.Errorf("%s: points %v, want the bounds of one day", name, request.Periods[0].Points)
		}
	}
}

func TestTooManyPoints(t *testing.T) {
	q := ask(t, 1, 31)
	q.Series, q.Interval = true, period.Hour
	_, err := q.Request()
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Field != "interval" {
		t.Errorf("hours of a month: %v", err)
	}
}

// TestChecksOfSmallGroups checks which questions are counted with a check: those with a personal
// filter of the reader, once for each dimension and period.
func TestChecksOfSmallGroups(t *testing.T) {
	for name, test := range map[string]struct {
		least      int
		own, fixed []model.ReportFilter
		checks     int
	}{
		"all groups are shown": {0, []model.ReportFilter{is(model.DimensionCountry, "DE")}, nil, 0},
		"a group of one":       {1, []model.ReportFilter{is(model.DimensionCountry, "DE")}, nil, 0},
		"a personal filter":    {3, []model.ReportFilter{is(model.DimensionCountry, "DE")}, nil, 2},
		"two dimensions": {3, []model.ReportFilter{
			is(model.DimensionCountry, "DE"), is(model.DimensionBrowser, "Firefox"), is(model.DimensionCountry, "FR"),
		}, nil, 4},
		"a page":                   {3, []model.ReportFilter{is(model.DimensionPage, "/")}, nil, 0},
		"the segment of the owner": {3, nil, []model.ReportFilter{is(model.DimensionCountry, "DE")}, 0},
	} {
		q := ask(t, 1, 9)
		shift := period.Before(q.Days, false)
		q.Shift, q.Least, q.Filters, q.Fixed = &shift, test.least, test.own, test.fixed

		request, err := q.Request()
		if err != nil || request.Checks != test.checks || len(request.Periods) != 2+test.checks {
			t.Errorf("%s: %d checks of %d queries, %v; want %d", name, request.Checks, len(request.Periods), err, test.checks)
		}
	}
}

func TestSmallAtom(t *testing.T) {
	for _, test := range []struct {
		visitors map[string]int64
		want     []string
	}{
		{map[string]int64{"a": 9, "b": 3}, nil},
		{map[string]int64{"a": 9, "b": 2, "c": 1}, []string{"c", "b"}},
		{map[string]int64{"a": 9, "b": 5, "c": 1}, []string{"c", "b"}}, // one alone would be known by subtraction
		{map[string]int64{"a": 1}, []string{"a"}},
	} {
		rows := func(yield func(string, scan.Figures) bool) {
			for value, n := range test.visitors {
				if !yield(value, scan.Figures{Visitors: n}) {
					return
				}
			}
		}
		testkit.EqualSlices(t, smallAtom(rows, 3), test.want, "%v", test.visitors)
	}
}

func TestWeeks(t *testing.T) {
	q := ask(t, 4, 15)
	weeks, err := q.Weeks()
	want := Weeks{scan.Date{Year: 2026, Month: time.March, Day: 2}, scan.Date{Year: 2026, Month: time.March, Day: 10}}
	if err != nil || weeks != want {
		t.Errorf("%v, %v; want %v", weeks, err, want)
	}

	q.Days.From.Year = 2024
	if _, err := q.Weeks(); err == nil {
		t.Error("two years of weeks are accepted")
	}
}
