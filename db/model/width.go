package model

import "strconv"

// UnknownWidth is the width range of a page view without a screen width.
const UnknownWidth = -1

// widthRanges are the lower bounds of the screen width ranges in CSS pixels, ascending.
var widthRanges = [...]int16{0, 576, 768, 992, 1200, 1440, 1920}

// WidthRange returns the lower bound of the range that contains a screen width, or UnknownWidth if
// the width is not positive. Only the range is stored (analytics contract, section 2).
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

// WidthRangeName formats a range as 768-991 or 1920+. It returns "" for an unknown one.
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
