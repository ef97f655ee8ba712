package model_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// TestIsCertificateLate checks from when on certificates are late, by their lifetime: from 14 days
// before their end on, and from a sixth of a lifetime under 84 days.
func TestIsCertificateLate(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	issued := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct{ lifetime, least time.Duration }{
		{365 * day, 14 * day}, {90 * day, 14 * day}, {84 * day, 14 * day}, {60 * day, 10 * day}, {6 * day, day},
	} {
		expires := issued.Add(test.lifetime)
		last := expires.Add(-test.least)
		if model.IsCertificateLate(issued, expires, last) || !model.IsCertificateLate(issued, expires, last.Add(time.Second)) {
			t.Errorf("a certificate of %v is not late from %v before its end on", test.lifetime, test.least)
		}
	}
}
