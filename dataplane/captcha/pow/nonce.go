package pow

import (
	"bytes"
	"strconv"
)

// ParseNonce reads a JSON number that is a whole number from 0 to MaxNonce, in any notation. Some
// encoders write an integer as 123.0 or 1.93e15, which is exact below 2^53. ParseNonce computes in
// decimal, so that it does not round. It reports false for every other number. The text must be a
// valid JSON number.
func ParseNonce(number []byte) (nonce uint64, ok bool) {
	number, isNegative := bytes.CutPrefix(number, []byte("-"))
	mantissa, exponent := number, 0

	if e := bytes.IndexAny(number, "eE"); e >= 0 {
		mantissa, exponent = number[:e], parseExponent(number[e+1:])
	}

	// The value is significant * 10^exponent. significant has no zeros at its ends.
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(bytes.Clone(whole), fraction...)
	exponent -= len(fraction)
	digits = bytes.TrimLeft(digits, "0")
	significant := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)

	const maxDigits = 16 // of MaxNonce
	switch {
	case len(significant) == 0:
		// Zero in any notation, including -0.
		return 0, true
	case isNegative, exponent < 0, len(significant)+exponent > maxDigits:
		return 0, false
	}

	significant = append(significant, bytes.Repeat([]byte("0"), exponent)...)
	nonce, err := strconv.ParseUint(string(significant), 10, 64)
	return nonce, err == nil && nonce <= MaxNonce
}

// parseExponent reads an exponent with its sign. An exponent beyond a million counts as a million,
// which exceeds the digits of a body of 8 KB.
func parseExponent(text []byte) int {
	const most = 1_000_000
	n, err := strconv.Atoi(string(text))
	switch {
	case err == nil:
		return min(max(n, -most), most)
	case text[0] == '-':
		return -most
	}

	return most
}
