package model

import "time"

// lateCertificate is the longest time before its end at which a certificate is late: 14 days.
const lateCertificate = 14 * 24 * time.Hour

// IsCertificateLate reports whether so little is left of a certificate's lifetime that renewals
// must have failed: less than 14 days, or a sixth of a shorter lifetime. They begin when a third is
// left.
func IsCertificateLate(issued, expires, now time.Time) bool {
	return expires.Sub(now) < min(lateCertificate, expires.Sub(issued)/6)
}
