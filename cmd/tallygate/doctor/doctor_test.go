package doctor

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/tools/redistest"
)

// TestRedisClock: a clock that differs from Redis's by more than a minute is found.
func TestRedisClock(t *testing.T) {
	t.Parallel()

	c := &config.Config{RedisURL: config.RedisURL(redistest.URL(t))}
	for difference, want := range map[time.Duration]int{0: 0, 50 * time.Second: 0, 5 * time.Minute: 1, -5 * time.Minute: 1} {
		e := &examination{Options: Options{Now: func() time.Time { return time.Now().Add(difference) }}, c: c}
		if !e.checkRedis(t.Context()) || len(e.report.Findings) != want || want == 1 && e.report.Findings[0].Check != "redis-clock" {
			t.Errorf("a difference of %v: findings %+v, want %d", difference, e.report.Findings, want)
		}
	}
}

// TestVersions: versions are compared as numbers.
func TestVersions(t *testing.T) {
	t.Parallel()

	for version, want := range map[string]bool{
		"6.2.0": true, "6.2": true, "6.10.1": true, "7.0.15": true, "10.0": true, "8": true,
		"6.0.16": false, "5.0.14": false, "": false, "x.y": false,
	} {
		if got := atLeast(version, 6, 2); got != want {
			t.Errorf("%q is 6.2 or newer: %t, want %t", version, got, want)
		}
	}
}
