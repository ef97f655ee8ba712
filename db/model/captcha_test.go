package model_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCaptchaPlans checks the contract's list of plans (captcha contract, section 8).
func TestCaptchaPlans(t *testing.T) {
	for plan, want := range map[model.CaptchaPlan]int64{
		"FREE": 10_000, "PRO_100K": 100_000, "PRO_250K": 250_000, "PRO_500K": 500_000, "PRO_1M": 1_000_000, "ENTERPRISE": model.Unlimited,
	} {
		if got, ok := plan.Quota(); !ok || got != want {
			t.Errorf("%s: %d, %v; want %d", plan, got, ok, want)
		}
	}

	for _, plan := range []model.CaptchaPlan{"", "free", "PRO_2M"} {
		if got, ok := plan.Quota(); ok {
			t.Errorf("%q has the quota %d", plan, got)
		}
	}
}

func TestStanding(t *testing.T) {
	at := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	for _, test := range []struct {
		name  string
		usage model.CaptchaUsage
		want  model.CaptchaStanding
	}{
		{"unused", model.CaptchaUsage{Quota: 100}, model.WithinQuota},
		{"one left", model.CaptchaUsage{Quota: 100, Used: 99}, model.WithinQuota},
		{"used up", model.CaptchaUsage{Quota: 100, Used: 100}, model.InReserve},
		{"the last of the reserve", model.CaptchaUsage{Quota: 100, Used: 109, ReserveFrom: at, OverQuota: 100}, model.InReserve},
		{"all used up", model.CaptchaUsage{Quota: 100, Used: 110, ReserveFrom: at, OverQuota: 100}, model.Exhausted},
		{
			name:  "a microsecond before 7 days",
			usage: model.CaptchaUsage{Quota: 100, Used: 101, ReserveFrom: at.Add(-model.ReservePeriod) + 1, OverQuota: 100},
			want:  model.InReserve,
		},
		{"7 days", model.CaptchaUsage{Quota: 100, Used: 101, ReserveFrom: at.Add(-model.ReservePeriod), OverQuota: 100}, model.Exhausted},
		{
			name:  "7 days of a smaller quota's reserve",
			usage: model.CaptchaUsage{Quota: 200, Used: 201, ReserveFrom: at.Add(-model.ReservePeriod), OverQuota: 100},
			want:  model.InReserve,
		},
		{"far above a quota that shrank", model.CaptchaUsage{Quota: 100, Used: 1_000}, model.Exhausted},
		{"a tenth that is not whole", model.CaptchaUsage{Quota: 15, Used: 16}, model.Exhausted},
		{"unlimited", model.CaptchaUsage{Quota: model.Unlimited, Used: 1 << 50}, model.WithinQuota},
		{"unlimited, over a quota before", model.CaptchaUsage{Quota: model.Unlimited, Used: 200, ReserveFrom: 1, OverQuota: 100}, model.WithinQuota},
	} {
		testkit.Equal(t, test.usage.Standing(at), test.want, "%s: standing", test.name)
	}
}

// TestCountAgainstAModel counts a whole month and compares each step with the simplest form of the
// rules.
func TestCountAgainstAModel(t *testing.T) {
	const quota = 50
	at := model.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	u := model.CaptchaUsage{Quota: quota}
	var thresholds []int64

	for n := int64(1); n <= quota+quota/10; n++ {
		if want := map[bool]model.CaptchaStanding{true: model.WithinQuota, false: model.InReserve}[n <= quota]; u.Standing(at) != want {
			t.Fatalf("verification %d: standing %d, want %d", n, u.Standing(at), want)
		}
		if threshold := u.Count(at); threshold != 0 {
			thresholds = append(thresholds, n, int64(threshold))
		}

		at++
	}

	if u.Standing(at) != model.Exhausted || u.Used != 55 {
		t.Errorf("at the end: %+v", u)
	}
	if want := []int64{40, 80, 50, 100}; !slices.Equal(thresholds, want) {
		t.Errorf("thresholds %v, want %v", thresholds, want)
	}

	ends, began := u.ReserveEnds()
	if first := at - 5; !began || ends != first.Add(model.ReservePeriod) {
		t.Errorf("the reserve ends at %d, want 7 days after %d", ends, first)
	}
	if _, began := (&model.CaptchaUsage{Quota: quota, Used: quota}).ReserveEnds(); began {
		t.Error("the reserve began before it was touched")
	}
}

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
	if a := model.NewCaptchaActivity(1, map[string]int64{"work 99": 1, "work x": 1, "refused x": 1, "other": 2}); a.MedianWork != 0 ||
		a.Refusals != nil {
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

func TestSitekey(t *testing.T) {
	key := model.NewSitekey()
	if again := model.NewSitekey(); key == again {
		t.Errorf("%s twice", key)
	}

	for s, want := range map[string]bool{
		key: true, model.TestSitekey: true, "": false, key + "x": false, key[:28]: false, strings.ToUpper(key): false,
		key[:28] + "-": false, "svcs_" + key[5:]: false, strings.Repeat("x", 29): false,
	} {
		testkit.Equal(t, model.IsSitekey(s), want, "IsSitekey(%q)", s)
	}

	if !model.IsSecret(model.CaptchaSecretPrefix, model.TestSitekeySecret) {
		t.Error("the test secret has not the form of a secret")
	}
	if strings.Trim(key+model.TestSitekeySecret, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != "" {
		t.Error("a sitekey or secret needs escaping in a form")
	}
}
