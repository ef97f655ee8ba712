package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// UserIDKey hashes the pseudonymous user ids that sites' owners send. The stored ids do not link
// across sites and cannot be computed without the application key.
type UserIDKey []byte

// NewUserIDKey derives the key from the application key.
func NewUserIDKey(applicationKey ApplicationKey) UserIDKey {
	return applicationKey.Derive("user id")
}

// Of returns the 16-byte hash that a visit of the site stores for a user id. The id must have the
// form that IsUserID checks.
func (k UserIDKey) Of(siteID int64, id string) []byte {
	mac := hmac.New(sha256.New, k)
	// Writing to a hash never fails.
	_ = binary.Write(mac, binary.BigEndian, siteID)
	mac.Write([]byte(id))
	return mac.Sum(nil)[:16]
}

// IsUserID reports whether s has the form of a pseudonymous user id: a SHA-256 hash in lower-case
// hexadecimal.
func IsUserID(s string) bool {
	if len(s) != 2*sha256.Size {
		return false
	}

	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}

	return true
}

// MaxErasures is how many erasures of an account's sites can be in progress at once. Each one reads
// all visits of a site.
const MaxErasures = 20

// UserErasure is a request to erase everything stored about one pseudonymous user id of a site
// until the request, with its progress.
type UserErasure struct {
	ID          int64   `bun:",pk,autoincrement"`
	SiteID      int64   `bun:",notnull"`
	Subject     []byte  `bun:",notnull"` // see UserIDKey
	RequestedAt Instant `bun:",notnull"`
	LastDay     Day     `bun:",notnull"` // key of the last visit that was checked; likewise the next two
	LastVisitor int64   `bun:",notnull"` // as it is stored
	LastN       int16   `bun:"last_n,notnull"`
	Visits      int64   `bun:",notnull"` // rows erased so far; likewise the next three
	Pageviews   int64   `bun:",notnull"`
	Events      int64   `bun:",notnull"`
	Deliveries  int64   `bun:",notnull"`
	FinishedAt  Instant `bun:",notnull"` // 0: not yet
}
