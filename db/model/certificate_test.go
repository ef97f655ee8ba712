package model_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TestIsCertificateLate checks the warning at a sixth of the lifetime, for long and short certificates.
func TestIsCertificateLate(t *testing.T) {
	t.Parallel()
	issued := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, lifetime := range []time.Duration{90 * 24 * time.Hour, 6 * 24 * time.Hour} {
		expires := issued.Add(lifetime)
		if model.IsCertificateLate(issued, expires, expires.Add(-lifetime/6)) || !model.IsCertificateLate(issued, expires, expires.Add(-lifetime/6+time.Second)) {
			t.Errorf("lifetime %v", lifetime)
		}
	}
}
