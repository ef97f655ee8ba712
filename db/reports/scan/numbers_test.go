package scan_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

var numbersDay = model.At(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)).Day()

// vitals makes a day with an event for each object of properties. Each has a visit of its own.
func vitals(day model.Day, objects []string) segment.Rows {
	rows := segment.Rows{Day: day}
	for i, object := range objects {
		key := segment.VisitKey{Visitor: model.VisitorID{byte(i), byte(i >> 8)}, N: 1}
		at := day.Start().Add(time.Duration(i) * time.Second)
		rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: []string{"direct", "email"}[i%2],
			Client: model.Client{Device: []model.Device{"desktop", "phone"}[i%2]}})
		rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, Path: "/", Width: -1})
		rows.Events = append(rows.Events, segment.Event{VisitKey: key, At: at, ID: int64(i), Name: "vitals",
			Path: fmt.Sprintf("/%d", i%3), Properties: object})
	}
	return rows
}

// TestNumbersBeyondLimits checks that numbers stay exact when their texts have no rows of their
// own: in days, in a month of such days, and in a month whose days have rows for them.
func TestNumbersBeyondLimits(t *testing.T) {
	testkit.SkipLong(t, "a site with many rows")
	for name, test := range map[string]struct {
		days, events      int
		daysCut, monthCut bool
	}{
		"days":  {2, segment.DayLimits.ValuesOf + 200, true, false},
		"month": {5, segment.DayLimits.ValuesOf - 50, false, true},
		"both":  {4, segment.DayLimits.ValuesOf + 200, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 5))
			var days []segment.Rows
			var segments []*segment.Segment
			for n := range test.days {
				objects := make([]string, test.events)
				for i := range objects {
					lcp := strconv.FormatFloat(r.Float64()*4_000, 'f', 4+r.IntN(9), 64)
					objects[i] = fmt.Sprintf(`{"lcp":%s,"cls":"%v","mixed":"%d%s"}`, lcp, r.Float64()/10, r.IntN(1e6), []string{"", "x"}[i%2])
				}
				day := vitals(numbersDay+model.Day(n), objects)
				days = append(days, day)
				segments = append(segments, buildNumbers(t, day))
				testkit.Require(t, len(segments[n].Numbers) > 0, test.daysCut, "day %d has %d numbers", n, len(segments[n].Numbers))
			}
			merged, err := segment.Merge(segments)
			testkit.NoError(t, err)
			again, err := segment.Merge([]*segment.Segment{merged})
			testkit.NoError(t, err)
			if isCut := len(merged.Numbers) > 0; isCut != test.daysCut && isCut != test.monthCut {
				t.Fatalf("the month has %d numbers", len(merged.Numbers))
			}

			from := scan.DateOf(numbersDay.Start().Time())
			q := &scan.Query{Zone: time.UTC, From: from, To: from.AddDays(test.days - 1)}
			for _, property := range []string{"lcp", "cls", "mixed"} {
				q.Numbers = append(q.Numbers,
					scan.Numbers{Event: "vitals", Property: property}, scan.Numbers{Event: "vitals", Property: property, Groups: scan.NumberPoints},
					scan.Numbers{Event: "vitals", Property: property, Groups: scan.NumberRows, By: scan.Page})
			}
			for d := range test.days + 1 {
				q.Points = append(q.Points, from.AddDays(d).Start(time.UTC))
			}

			want := oracle.Count(q, days)
			for i := 0; i < len(q.Numbers); i += 3 {
				if f := want.Numbers[i][""]; f.Numbers < int64(test.days*test.events/2) {
					t.Fatalf("%s: the count by lists has %d numbers", q.Numbers[i].Property, f.Numbers)
				}
			}
			oracle.Check(t, "days", want, result(t, q, segments))
			oracle.Check(t, "the month", want, result(t, q, []*segment.Segment{merged}))
			oracle.Check(t, "the month merged twice", want, result(t, q, []*segment.Segment{again}))
		})
	}
}

func buildNumbers(t *testing.T, rows segment.Rows) *segment.Segment {
	t.Helper()
	g, err := segment.Build(rows)
	testkit.NoError(t, err)
	return g
}

// TestUnknownNumbers checks that events with properties that may be any are counted apart.
func TestUnknownNumbers(t *testing.T) {
	const events = 1_500
	var objects []string
	for i := range events {
		objects = append(objects, fmt.Sprintf(`{"n":%d,"name%d":1}`, i, i))
	}
	g := buildNumbers(t, vitals(numbersDay, objects))
	from := scan.DateOf(numbersDay.Start().Time())
	check := func(name string, g *segment.Segment, property string, numbers, unknown int64) {
		t.Helper()
		q := &scan.Query{Zone: time.UTC, From: from, To: from, Numbers: []scan.Numbers{{Event: "vitals", Property: property}}}
		f := result(t, q, []*segment.Segment{g}).Numbers[0].Figures[0]
		if f.Events != events || f.Numbers != numbers || f.Unknown != unknown {
			t.Errorf("%s: %+v; want %d numbers, %d unknown", name, f, numbers, unknown)
		}
	}

	check("with numbers", g, "n", events, 0)
	// 299 of the names have rows of their own, in addition to n. Which ones is no promise.
	own := int64(segment.DayLimits.Names - 1)
	check("a property that no event has", g, "missing", 0, events-own)
	check("a property named as the row of others", g, scan.OtherValue, 0, events-own)
}

// TestNumbersOfSmallGroups checks that values of few visitors with a number are one row with exact
// figures, and that points and hours of few such visitors have no figures.
func TestNumbersOfSmallGroups(t *testing.T) {
	// The pages /0, /1 and /2 have 3, 2 and 2 visitors, and 2, 1 and 1 visitors with a number.
	objects := []string{`{"n":1}`, `{"n":5}`, `{"n":9}`, `{}`, `{"n":"x"}`, `{}`, `{"n":3}`}
	g, err := segment.Build(vitals(numbersDay, objects))
	testkit.NoError(t, err)
	from := scan.DateOf(numbersDay.Start().Time())
	for least, want := range map[int][]string{0: {"/0", "/1", "/2"}, 2: {"(other)", "/0"}, 3: {"(other)"}} {
		q := &scan.Query{Zone: time.UTC, From: from, To: from,
			Numbers: []scan.Numbers{{Event: "vitals", Property: "n", Groups: scan.NumberRows, By: scan.Page, Least: least}}}
		rows := result(t, q, []*segment.Segment{g}).Numbers[0]
		if !slices.Equal(rows.Values, want) || rows.Other != (least > 0) {
			t.Errorf("least %d: rows %q, other %v; want %q", least, rows.Values, rows.Other, want)
		}
		if other, ok := rows.Of(scan.OtherValue); least == 3 && (!ok || other.Events != 7 || other.Numbers != 4 || other.Sum != 18 ||
			other.Percentiles[0] != 3 || other.Visitors != 7 || other.Carriers != 4) {
			t.Errorf("all groups are small: %+v", other)
		}
	}

	for least, isSmall := range map[int]bool{0: false, 4: false, 5: true, 7: true} {
		points := []time.Time{from.Start(time.UTC), from.AddDays(1).Start(time.UTC)}
		q := &scan.Query{Zone: time.UTC, From: from, To: from, Points: points, Numbers: []scan.Numbers{
			{Event: "vitals", Property: "n", Groups: scan.NumberPoints, Least: least},
			{Event: "vitals", Property: "n", Groups: scan.NumberRows, By: scan.HourOfDay, Least: least},
		}}
		for _, count := range result(t, q, []*segment.Segment{g}).Numbers {
			f := count.Figures[0]
			if f.Small != isSmall || (f.Sum == 18) == isSmall || (f.Max == 9) == isSmall || f.Numbers != 4 || count.Other {
				t.Errorf("least %d: %+v", least, f)
			}
		}
	}
}

// TestSumsOfNumbers checks known sums, and that random ones equal those of fractions in any order.
func TestSumsOfNumbers(t *testing.T) {
	figures := func(numbers []float64) scan.NumberFigures {
		var objects []string
		for _, number := range numbers {
			objects = append(objects, `{"n":`+strconv.FormatFloat(number, 'g', -1, 64)+`}`)
		}
		g, err := segment.Build(vitals(numbersDay, objects))
		testkit.NoError(t, err)
		from := scan.DateOf(numbersDay.Start().Time())
		q := &scan.Query{Zone: time.UTC, From: from, To: from, Numbers: []scan.Numbers{{Event: "vitals", Property: "n"}}}
		return result(t, q, []*segment.Segment{g}).Numbers[0].Figures[0]
	}

	for _, test := range []struct {
		numbers      []float64
		sum, average float64
	}{
		{[]float64{0.1, 0.2}, 0.3, 0.15},
		{[]float64{1e16, 1, -1e16}, 1, 1.0 / 3},
		{[]float64{math.MaxFloat64, math.MaxFloat64}, math.Inf(1), math.MaxFloat64},
		{[]float64{math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64}, math.SmallestNonzeroFloat64, 0},
		{[]float64{-math.MaxFloat64, -math.MaxFloat64}, math.Inf(-1), -math.MaxFloat64},
		{[]float64{0}, 0, 0},
	} {
		if f := figures(test.numbers); f.Sum != test.sum || f.Average != test.average {
			t.Errorf("%v: sum %v, average %v; want %v, %v", test.numbers, f.Sum, f.Average, test.sum, test.average)
		}
	}

	r := rand.New(rand.NewPCG(9, 9))
	for range 60 {
		numbers := make([]float64, 1+r.IntN(30))
		exact := new(big.Rat)
		for i := range numbers {
			numbers[i] = math.Float64frombits(r.Uint64())
			if r.IntN(2) == 0 || math.IsNaN(numbers[i]) || math.IsInf(numbers[i], 0) {
				numbers[i] = math.Round(r.NormFloat64()*1e6) / 1e4
			}
			decimal, _ := new(big.Rat).SetString(strconv.FormatFloat(numbers[i], 'g', -1, 64))
			exact.Add(exact, decimal)
		}

		want, _ := exact.Float64()
		first := figures(numbers)
		r.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		if again := figures(numbers); again != first || first.Sum != want {
			t.Fatalf("%v: sum %v and %v, want %v", numbers, first.Sum, again.Sum, want)
		}
	}
}

// TestNumbersEnd checks that the computation of figures ends with the context.
func TestNumbersEnd(t *testing.T) {
	g := buildNumbers(t, vitals(numbersDay, []string{`{"n":1}`, `{"n":2}`}))
	from := scan.DateOf(numbersDay.Start().Time())
	q := &scan.Query{Zone: time.UTC, From: from, To: from, Numbers: []scan.Numbers{{Event: "vitals", Property: "n"}}}
	ctx, cancel := context.WithCancel(t.Context())
	s := scan.NewWithin(ctx, q, nil)
	testkit.NoError(t, s.Add(g))
	cancel()
	if r, err := s.End(); !errors.Is(err, context.Canceled) || r.Numbers[0].Figures[0].Sum != 0 {
		t.Errorf("%+v, %v", r.Numbers[0].Figures[0], err)
	}
}

// BenchmarkSpreadNumbers counts 10,000 pages with two numbers each, of exponents that are far
// apart.
func BenchmarkSpreadNumbers(b *testing.B) {
	rows := vitals(numbersDay, slices.Repeat([]string{`{"n":1e-300}`, `{"n":1e300}`}, 10_000))
	for i := range rows.Events {
		rows.Events[i].Path = fmt.Sprintf("/%d", i/2)
	}
	g, err := segment.Build(rows)
	testkit.NoError(b, err)
	from := scan.DateOf(numbersDay.Start().Time())
	q := &scan.Query{Zone: time.UTC, From: from, To: from,
		Numbers: []scan.Numbers{{Event: "vitals", Property: "n", Groups: scan.NumberRows, By: scan.Page}}}
	for b.Loop() {
		b.StopTimer()
		s := scan.New(q)
		testkit.NoError(b, s.Add(g))
		b.StartTimer()
		if n := len(s.Result().Numbers[0].Values); n != 10_000 {
			b.Fatalf("%d rows", n)
		}
	}
}

// TestParseNumber checks which values of properties are numbers, and that a second parser agrees.
func TestParseNumber(t *testing.T) {
	for text, want := range numberTexts {
		if n, ok := segment.ParseNumber(text).Value(); fmt.Sprint(n, ok) != want && (ok || want != "no") {
			t.Errorf("%q: %v (%v), want %s", text, n, ok, want)
		}
	}
}

var numberTexts = map[string]string{
	"0": "0 true", "-0": "0 true", "-0.0e5": "0 true", "12": "12 true", "-1.50": "-1.5 true", "1e3": "1000 true", "1E+2": "100 true",
	"2e-1": "0.2 true", "9007199254740993": "9.007199254740992e+15 true", "5e-324": "5e-324 true",
	"1.7976931348623157e308": "1.7976931348623157e+308 true",
	"":                       "no", "-": "no", "+1": "no", "01": "no", "1.": "no", ".5": "no", "1e": "no", "1e+": "no", "1.5.2": "no",
	" 1": "no", "1 ": "no", "1,5": "no",
	"0x1": "no", "NaN": "no", "Infinity": "no", "1_000": "no", "1e400": "no", "-1e400": "no", "1e-400": "no", "true": "no", "١": "no", "1\n": "no",
	"\x00": "no", "(other)": "no",
}

func FuzzParseNumber(f *testing.F) {
	for text := range numberTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := segment.ParseNumber(text).Value()
		want, isNumber := oracle.NumberOf(text)
		if ok != isNumber || ok && got != want {
			t.Errorf("%q: %v (%v), want %v (%v)", text, got, ok, want, isNumber)
		}
	})
}

// BenchmarkNumbers counts the numbers of a month of 100,000 events with different ones: their
// totals, the points of a series, and the rows of pages.
func BenchmarkNumbers(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var segments []*segment.Segment
	const days, perDay = 30, 3_300
	for n := range days {
		objects := make([]string, perDay)
		for i := range objects {
			objects[i] = fmt.Sprintf(`{"lcp":%.1f,"cls":%.4f}`, 500+2_000*r.ExpFloat64(), r.Float64()/5)
		}
		g, err := segment.Build(vitals(numbersDay+model.Day(n), objects))
		testkit.NoError(b, err)
		segments = append(segments, g)
	}
	g, err := segment.Merge(segments)
	testkit.NoError(b, err)

	from := scan.DateOf(numbersDay.Start().Time())
	asked := oracle.AllNumbers("vitals", "lcp")
	page := slices.IndexFunc(asked, func(n scan.Numbers) bool { return n.Groups == scan.NumberRows && n.By == scan.Page })
	for name, numbers := range map[string][]scan.Numbers{"none": nil, "totals": asked[:1], "series": asked[1:2], "pages": asked[page : page+1]} {
		b.Run(name, func(b *testing.B) {
			q := &scan.Query{Zone: time.UTC, From: from, To: from.AddDays(days - 1), Numbers: numbers}
			for d := range days + 1 {
				q.Points = append(q.Points, from.AddDays(d).Start(time.UTC))
			}
			for b.Loop() {
				s := scan.New(q)
				testkit.NoError(b, s.Add(g))
				if r := s.Result(); len(numbers) > 0 && r.Numbers[0].Figures[0].Numbers == 0 {
					b.Fatal("no numbers were counted")
				}
			}
		})
	}
}
