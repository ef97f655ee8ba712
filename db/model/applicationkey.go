package model

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"sync/atomic"
)

// ApplicationKey is the secret that every other key of the installation is derived from.
type ApplicationKey []byte

// Derive returns the 32-byte key for one use. Different uses have unrelated keys.
func (k ApplicationKey) Derive(use string) []byte {
	return k.derive(use, sha256.Size)
}

// Fingerprint identifies the key without revealing it: 32 hexadecimal characters.
func (k ApplicationKey) Fingerprint() string {
	return hex.EncodeToString(k.derive("fingerprint", 16))
}

func (k ApplicationKey) derive(use string, size int) []byte {
	key, err := hkdf.Key(sha256.New, k, nil, use, size)
	if err != nil {
		// Only a length over 255 hashes fails.
		panic(err)
	}
	return key
}

// KeyRotation describes a change of the application key as one process sees it. The process holds
// both keys; the database decides which of them signs. A nil *KeyRotation means that there is no
// previous key. It is safe for concurrent use.
type KeyRotation struct {
	// Previous is the key that is being replaced. It never changes after the start.
	Previous ApplicationKey

	at atomic.Int64 // Instant of the replacement; 0 before it
}

// Replaced records that the database uses the new key since the given time.
func (r *KeyRotation) Replaced(at Instant) { r.at.Store(int64(at)) }

// SignsWithPrevious reports whether the previous key still signs and seals, because the database
// still uses it.
func (r *KeyRotation) SignsWithPrevious() bool { return r != nil && r.at.Load() == 0 }

// ReplacedAt returns when the database changed to the new key, or 0 before that.
func (r *KeyRotation) ReplacedAt() Instant { return Instant(r.at.Load()) }
