package model

import (
	"math"
	"strconv"
	"strings"
)

// Money is an exact amount in millionths of a currency's unit, between about plus and minus 9.2e12
// units.
type Money int64

// MoneyScale is the Money of one unit.
const MoneyScale = 1_000_000

const (
	// moneyDecimals is the number of decimals of a Money.
	moneyDecimals = 6
	// maxExponent bounds the exponent of a number in either direction, which bounds the work of
	// parsing it.
	maxExponent = 999
)

// ParseMoney parses the text of a JSON number exactly, without floating point. It rounds digits
// beyond the sixth decimal, half to even, so 0.0000005 is 0 and 0.0000015 is 0.000002. It returns
// false for text that is not a JSON number, for an exponent beyond ±999, and for an amount that a
// Money cannot hold after rounding.
func ParseMoney(text string) (Money, bool) {
	number, negative := strings.CutPrefix(text, "-")
	mantissa, exponent, ok := cutExponent(number)
	if !ok {
		return 0, false
	}

	whole, fraction, point := strings.Cut(mantissa, ".")
	if !areDigits(whole) || whole[0] == '0' && len(whole) > 1 || point && !areDigits(fraction) {
		return 0, false
	}

	limit := uint64(math.MaxInt64)

	// The smallest int64 has no positive counterpart.
	if negative {
		limit++
	}

	n, ok := shiftDigits(whole+fraction, len(whole)+exponent+moneyDecimals, limit)

	if negative {
		n = -n
	}

	return Money(n), ok
}

// cutExponent splits 12.5e-3 into 12.5 and -3. A number without an exponent has exponent 0.
func cutExponent(number string) (mantissa string, exponent int, ok bool) {
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return number, 0, true
	}

	digits := number[i+1:]
	sign := 1

	if digits != "" && (digits[0] == '+' || digits[0] == '-') {
		if digits[0] == '-' {
			sign = -1
		}

		digits = digits[1:]
	}

	if !areDigits(digits) {
		return "", 0, false
	}

	exponent, err := strconv.Atoi(digits)
	return number[:i], sign * exponent, err == nil && exponent <= maxExponent
}

func areDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// shiftDigits returns the integer that the first keep digits make, padded with zeros if there are
// fewer and rounded by the remaining digits. It returns false if the number exceeds limit.
func shiftDigits(digits string, keep int, limit uint64) (uint64, bool) {
	if keep < 0 {
		// The number is less than a tenth.
		return 0, true
	}

	var n uint64
	for i := range keep {
		digit := uint64(0)
		if i < len(digits) {
			digit = uint64(digits[i] - '0')
		}
		if n > (limit-digit)/10 {
			return 0, false
		}

		n = n*10 + digit
	}

	if keep < len(digits) && roundsUp(digits[keep:], n%2 == 1) {
		n++
	}

	return n, n <= limit
}

// roundsUp reports whether the digits after a decimal point are more than a half, or exactly a half
// after an odd number.
func roundsUp(digits string, odd bool) bool {
	if digits[0] != '5' {
		return digits[0] > '5'
	}
	return odd || strings.Trim(digits[1:], "0") != ""
}

// String formats the amount as a decimal number without trailing zeros, for instance -12.5.
// ParseMoney parses it back.
func (m Money) String() string {
	sign := ""
	u := uint64(m)

	if m < 0 {
		sign, u = "-", -u
	}

	whole, fraction := u/MoneyScale, u%MoneyScale
	if fraction == 0 {
		return sign + strconv.FormatUint(whole, 10)
	}

	digits := strconv.FormatUint(MoneyScale+fraction, 10)[1:]
	return sign + strconv.FormatUint(whole, 10) + "." + strings.TrimRight(digits, "0")
}

// MarshalJSON returns the amount as an exact JSON number.
func (m Money) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }
