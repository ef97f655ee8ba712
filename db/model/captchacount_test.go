package model_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TestMedianWork: the median of any times is within a tenth, between the ends of the buckets.
func TestMedianWork(t *testing.T) {
	for _, times := range [][]time.Duration{
		{17 * time.Millisecond}, {time.Second}, {599 * time.Second},
		{time.Second, 2 * time.Second, 40 * time.Second},
		{time.Second, 2 * time.Second},
		{300 * time.Millisecond, 310 * time.Millisecond, 320 * time.Millisecond, 5 * time.Second, 6 * time.Second},
	} {
		counts := map[string]int64{}
		for _, d := range times {
			counts[model.CaptchaWork(d)]++
		}

		slices.Sort(times)
		want := times[(len(times)-1)/2]
		got := model.NewCaptchaActivity(1, counts).MedianWork
		if ratio := float64(got) / float64(want); ratio < 0.9 || ratio > 1.1 {
			t.Errorf("the median of %v is %s, want %s", times, got, want)
		}
	}

	for _, d := range []time.Duration{-time.Hour, 0, time.Hour, 1 << 62} {
		if a := model.NewCaptchaActivity(1, map[string]int64{model.CaptchaWork(d): 1}); a.MedianWork <= 0 || a.MedianWork > 30*time.Minute {
			t.Errorf("%s is counted as %s", d, a.MedianWork)
		}
	}
	if a := model.NewCaptchaActivity(1, map[string]int64{"work 99": 1, "work x": 1, "refused x": 1, "other": 2}); a.MedianWork != 0 || a.Refusals != nil {
		t.Errorf("unknown counters: %+v", a)
	}
}

// FuzzCaptchaActivity: no stored counter makes it panic.
func FuzzCaptchaActivity(f *testing.F) {
	for _, name := range []string{"challenge", "work 3", "work -1", "refused verify invalid_work", "refused ", ""} {
		f.Add(name, int64(1))
	}
	f.Fuzz(func(t *testing.T, name string, count int64) {
		if a := model.NewCaptchaActivity(1, map[string]int64{name: count}); len(a.Refusals) > 1 {
			t.Errorf("%q has %d refusals", name, len(a.Refusals))
		}
	})
}
