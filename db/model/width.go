package model

import "strconv"

// UnknownWidth is the width range of a page view that did not tell its screen width.
const UnknownWidth = -1

// widthRanges are the lower bounds of the screen width ranges in CSS pixels, ascending.
var widthRanges = [...]int16{0, 576, 768, 992, 1200, 1440, 1920}

// WidthRange is the lower bound of the range that a screen width falls into, or UnknownWidth when
// it is not positive. Only the range is stored (analytics contract, section 2).
func WidthRange(pixels int) int16 {
	if pixels <= 0 {
		return UnknownWidth
	}

	bound := widthRanges[0]
	for _, b := range widthRanges {
		if pixels >= int(b) {
			bound = b
		}
	}

	return bound
}

// WidthRangeName writes a range as in 768-991 or 1920+. An unknown one is empty.
func WidthRangeName(bound int16) string {
	for i, b := range widthRanges {
		switch {
		case b != bound:
		case i == len(widthRanges)-1:
			return strconv.Itoa(int(b)) + "+"
		default:
			return strconv.Itoa(int(b)) + "-" + strconv.Itoa(int(widthRanges[i+1])-1)
		}
	}

	return ""
}
