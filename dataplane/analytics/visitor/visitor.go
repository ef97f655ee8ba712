// Package visitor computes the pseudonym of a visitor (analytics contract, section 1). It is pure.
// The address and the user agent go in here and nowhere else: only the pseudonym is kept.
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

// DayKey is the secret that makes visitor ids of one UTC day. It is safe for concurrent use. Once
// the day's salt is destroyed it cannot be made again, even with the server secret.
type DayKey struct {
	macs sync.Pool
}

// NewDayKey derives the key of a day from the server secret and the day's random salt.
func NewDayKey(secret, salt []byte, day model.Day) *DayKey {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(day.String()))
	mac.Write(salt)
	key := mac.Sum(nil)
	k := &DayKey{}
	k.macs.New = func() any { return hmac.New(sha256.New, key) }
	return k
}

// ID is the visitor's pseudonym on one site: it differs from site to site and from day to day. An
// IPv4 address counts the same in its IPv6-mapped form.
func (k *DayKey) ID(siteID int64, addr netip.Addr, userAgent string) model.VisitorID {
	mac := k.macs.Get().(hash.Hash)
	defer k.macs.Put(mac)

	mac.Reset()
	var buf [24 + sha256.Size]byte
	binary.BigEndian.PutUint64(buf[:8], uint64(siteID))
	address := addr.Unmap().WithZone("").As16()
	copy(buf[8:24], address[:])
	mac.Write(buf[:24])
	mac.Write([]byte(userAgent))

	return model.VisitorID(mac.Sum(buf[24:24])[:16])
}
