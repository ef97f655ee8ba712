package scan

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// decimalSum adds up float64 numbers exactly. The value of a number is its shortest decimal text,
// as browsers and databases write it, so 0.1 and 0.2 are 0.3. The order of the numbers makes no
// difference.
type decimalSum struct {
	sums        [maxExponent - minExponent + 1]wide // by decimal exponent, from minExponent on
	first, last int                                 // the exponents of sums that are not 0, as indexes
	any         bool
	powers      [maxExponent - minExponent + 1]*big.Int // of ten, computed once
}

// The decimal exponents of numbers with whole digits. The least float64 is 5e-324, and a float64
// has up to 17 digits.
const (
	minExponent = -341
	maxExponent = 308
)

// wide is a whole number of 128 bits, in two's complement. 2^63 numbers of 17 digits fit.
type wide struct{ high, low uint64 }

// reset removes all numbers.
func (s *decimalSum) reset() {
	clear(s.sums[s.first : s.last+1])
	s.any = false
}

// add adds a number n times, with n above 0.
func (s *decimalSum) add(value float64, n int64) {
	digits, exponent := decimalOf(value)
	if digits == 0 {
		return
	}

	i := exponent - minExponent
	if !s.any {
		s.first, s.last, s.any = i, i, true
	}
	s.first, s.last = min(s.first, i), max(s.last, i)
	s.sums[i].add(digits, uint64(n))
}

// add adds a number n times.
func (w *wide) add(number int64, n uint64) {
	size := uint64(number)
	if number < 0 {
		size = -size
	}
	high, low := bits.Mul64(size, n)

	var carry uint64
	if number < 0 {
		w.low, carry = bits.Sub64(w.low, low, 0)
		w.high, _ = bits.Sub64(w.high, high, carry)
		return
	}
	w.low, carry = bits.Add64(w.low, low, 0)
	w.high, _ = bits.Add64(w.high, high, carry)
}

// whole returns the number.
func (w wide) whole() *big.Int {
	n := new(big.Int).SetInt64(int64(w.high))
	n.Lsh(n, 64)
	return n.Add(n, new(big.Int).SetUint64(w.low))
}

// decimalOf returns the shortest decimal of a number: digits times ten to the exponent.
func decimalOf(value float64) (digits int64, exponent int) {
	var buffer [32]byte
	text := strconv.AppendFloat(buffer[:0], value, 'e', -1, 64)

	i, negative := 0, text[0] == '-'
	if negative {
		i++
	}
	after := 0 // digits after the point
	for pointed := false; text[i] != 'e'; i++ {
		if text[i] == '.' {
			pointed = true
			continue
		}
		digits = digits*10 + int64(text[i]-'0')
		if pointed {
			after++
		}
	}

	// The text ends with a sign and digits.
	for _, c := range text[i+2:] {
		exponent = exponent*10 + int(c-'0')
	}
	if text[i+1] == '-' {
		exponent = -exponent
	}
	if negative {
		digits = -digits
	}
	return digits, exponent - after
}

// exact returns the sum as a whole number times ten to an exponent. It multiplies once for each
// exponent that occurs, and not for those in between, which visitors could choose far apart.
func (s *decimalSum) exact() (whole *big.Int, exponent int) {
	whole = new(big.Int)
	if !s.any {
		return whole, 0
	}

	at := s.last
	for i := s.last; i >= s.first; i-- {
		if s.sums[i] == (wide{}) {
			continue
		}
		whole.Mul(whole, s.power(at-i))
		whole.Add(whole, s.sums[i].whole())
		at = i
	}
	return whole, at + minExponent
}

// power returns ten to the n-th power.
func (s *decimalSum) power(n int) *big.Int {
	if s.powers[n] == nil {
		s.powers[n] = new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
	}
	return s.powers[n]
}

// figures returns the sum and the sum divided by n, each rounded to the nearest float64. The sum is
// infinite beyond the range of a float64.
func (s *decimalSum) figures(n int64) (total, average float64) {
	whole, exponent := s.exact()
	divisor := big.NewInt(1)
	if exponent < 0 {
		divisor = s.power(-exponent)
	} else {
		whole.Mul(whole, s.power(exponent))
	}
	return nearest(whole, divisor), nearest(whole, new(big.Int).Mul(divisor, big.NewInt(n)))
}

// nearest returns a fraction rounded to the nearest float64, or an infinity. Unlike big.Rat, it
// does not reduce the fraction, which costs most.
func nearest(dividend, divisor *big.Int) float64 {
	// A quotient of more bits than a float64 has, and a last bit for what is below them, are
	// rounded like the fraction.
	const quotientBits = 64
	shift := max(quotientBits+divisor.BitLen()-dividend.BitLen(), 0)
	quotient, remainder := new(big.Int).Lsh(dividend, uint(shift)), new(big.Int)
	quotient.QuoRem(quotient, divisor, remainder)
	quotient.Lsh(quotient, 1)
	if sign := remainder.Sign(); sign != 0 {
		quotient.Add(quotient, big.NewInt(int64(sign)))
	}

	f := new(big.Float).SetInt(quotient)
	value, _ := f.SetMantExp(f, -shift-1).Float64()
	return value + 0 // no negative zero
}

// IsFinite reports whether a figure is within the range of a float64.
func IsFinite(figure float64) bool { return !math.IsInf(figure, 0) }
