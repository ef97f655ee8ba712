package model

import "time"

// IsCertificateLate reports whether so little is left of a certificate's lifetime that renewals must have
// failed: less than a sixth. They begin when a third is left.
func IsCertificateLate(issued, expires, now time.Time) bool {
	return expires.Sub(now) < expires.Sub(issued)/6
}
