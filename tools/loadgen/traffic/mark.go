package traffic

import "strconv"

// Mark identifies one hit. The hit carries it as page view id, in a property or in the transaction
// id, so that the export shows which hits are stored. It encodes the run, the connection, the hit's
// number and its kind. The value is scrambled, so that marks are spread over 64 bits like the
// random ids of browsers and are no easier for the database's indexes.
type Mark uint64

// Parts are the contents of a mark.
type Parts struct {
	Run        uint16
	connection uint16 // below 4,096
	number     uint32 // of the hit on its connection
	Kind       Kind   // below 16
}

// MaxConnections is the largest number of connections of a run, so that a mark can hold it.
const MaxConnections = 1 << 12

func newMark(p Parts) Mark {
	return Mark(scramble(uint64(p.Run)<<48 | uint64(p.connection)<<36 | uint64(p.number)<<4 | uint64(p.Kind)))
}

// Parts returns the contents of the mark.
func (m Mark) Parts() Parts {
	x := unscramble(uint64(m))
	return Parts{Run: uint16(x >> 48), connection: uint16(x >> 36 & (MaxConnections - 1)), number: uint32(x >> 4),
		Kind: Kind(x & 15)}
}

// EngagedMS returns the engagement in milliseconds that is reported for the page view with this
// mark. It is derived from the mark, so that a report counted twice is noticed.
func (m Mark) EngagedMS() int { return 1 + int(m%60_000) }

// Append appends the mark as 16 hexadecimal digits.
func (m Mark) Append(b []byte) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[m>>shift&15])
	}
	return b
}

// ParseMark parses the result of Append.
func ParseMark(s string) (Mark, bool) {
	if len(s) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 64)
	return Mark(n), err == nil
}

const (
	multiplier = 0x9e3779b97f4a7c15
	inverse    = 0xf1de83e19937733d // multiplier * inverse = 1 modulo 2^64
)

// scramble is a bijection that spreads small differences over all bits.
func scramble(x uint64) uint64 {
	x ^= x >> 32
	x *= multiplier
	return x ^ x>>32
}

func unscramble(x uint64) uint64 {
	x ^= x >> 32
	x *= inverse
	return x ^ x>>32
}
