package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// UserIDKey keys the pseudonymous user ids that sites' owners send, so that the stored ids do not
// link across sites and cannot be computed without the application key.
type UserIDKey []byte

// NewUserIDKey derives the key from the application key.
func NewUserIDKey(applicationKey ApplicationKey) UserIDKey {
	return applicationKey.Derive("user id")
}

// Of returns what a visit of the site stores for a user id that follows its rule, see IsUserID: 16
// bytes.
func (k UserIDKey) Of(siteID int64, id string) []byte {
	mac := hmac.New(sha256.New, k)
	// a hash never fails
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

// MaxErasures is how many erasures of an account's sites can be in progress at once. Each reads all
// visits of a site.
const MaxErasures = 20

// UserErasure is a request to erase all that was stored of one pseudonymous user id of a site until
// the request, and how far that is.
type UserErasure struct {
	ID          int64   `bun:",pk,autoincrement"`
	SiteID      int64   `bun:",notnull"`
	Subject     []byte  `bun:",notnull"` // see UserIDKey
	RequestedAt Instant `bun:",notnull"`
	LastVisit   int64   `bun:",notnull"` // id of the last visit that was gone through
	Visits      int64   `bun:",notnull"` // rows erased so far, as the following
	Pageviews   int64   `bun:",notnull"`
	Events      int64   `bun:",notnull"`
	Deliveries  int64   `bun:",notnull"`
	FinishedAt  Instant `bun:",notnull"` // 0: not yet
}
