package model

import (
	"crypto/rand"
	"hash/crc32"
	"strings"
)

const (
	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	secretRandom   = 30 // characters, 178 bits
	secretChecksum = 6  // characters, enough for any CRC-32
	secretHint     = 4  // characters
)

// NewSecret returns a bearer secret: the prefix, which names its use (svcs_ for a site's server
// secret), 30 random base62 characters, and a checksum of 6. The secret is shown once; store only
// its HashToken and SecretHint.
func NewSecret(prefix string) string {
	s := prefix + randomBase62(secretRandom)
	return s + checksum62(s)
}

// IsSecret reports whether s has the form of a secret with this prefix and a correct checksum. It
// rejects a mistyped secret without a database lookup.
func IsSecret(prefix, s string) bool {
	body, ok := strings.CutPrefix(s, prefix)
	if !ok || len(body) != secretRandom+secretChecksum {
		return false
	}

	for i := range len(body) {
		if !isBase62(body[i]) {
			return false
		}
	}

	end := len(s) - secretChecksum
	return checksum62(s[:end]) == s[end:]
}

// SecretHint returns the last 4 characters of a secret, by which its owner recognises it. They
// belong to the checksum. It returns "" for text that is too short to be a secret.
func SecretHint(s string) string {
	if len(s) < secretRandom+secretChecksum {
		return ""
	}
	return s[len(s)-secretHint:]
}

// randomBase62 returns n random base62 characters, all equally likely: it discards bytes beyond the
// largest multiple of 62.
func randomBase62(n int) string {
	const fair = 256 / len(base62) * len(base62)
	out := make([]byte, 0, n)
	for len(out) < n {
		var draw [2 * secretRandom]byte

		// Read never fails, see its documentation.
		rand.Read(draw[:])

		for _, b := range draw {
			if int(b) < fair && len(out) < n {
				out = append(out, base62[int(b)%len(base62)])
			}
		}
	}

	return string(out)
}

// checksum62 returns the CRC-32 (IEEE) of s in base62. It detects any change within four
// neighbouring characters.
func checksum62(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var out [secretChecksum]byte
	for i := range out {
		out[len(out)-1-i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(out[:])
}

func isBase62(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
