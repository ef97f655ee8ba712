package captcha

import (
	"bytes"
	"strconv"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
)

// parseNonce reads a JSON number with an integral value from 0 to pow.MaxNonce in any notation:
// some encoders write 123.0 or 1.93e15 for an integer, which is exact below 2^53. The value is
// computed in decimal, so that nothing is rounded. It returns false for every other number. The
// text must be a valid JSON number.
func parseNonce(number []byte) (nonce uint64, ok bool) {
	number, isNegative := bytes.CutPrefix(number, []byte("-"))
	mantissa, exponent := number, 0

	if e := bytes.IndexAny(number, "eE"); e >= 0 {
		mantissa, exponent = number[:e], parseExponent(number[e+1:])
	}

	// The value is digits * 10^exponent, with no zeros around the digits.
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(bytes.Clone(whole), fraction...)
	exponent -= len(fraction)
	digits = bytes.TrimLeft(digits, "0")
	significant := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)

	const maxDigits = 16 // of pow.MaxNonce
	switch {
	case len(significant) == 0:
		// also -0
		return 0, true
	case isNegative, exponent < 0, len(significant)+exponent > maxDigits:
		return 0, false
	}

	significant = append(significant, bytes.Repeat([]byte("0"), exponent)...)
	nonce, err := strconv.ParseUint(string(significant), 10, 64)
	return nonce, err == nil && nonce <= pow.MaxNonce
}

// parseExponent reads an exponent with its sign. One beyond a million counts as a million, which is
// more than a body of 8 KB has digits.
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
