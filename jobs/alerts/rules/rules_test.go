package rules_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/alerts/rules"
	"github.com/tallygate/tallygate/tools/testkit"
)

const day = 24 * time.Hour

var noon = model.At(time.Date(2026, 9, 16, 12, 0, 0, 0, time.UTC))

// TestSpikeAndDrop checks the thresholds of both rules, below, at and above each one.
func TestSpikeAndDrop(t *testing.T) {
	const unsure, usual, between, unusual = rules.Unsure, rules.Usual, rules.Between, rules.Unusual

	steady := []int64{1_000, 1_000, 1_000, 1_000}
	tests := []struct {
		name        string
		value       int64
		past        []int64
		spike, drop rules.Reading
	}{
		{"no earlier week", 10_000, nil, unsure, unsure},
		{"two earlier weeks", 10_000, steady[:2], unsure, unsure},
		{"three earlier weeks", 10_000, steady[:3], unusual, usual},
		{"as usual", 1_000, steady, usual, usual},
		{"half as much again", 1_500, steady, usual, usual},
		{"more", 1_501, steady, between, usual},
		{"just below a spike", 3_499, steady, between, usual},
		{"a spike", 3_500, steady, unusual, usual},
		{"a spike like the one of another week", 4_000, []int64{1_000, 1_000, 1_000, 9_000}, unusual, usual},
		{"a spike like those of two other weeks", 4_000, []int64{1_000, 1_000, 9_000, 9_000}, usual, usual},
		{"less", 600, steady, usual, usual},
		{"still less", 599, steady, usual, between},
		{"just above a drop", 301, steady, usual, between},
		{"a drop", 300, steady, usual, unusual},
		{"nothing at all", 0, steady, usual, unusual},
		{"a drop like the one of another week", 0, []int64{1_000, 1_000, 1_000, 0}, usual, unusual},
		{"a drop like those of two other weeks", 0, []int64{1_000, 1_000, 0, 0}, usual, between},
		{"few readers at an hour without any", 99, []int64{0, 0, 0, 0}, between, unsure},
		{"many readers at an hour without any", 100, []int64{0, 0, 0, 0}, unusual, unsure},
		{"a small site without readers", 0, []int64{99, 99, 99, 99}, usual, between},
		{"a site at the least traffic without readers", 0, []int64{100, 100, 100, 100}, usual, unusual},
		{"a tiny site without readers", 0, []int64{49, 49, 49, 49}, usual, unsure},
		{"a tiny site with a few more", 49, []int64{3, 3, 3, 3}, usual, unsure},
	}
	for _, test := range tests {
		traffic := rules.Traffic{Length: time.Hour, Value: test.value, Past: test.past}
		testkit.Equal(t, rules.Spike(traffic).Reading, test.spike, "%s: Spike", test.name)
		testkit.Equal(t, rules.Drop(traffic).Reading, test.drop, "%s: Drop", test.name)
	}

	want := model.AlertFigures{Value: 4_000, Usual: 1_000, Percent: 400, Threshold: 3_500}
	testkit.Equal(t, rules.Spike(rules.Traffic{Length: time.Hour, Value: 4_000, Past: steady}).Figures, want, "the figures of a spike")
	want = model.AlertFigures{Value: 2_000, Usual: 500, Percent: 400, Threshold: 1_750}
	if got := rules.Spike(rules.Traffic{Length: 2 * time.Hour, Value: 4_000, Past: steady}).Figures; got != want {
		t.Errorf("the figures of two hours are %+v, want %+v", got, want)
	}
	want = model.AlertFigures{Value: 100, Usual: 1_000, Percent: 10, Threshold: 300}
	testkit.Equal(t, rules.Drop(rules.Traffic{Length: time.Hour, Value: 100, Past: steady}).Figures, want, "the figures of a drop")
}

// TestTrafficProperties checks what holds for all figures: no traffic is both a spike and a drop,
// more page views are never less of a spike, and a site that is larger in all figures has the same
// alarms.
func TestTrafficProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 20_000 {
		var past []int64
		for range random.IntN(5) {
			past = append(past, random.Int64N(1<<random.IntN(20)))
		}
		traffic := rules.Traffic{Length: time.Hour, Value: random.Int64N(1 << random.IntN(20)), Past: past}
		spike, drop := rules.Spike(traffic), rules.Drop(traffic)

		if spike.Reading == rules.Unusual && drop.Reading == rules.Unusual {
			t.Fatalf("%+v is a spike and a drop", traffic)
		}

		more := traffic
		more.Value *= 2
		if spike.Reading == rules.Unusual && rules.Spike(more).Reading != rules.Unusual {
			t.Fatalf("%+v is a spike, and twice as many page views are not", traffic)
		}
		if drop.Reading != rules.Unusual && rules.Drop(more).Reading == rules.Unusual {
			t.Fatalf("%+v is no drop, and twice as many page views are", traffic)
		}

		larger := rules.Traffic{Length: time.Hour, Value: 16 * traffic.Value}
		for _, n := range past {
			larger.Past = append(larger.Past, 16*n)
		}
		if spike.Reading == rules.Unusual && rules.Spike(larger).Reading != rules.Unusual {
			t.Fatalf("%+v is a spike, and 16 times of it is not", traffic)
		}
		if drop.Reading == rules.Unusual && rules.Drop(larger).Reading != rules.Unusual {
			t.Fatalf("%+v is a drop, and 16 times of it is not", traffic)
		}
	}
}

// TestNoHits checks for how long a site must be silent, and when it usually is not.
func TestNoHits(t *testing.T) {
	busy, quiet := []int64{300, 300, 300, 300}, []int64{5, 5, 5, 5}
	for _, test := range []struct {
		name string
		s    rules.Silence
		want rules.Reading
	}{
		{"a page view just now", rules.Silence{For: time.Minute, Past: busy}, rules.Usual},
		{"nine minutes", rules.Silence{For: 9 * time.Minute, Past: busy}, rules.Usual},
		{"ten minutes", rules.Silence{For: 10 * time.Minute, Past: busy}, rules.Unsure},
		{"29 minutes", rules.Silence{For: 29 * time.Minute, Past: busy}, rules.Unsure},
		{"30 minutes", rules.Silence{For: 30 * time.Minute, Past: busy}, rules.Unusual},
		{"a quiet site", rules.Silence{For: 3 * time.Hour, Past: quiet}, rules.Unsure},
		{"the least", rules.Silence{For: 3 * time.Hour, Past: []int64{60, 60, 60}}, rules.Unusual},
		{"less than the least", rules.Silence{For: 3 * time.Hour, Past: []int64{59, 59, 90}}, rules.Unsure},
		{"an outage in an earlier week", rules.Silence{For: time.Hour, Past: []int64{0, 90, 90, 90}}, rules.Unusual},
		{"two weeks", rules.Silence{For: time.Hour, Past: busy[:2]}, rules.Unsure},
	} {
		testkit.Equal(t, rules.NoHits(test.s).Reading, test.want, "%s", test.name)
	}
}

// TestOtherRules checks the thresholds of the rules that compare with no earlier week.
func TestOtherRules(t *testing.T) {
	attack := model.CaptchaAttack{Level: 2, Since: noon.Add(-time.Hour), Seen: noon, Networks: 900, Usual: 30}
	calls := func(accepted, refused int64) rules.Finding {
		return rules.CallsRefused(rules.Calls{Accepted: accepted, Refused: refused})
	}
	deliveries := func(failed int64, newest, delivered time.Duration) rules.Finding {
		return rules.DeliveriesFailed(rules.Deliveries{
			Failed: failed, Newest: noon.Add(newest), Delivered: noon.Add(delivered),
		})
	}
	task := func(failures int, since time.Duration) rules.Finding {
		return rules.JobsFailed(rules.Task{Failures: failures, Since: noon.Add(-since)}, noon)
	}
	for _, test := range []struct {
		name  string
		found rules.Finding
		want  rules.Reading
	}{
		{"no calls", calls(0, 0), rules.Usual},
		{"few refused", calls(0, 9), rules.Usual},
		{"some refused", calls(0, 99), rules.Between},
		{"a tenth refused", calls(900, 100), rules.Usual},
		{"more than a tenth refused", calls(899, 100), rules.Between},
		{"almost a fifth refused", calls(401, 100), rules.Between},
		{"a fifth refused", calls(400, 100), rules.Unusual},
		{"all refused", calls(0, 5_000), rules.Unusual},

		{"no failed delivery", deliveries(0, 0, -time.Hour), rules.Usual},
		{"a failed delivery", deliveries(1, 0, -time.Hour), rules.Unusual},
		{"one that failed today and others that were made", rules.DeliveriesFailed(rules.Deliveries{
			Failed: 1, Newest: noon, Delivered: noon.Add(time.Hour), IsToday: true,
		}), rules.Unusual},
		{"one that failed today and was made again", rules.DeliveriesFailed(rules.Deliveries{IsToday: true}),
			rules.Usual},
		{"delivered since", deliveries(1, 0, time.Second), rules.Usual},

		{"an attack", rules.CaptchaAttack(attack, noon), rules.Unusual},
		{"an attack that fades", rules.CaptchaAttack(attack, noon.Add(19*time.Minute)), rules.Unusual},
		{"an attack that is over", rules.CaptchaAttack(attack, noon.Add(20*time.Minute)), rules.Usual},
		{"no attack", rules.CaptchaAttack(model.CaptchaAttack{}, noon), rules.Usual},

		{"a task that succeeds", task(0, 0), rules.Usual},
		{"a task that failed twice", task(2, day), rules.Between},
		{"a task that failed often at once", task(9, 9*time.Minute), rules.Between},
		{"a task that fails", task(3, 10*time.Minute), rules.Unusual},

		{"no backup at all", rules.BackupLate(0, noon), rules.Unsure},
		{"a backup of yesterday", rules.BackupLate(noon.Add(-35*time.Hour), noon), rules.Usual},
		{"an older backup", rules.BackupLate(noon.Add(-47*time.Hour), noon), rules.Between},
		{"an old backup", rules.BackupLate(noon.Add(-48*time.Hour), noon), rules.Unusual},
		{"a backup of the future", rules.BackupLate(noon.Add(time.Hour), noon), rules.Usual},
	} {
		testkit.Equal(t, test.found.Reading, test.want, "%s", test.name)
	}

	if got := calls(1_000_000, 1).Figures.Percent; got != 1 {
		t.Errorf("one refused call of a million is %d percent, want 1", got)
	}
	if got := rules.CaptchaAttack(attack, noon).Figures; got.Value != 900 || got.Usual != 30 || got.Since != attack.Since {
		t.Errorf("the figures of an attack are %+v", got)
	}
}

// TestNext checks the steps of an alert with its times.
func TestNext(t *testing.T) {
	seen := func(before time.Duration) *model.Alert { return &model.Alert{SeenAt: noon.Add(-before)} }
	for _, test := range []struct {
		name    string
		reading rules.Reading
		open    *model.Alert
		want    rules.Step
	}{
		{"nothing lasts, unsure", rules.Unsure, nil, rules.None},
		{"nothing lasts, usual", rules.Usual, nil, rules.None},
		{"nothing lasts, between", rules.Between, nil, rules.None},
		{"it begins", rules.Unusual, nil, rules.Begin},
		{"it goes on", rules.Unusual, seen(time.Minute), rules.See},
		{"it goes on below the threshold", rules.Between, seen(time.Minute), rules.See},
		{"calm for a short time", rules.Usual, seen(29 * time.Minute), rules.None},
		{"calm", rules.Usual, seen(30 * time.Minute), rules.End},
		{"unsure", rules.Unsure, seen(71 * time.Hour), rules.None},
		{"unsure for days", rules.Unsure, seen(72 * time.Hour), rules.End},
		{"the clock was set back", rules.Usual, seen(-time.Hour), rules.See},
		{"the clock was set back by years", rules.Unsure, seen(-900 * day), rules.See},
	} {
		testkit.Equal(t, rules.Next(model.AlertTrafficSpike, test.reading, test.open, noon), test.want, "%s", test.name)
	}
}

// TestNextProperties runs random readings, also while the clock is set back: an alert begins only
// if none lasts, ends only if one does, two beginnings are at least the calm time apart, and ten
// days of usual figures end each alert.
func TestNextProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 9))
	for range 300 {
		event := model.AlertEvents[random.IntN(len(model.AlertEvents))]
		var open *model.Alert
		now, lastEnd := noon, model.Instant(0)

		step := func(reading rules.Reading) {
			switch rules.Next(event, reading, open, now) {
			case rules.Begin:
				if open != nil {
					t.Fatalf("%s begins while it lasts", event)
				}
				open = &model.Alert{BeganAt: now, SeenAt: now}
			case rules.See:
				if open == nil {
					t.Fatalf("%s was seen and never began", event)
				}
				open.SeenAt = now
			case rules.End:
				if open == nil {
					t.Fatalf("%s ends and never began", event)
				}
				if reading == rules.Unusual || reading == rules.Between {
					t.Fatalf("%s ends while its rule holds", event)
				}
				open, lastEnd = nil, now
			}
		}

		for range 300 {
			if now = now.Add(5 * time.Minute); random.IntN(50) == 0 {
				now = now.Add(-time.Duration(random.IntN(3000)) * time.Hour)
			}
			step(rules.Reading(random.IntN(4)))
		}
		for range 10 * 288 {
			now = now.Add(5 * time.Minute)
			step(rules.Usual)
		}
		if open != nil || lastEnd == 0 {
			t.Fatalf("%s still lasts after ten usual days", event)
		}
	}
}
