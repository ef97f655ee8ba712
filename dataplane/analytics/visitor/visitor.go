// Package visitor computes the pseudonyms of visitors (analytics contract, section 1) and caches
// the daily keys for them. The analytics endpoints call it. It never stores or logs the address and
// the user agent: only the pseudonym leaves it.
package visitor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net/netip"
	"sync"

	"github.com/tallygate/tallygate/db/model"
)

// DayKey is the key for the visitor ids of one UTC day. Once the day's salt is deleted, the key
// cannot be derived again, even with the server's secret. It is safe for concurrent use.
type DayKey struct {
	macs sync.Pool
}

// NewDayKey derives the key of a day from the server's secret and the day's random salt.
func NewDayKey(secret, salt []byte, day model.Day) *DayKey {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(day.String()))
	mac.Write(salt)
	key := mac.Sum(nil)

	k := &DayKey{}
	k.macs.New = func() any { return hmac.New(sha256.New, key) }
	return k
}

// ID returns the visitor's pseudonym on one site. It differs from site to site and from day to day.
// An IPv4 address and its IPv6-mapped form have the same pseudonym.
func (k *DayKey) ID(siteID model.SiteID, addr netip.Addr, userAgent string) model.VisitorID {
	mac := k.macs.Get().(hash.Hash)
	defer k.macs.Put(mac)

	mac.Reset()

	// One buffer holds the input of fixed length, and then the sum.
	var buf [24 + sha256.Size]byte
	binary.BigEndian.PutUint64(buf[:8], uint64(siteID))
	address := addr.Unmap().WithZone("").As16()
	copy(buf[8:24], address[:])

	mac.Write(buf[:24])
	mac.Write([]byte(userAgent))

	return model.VisitorID(mac.Sum(buf[24:24])[:len(model.VisitorID{})])
}
