package rules_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/alerts/rules"
	"github.com/tallygate/tallygate/tools/testkit"
)

// A simulated week. Each shape is a site with four weeks of history and a week in which the rules
// run every five minutes, as the worker runs them. A minute's page views are a random number with
// the shape's rate, and the rate itself varies from day to day and from hour to hour, as people do.

const (
	history   = 6 // weeks before the simulated one: the longest span begins before the fourth
	evaluated = 5 * time.Minute
)

// shape is a kind of site.
type shape struct {
	name    string
	zone    string
	perHour func(local time.Time, week int) float64 // week 0 is the simulated one, 1 the one before
	days    float64                                 // deviation of a day's factor
	hours   float64                                 // deviation of an hour's factor
}

// daylight is a curve with its peak 1 at an hour and its minimum twelve hours apart.
func daylight(local time.Time, peak, least float64) float64 {
	hour := float64(local.Hour()) + float64(local.Minute())/60
	return least + (1-least)*(1+math.Cos((hour-peak)*math.Pi/12))/2
}

func isWeekend(t time.Time) bool { return t.Weekday() == time.Saturday || t.Weekday() == time.Sunday }

func office(local time.Time) float64 {
	hour := float64(local.Hour()) + float64(local.Minute())/60
	if isWeekend(local) || hour < 7.5 || hour >= 18.5 {
		return 0.01
	}
	return min(1, (hour-7.5)*1.5+0.02, (18.5-hour)*1.5+0.02)
}

var shapes = []shape{
	{"busy shop", "Europe/Berlin", func(at time.Time, _ int) float64 {
		rate := 3_000 * daylight(at, 19, 0.04)
		if isWeekend(at) {
			rate *= 1.3
		}
		if at.Weekday() == time.Thursday && at.Hour() == 10 { // the newsletter
			rate *= 2
		}
		return rate
	}, 0.12, 0.10},
	{"small blog", "Europe/London", func(at time.Time, week int) float64 {
		rate := 10 * daylight(at, 17, 0.15)
		if week == 2 && at.Weekday() == time.Tuesday { // an article that many read
			rate *= 8
		}
		return rate
	}, 0.20, 0.30},
	{"tiny site", "Europe/Madrid", func(at time.Time, _ int) float64 { return 1.2 * daylight(at, 17, 0.2) }, 0.3, 0.4},
	{"office hours", "Europe/Paris", func(at time.Time, _ int) float64 { return 900 * office(at) }, 0.08, 0.10},
	{"night gap", "America/New_York", func(at time.Time, _ int) float64 {
		if at.Hour() < 6 {
			return 0
		}
		return 700 * daylight(at, 15, 0.1)
	}, 0.12, 0.15},
	{"campaign", "Europe/Rome", func(at time.Time, week int) float64 {
		rate := 500 * daylight(at, 16, 0.1)
		switch {
		case week == 1 && (at.Weekday() == time.Tuesday || at.Weekday() == time.Wednesday):
			rate *= 5 // it has ended since
		case week == 0 && at.Weekday() == time.Friday && at.Hour() >= 9 && at.Hour() < 18:
			rate *= 1.8 // a small one
		}
		return rate
	}, 0.12, 0.15},
	{"holiday", "Europe/Berlin", func(at time.Time, week int) float64 {
		rate := 900 * office(at)
		if week == 3 && at.Weekday() == time.Monday || week == 0 && at.Weekday() == time.Thursday {
			rate *= 0.12
		}
		return rate
	}, 0.08, 0.10},
	{"growing", "Asia/Kolkata", func(at time.Time, week int) float64 {
		return 400 * daylight(at, 14, 0.2) * math.Pow(1.2, float64(4-week))
	}, 0.12, 0.15},
	{"shrinking", "Australia/Sydney", func(at time.Time, week int) float64 {
		return 2_000 * daylight(at, 13, 0.2) * math.Pow(0.8, float64(4-week))
	}, 0.12, 0.15},
	{"news", "America/Sao_Paulo", func(at time.Time, week int) float64 {
		rate := 30_000 * daylight(at, 12, 0.1)
		if (at.YearDay()*7+at.Hour()*3+week)%11 == 0 && at.Minute() < 30 { // an urgent message
			rate *= 1.9
		}
		return rate
	}, 0.10, 0.10},
}

// fault is what is planted into the simulated week.
type fault struct {
	name   string
	event  model.AlertEvent
	day    time.Weekday
	hour   int
	length time.Duration
	factor float64
	plus   float64 // page views an hour in addition
}

// traffic are the page views of a site by minute.
type traffic struct {
	began time.Time
	sums  []int64 // before each minute
}

// between counts the page views from one time to another one.
func (t *traffic) between(s rules.Span) int64 {
	at := func(x time.Time) int { return min(max(0, int(x.Sub(t.began)/time.Minute)), len(t.sums)-1) }
	return t.sums[at(s.To)] - t.sums[at(s.From)]
}

// last returns the last minute with a page view before a time, within a length.
func (t *traffic) last(now time.Time, within time.Duration) (time.Time, bool) {
	for at := now; now.Sub(at) < within; {
		at = at.Add(-time.Minute)
		if t.between(rules.Span{From: at, To: at.Add(time.Minute)}) > 0 {
			return at, true
		}
	}
	return time.Time{}, false
}

// poisson returns a random number with a mean.
func poisson(random *rand.Rand, mean float64) int64 {
	if mean > 15 {
		return max(0, int64(math.Round(mean+math.Sqrt(mean)*random.NormFloat64())))
	}

	n, product, limit := int64(0), random.Float64(), math.Exp(-mean)
	for product > limit {
		n++
		product *= random.Float64()
	}
	return n
}

// simulate returns the traffic of a shape until the end of the week that begins at monday.
func simulate(s shape, monday time.Time, seed uint64, planted *fault) *traffic {
	random := rand.New(rand.NewPCG(seed, uint64(len(s.name))))
	zone := monday.Location()
	began := monday.AddDate(0, 0, -7*history)
	end := monday.AddDate(0, 0, 7)

	all := &traffic{began: began, sums: []int64{0}}
	day, hour := 1.0, 1.0
	total := int64(0)
	for at := began; at.Before(end); at = at.Add(time.Minute) {
		local := at.In(zone)
		if local.Minute() == 0 {
			hour = math.Exp(s.hours * random.NormFloat64())
			if local.Hour() == 0 {
				day = math.Exp(s.days * random.NormFloat64())
			}
		}

		week := 0
		if at.Before(monday) {
			week = 1 + int(monday.Sub(at)-1)/int(7*24*time.Hour)
		}
		rate := s.perHour(local, week) * day * hour
		if planted != nil {
			rate = planted.apply(rate, monday, at)
		}
		total += poisson(random, rate/60)
		all.sums = append(all.sums, total)
	}
	return all
}

func (f *fault) began(monday time.Time) time.Time {
	day := (int(f.day) + 6) % 7
	return time.Date(monday.Year(), monday.Month(), monday.Day()+day, f.hour, 0, 0, 0, monday.Location())
}

func (f *fault) apply(rate float64, monday, at time.Time) float64 {
	if began := f.began(monday); !at.Before(began) && at.Before(began.Add(f.length)) {
		return rate*f.factor + f.plus
	}
	return rate
}

// alarm is an alert of the simulated week.
type alarm struct {
	event        model.AlertEvent
	began, ended time.Time
	figures      model.AlertFigures
}

// run evaluates the rules of traffic during the week that begins at monday.
func run(all *traffic, monday time.Time) (alarms []alarm) {
	open := make(map[model.AlertEvent]*model.Alert)
	for now := monday; now.Before(monday.AddDate(0, 0, 7)); now = now.Add(evaluated) {
		for event, found := range findings(all, now, monday.Location()) {
			at := model.At(now)
			switch rules.Next(event, found.Reading, open[event], at) {
			case rules.Begin:
				open[event] = &model.Alert{Event: event, BeganAt: at, SeenAt: at}
				alarms = append(alarms, alarm{event: event, began: now, figures: found.Figures})
			case rules.See:
				open[event].SeenAt = at
			case rules.End:
				delete(open, event)
				i := len(alarms) - 1
				for alarms[i].event != event {
					i--
				}
				alarms[i].ended = now
			}
		}
	}
	slices.SortFunc(alarms, func(a, b alarm) int { return a.began.Compare(b.began) })
	return alarms
}

// findings returns what the rules find at a time.
func findings(all *traffic, now time.Time, zone *time.Location) map[model.AlertEvent]rules.Finding {
	var days rules.Days
	for i := range rules.DaysRead {
		to := now.Truncate(24*time.Hour).AddDate(0, 0, -i)
		days = append(days, all.between(rules.Span{From: to.AddDate(0, 0, -1), To: to}))
	}

	span := rules.Span{From: now.Add(-days.Span()), To: now}
	t := rules.Traffic{Length: days.Span(), Value: all.between(span)}
	for i, span := range rules.PastSpans(span, zone) {
		t.Past = append(t.Past, days.Scaled(all.between(span), i+1))
	}

	silence := rules.Silence{For: rules.LongestSilence}
	if last, ok := all.last(now, rules.LongestSilence); ok {
		silence = rules.Silence{Last: model.At(last), For: now.Sub(last)}
	}
	for _, span := range rules.PastSilences(rules.Span{From: now.Add(-silence.For), To: now}, zone) {
		silence.Past = append(silence.Past, all.between(span))
	}

	return map[model.AlertEvent]rules.Finding{
		model.AlertTrafficSpike: rules.Spike(t), model.AlertTrafficDrop: rules.Drop(t),
		model.AlertNoHits: rules.NoHits(silence),
	}
}

// mondays are the simulated weeks: a common one, and both changes of the clocks in Europe.
var mondays = []struct{ name, day string }{
	{"common", "2026-09-14"}, {"end of summer time", "2026-10-19"}, {"after it", "2026-10-26"}, {"summer time", "2026-03-23"},
}

// TestQuietWeek counts the alarms of weeks in which nothing was planted, with several seeds. The
// holiday of this week is traffic that no earlier week has, and the only false alarm that is
// allowed.
func TestQuietWeek(t *testing.T) {
	testkit.SkipLong(t, "weeks of many sites")
	const seeds = 2
	for _, week := range mondays {
		for seed := range uint64(seeds) {
			alarms := 0
			for _, s := range shapes {
				for _, a := range run(simulate(s, monday(t, week.day, s.zone), seed, nil), monday(t, week.day, s.zone)) {
					alarms++
					t.Logf("%s, seed %d: %s: %s from %s to %s, %d instead of %d", week.name, seed, s.name, a.event,
						a.began.Format("Mon 15:04"), a.ended.Format("Mon 15:04"), a.figures.Value, a.figures.Usual)
				}
			}
			if alarms > 1 {
				t.Errorf("%s, seed %d: %d false alarms, want at most 1", week.name, seed, alarms)
			}
		}
	}
}

func monday(t *testing.T, day, zone string) time.Time {
	t.Helper()
	location, err := model.TimeZone(zone)
	testkit.NoError(t, err)
	at, err := time.ParseInLocation(time.DateOnly, day, location)
	testkit.NoError(t, err)
	return at
}

// TestPlantedFaults plants faults into each shape that they concern.
func TestPlantedFaults(t *testing.T) {
	outage := fault{"outage", model.AlertNoHits, time.Tuesday, 14, 4 * time.Hour, 0, 0}
	broken := fault{"most pages lost", model.AlertTrafficDrop, time.Tuesday, 13, 4 * time.Hour, 0.1, 0}
	long := fault{"outage of two days", model.AlertTrafficDrop, time.Tuesday, 9, 48 * time.Hour, 0, 0}
	spike := fault{"six times the traffic", model.AlertTrafficSpike, time.Wednesday, 14, 3 * time.Hour, 6, 0}
	readers := fault{"400 readers an hour", model.AlertTrafficSpike, time.Wednesday, 20, 6 * time.Hour, 1, 400}
	night := fault{"robots at night", model.AlertTrafficSpike, time.Thursday, 3, 2 * time.Hour, 1, 1_500}

	tests := []struct {
		shape  string
		faults []fault
		within []time.Duration
	}{
		{"busy shop", []fault{outage, broken, spike, night}, minutes(35, 75, 60, 100)},
		{"small blog", []fault{long, readers}, minutes(20*60, 90)},
		{"tiny site", []fault{readers}, minutes(60)},
		{"office hours", []fault{outage, broken, spike, night}, minutes(40, 75, 75, 30)},
		{"night gap", []fault{outage, broken, spike, night}, minutes(40, 75, 75, 30)},
		{"campaign", []fault{outage, broken, spike, night}, minutes(40, 75, 75, 30)},
		{"growing", []fault{outage, broken, spike}, minutes(40, 75, 75)},
		{"shrinking", []fault{outage, broken, spike}, minutes(40, 75, 75)},
		{"news", []fault{outage, broken, spike}, minutes(35, 30, 15)},
	}

	for n, test := range tests {
		t.Run(test.shape, func(t *testing.T) {
			if n >= 4 {
				testkit.SkipLong(t, "many simulated weeks")
			}
			i := slices.IndexFunc(shapes, func(s shape) bool { return s.name == test.shape })
			for k, f := range test.faults {
				var slowest time.Duration
				for seed := range uint64(2) {
					week := monday(t, "2026-09-14", shapes[i].zone)
					alarms := run(simulate(shapes[i], week, seed, &f), week)

					began := f.began(week)
					first := slices.IndexFunc(alarms, func(a alarm) bool {
						return a.event == f.event && !a.began.Before(began) && a.began.Before(began.Add(f.length))
					})
					if first < 0 {
						t.Errorf("%s, seed %d: %q was not found", test.shape, seed, f.name)
						continue
					}

					slowest = max(slowest, alarms[first].began.Sub(began))
					count := 0
					for _, a := range alarms {
						if a.event == f.event {
							count++
						}
					}
					if count != 1 {
						t.Errorf("%s, seed %d: %q began %d alerts, want 1", test.shape, seed, f.name, count)
					}
					if alarms[first].ended.IsZero() {
						t.Errorf("%s, seed %d: the alert of %q never ended", test.shape, seed, f.name)
					}
				}
				t.Logf("%-13s %-24s found after at most %.0f minutes", test.shape, f.name, slowest.Minutes())
				if slowest > test.within[k] {
					t.Errorf("%s: %q was found after %s, want %s", test.shape, f.name, slowest, test.within[k])
				}
			}
		})
	}
}

func minutes(n ...int) (d []time.Duration) {
	for _, n := range n {
		d = append(d, time.Duration(n)*time.Minute)
	}
	return d
}
