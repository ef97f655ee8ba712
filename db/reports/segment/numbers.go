package segment

import (
	"math"
	"strconv"
)

// Number is the number that an event carries in a property: the bits of a float64 that is neither
// infinite nor negative zero, NoNumber or UnknownNumber.
type Number uint64

// What is no number. Both are bits of NaN.
const (
	// NoNumber stands for a value that is no number.
	NoNumber Number = 0x7ff8_0000_0000_0001
	// UnknownNumber stands for a value that has no row of its own, and may be any number.
	UnknownNumber Number = 0x7ff8_0000_0000_0002
)

// NumberOf returns a number.
func NumberOf(value float64) Number {
	if value == 0 {
		return 0 // also for negative zero
	}
	return Number(math.Float64bits(value))
}

// Value returns the number as a float64. ok is false for what is no number.
func (n Number) Value() (value float64, ok bool) {
	value = math.Float64frombits(uint64(n))
	return value, !math.IsNaN(value)
}

// ParseNumber returns the number that a value of a property is, or NoNumber. A text is a number if
// it is written as a number of JSON: reports do not distinguish the text "5" from the number 5.
// Numbers beyond a float64 are no numbers.
func ParseNumber(value string) Number {
	if !isNumber(value) {
		return NoNumber
	}

	parsed, err := strconv.ParseFloat(value, 64)
	if err != nil || parsed == 0 && !isZero(value) {
		return NoNumber
	}
	return NumberOf(parsed)
}

// isNumber reports whether a text is written as a number of JSON.
func isNumber(text string) bool {
	text = text[lengthOf(text, '-'):]
	whole := digits(text)
	if whole == 0 || whole > 1 && text[0] == '0' {
		return false
	}
	text = text[whole:]

	if point := lengthOf(text, '.'); point > 0 {
		fraction := digits(text[point:])
		if fraction == 0 {
			return false
		}
		text = text[point+fraction:]
	}

	if letter := lengthOf(text, 'e') + lengthOf(text, 'E'); letter > 0 {
		text = text[letter:]
		text = text[lengthOf(text, '-')+lengthOf(text, '+'):]
		exponent := digits(text)
		return exponent > 0 && exponent == len(text)
	}
	return text == ""
}

// lengthOf returns 1 if a text begins with a character, and otherwise 0.
func lengthOf(text string, first byte) int {
	if text != "" && text[0] == first {
		return 1
	}
	return 0
}

// digits returns with how many digits a text begins.
func digits(text string) (n int) {
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}

// isZero reports whether a number has no digit but 0 before its exponent.
func isZero(number string) bool {
	for i := range len(number) {
		switch c := number[i]; {
		case c == 'e' || c == 'E':
			return true
		case '1' <= c && c <= '9':
			return false
		}
	}
	return true
}

// OtherNumber returns the number of the n-th property of event e that has the value Other and a
// name of its own, and UnknownNumber if the segment does not have the number.
func (s *Segment) OtherNumber(e, n int) Number {
	if len(s.NumbersEnd) == 0 {
		return UnknownNumber
	}
	from, to := rangeOf(s.NumbersEnd, e)
	if n >= int(to-from) {
		return UnknownNumber
	}
	return s.Numbers[int(from)+n]
}

// isNumbered reports whether a property of the segment has its number in Numbers.
func (s *Segment) isNumbered(row propertyRow) bool {
	return s.Texts[PropValue][row.value] == Other && s.Texts[PropName][row.name] != Other
}

// isNumbered reports whether a property must have its number in Segment.Numbers.
func (v *vocabulary) isNumbered(row propertyRow) bool {
	return v.texts[PropValue][row.value] == Other && v.texts[PropName][row.name] != Other
}

// putNumber adds the number of a property that isNumbered.
func (b *builder) putNumber(n Number) { b.s.Numbers = append(b.s.Numbers, n) }

// endNumbers ends the numbers of an event.
func (b *builder) endNumbers() { b.s.NumbersEnd = append(b.s.NumbersEnd, uint32(len(b.s.Numbers))) }
