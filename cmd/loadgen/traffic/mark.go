package traffic

import "strconv"

// Mark names one hit. It travels inside the hit, as the page view id, in a property or in the
// transaction id, so that the export shows which hits are stored. It tells the run, the connection,
// the hit's number and its kind, scrambled so that marks are spread over all 64 bits like the ids
// that browsers make: the database's indexes are to see nothing easier.
type Mark uint64

// parts are what a mark is made of.
type parts struct {
	Run        uint16
	connection uint16 // below 4,096
	number     uint32 // of the hit on its connection
	Kind       kind   // below 16
}

const MaxConnections = 1 << 12

func newMark(p parts) Mark {
	return Mark(scramble(uint64(p.Run)<<48 | uint64(p.connection)<<36 | uint64(p.number)<<4 | uint64(p.Kind)))
}

func (m Mark) Parts() parts {
	x := unscramble(uint64(m))
	return parts{Run: uint16(x >> 48), connection: uint16(x >> 36 & (MaxConnections - 1)), number: uint32(x >> 4), Kind: kind(x & 15)}
}

// EngagedMS is how long the page view with this mark is looked at, in milliseconds. It is known
// beforehand, so that one report that counts twice shows.
func (m Mark) EngagedMS() int { return 1 + int(m%60_000) }

// Append adds the mark's 16 hexadecimal characters.
func (m Mark) Append(b []byte) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[m>>shift&15])
	}
	return b
}

// ParseMark reads what append writes.
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
