package model_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TestRetryDelays checks that each pause is within a tenth of its step, is the same for the same
// delivery, and differs between deliveries.
func TestRetryDelays(t *testing.T) {
	for i, step := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour} {
		attempts := int32(i + 1)
		least, most := time.Duration(1<<62), time.Duration(0)
		for id := range int64(1000) {
			delay := model.RetryDelay(id<<12, attempts)
			if again := model.RetryDelay(id<<12, attempts); again != delay {
				t.Fatalf("RetryDelay(%d, %d) is %v, then %v", id<<12, attempts, delay, again)
			}

			least, most = min(least, delay), max(most, delay)
		}

		if least < step*9/10 || most > step*11/10 || most-least < step/10 {
			t.Errorf("after %d attempts: %v to %v, want about %v", attempts, least, most, step)
		}
	}
}

func TestAfterFailure(t *testing.T) {
	const now = model.Instant(1_000_000_000)
	for _, test := range []struct {
		name       string
		delivery   model.Delivery
		class      string
		retryAfter time.Duration
		state      string
		atLeast    time.Duration
		atMost     time.Duration
	}{
		{"first", model.Delivery{ScheduledAttempts: 1}, model.AttemptServerError, 0, "pending", 4500 * time.Millisecond, 5500 * time.Millisecond},
		{"fourth", model.Delivery{ScheduledAttempts: 4}, model.AttemptTimeout, 0, "pending", 108 * time.Minute, 132 * time.Minute},
		{"fifth", model.Delivery{ScheduledAttempts: 5}, model.AttemptTimeout, 0, "failed", 0, 0},
		{"gone", model.Delivery{ScheduledAttempts: 1}, model.AttemptGone, 0, "failed", 0, 0},
		{"no address", model.Delivery{ScheduledAttempts: 1}, model.AttemptNoWebhook, 0, "failed", 0, 0},
		{"test", model.Delivery{ScheduledAttempts: 1, Kind: model.DeliveryTest}, model.AttemptTimeout, 0, "failed", 0, 0},
		{"asked to wait", model.Delivery{ScheduledAttempts: 1}, model.AttemptRateLimited, time.Hour, "pending", time.Hour, time.Hour},
		{"asked to wait too long", model.Delivery{ScheduledAttempts: 1}, model.AttemptRateLimited, 1 << 62, "pending", 2 * time.Hour, 2 * time.Hour},
		{"asked to wait less", model.Delivery{ScheduledAttempts: 2}, model.AttemptRateLimited, time.Second, "pending", 270 * time.Second, 330 * time.Second},
		{"manual, failed before", model.Delivery{ScheduledAttempts: 3, ResumeState: "failed"}, model.AttemptTimeout, 0, "failed", 0, 0},
		{"manual, delivered before", model.Delivery{ScheduledAttempts: 1, ResumeState: "delivered"}, model.AttemptGone, 0, "delivered", 0, 0},
		{"manual, pending before", model.Delivery{ScheduledAttempts: 2, ResumeState: "pending"}, model.AttemptTimeout, 0, "pending", 270 * time.Second, 330 * time.Second},
		{"manual, pending before, used up", model.Delivery{ScheduledAttempts: 5, ResumeState: "pending"}, model.AttemptTimeout, 0, "failed", 0, 0},
	} {
		state, next := test.delivery.AfterFailure(test.class, test.retryAfter, now)
		if wait := next.Sub(now); state != test.state || wait < test.atLeast || wait > test.atMost {
			t.Errorf("%s: %s after %v, want %s after %v to %v", test.name, state, wait, test.state, test.atLeast, test.atMost)
		}
	}
}
