package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsClean reports whether s is valid UTF-8 without C0 control characters, so that both databases
// store it alike.
func IsClean(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// Clean makes s one storable line: invalid UTF-8 becomes U+FFFD, control characters go, and at most
// limit characters stay.
func Clean(s string, limit int) string {
	if !IsClean(s) {
		s = strings.Map(func(r rune) rune {
			if r < 0x20 || r == 0x7f {
				return -1
			}
			// an invalid byte arrives as U+FFFD
			return r
		}, s)
	}

	return cut(s, limit)
}

// IsStorable reports whether both databases store s as it is: valid UTF-8 without NUL.
func IsStorable(s string) bool {
	return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s)
}

// Storable returns s with U+FFFD in place of NUL and of invalid UTF-8, which no database holds, cut
// to limit characters. All else stays as it is, tabs, newlines and other control characters too.
func Storable(s string, limit int) string {
	if !IsStorable(s) {
		s = strings.Map(func(r rune) rune {
			if r == 0 {
				return utf8.RuneError
			}
			// an invalid byte arrives as U+FFFD
			return r
		}, s)
	}

	return cut(s, limit)
}

// cut returns the first limit characters of s.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}

	n := 0
	for i := range s {
		if n == limit {
			return s[:i]
		}

		n++
	}

	return s
}

// IsVisible reports whether s shows at least one character and none that changes how the others are
// shown: no control characters, direction overrides or other invisible ones, so that a name reads
// as it was written wherever it stands. The two joiners are allowed between characters beyond
// ASCII: words of Persian and of Indian languages need them, and so do emoji.
func IsVisible(s string) bool {
	runes := []rune(s)
	shows := false
	for i, r := range runes {
		if isJoiner(r) && i > 0 && i+1 < len(runes) && joins(runes[i-1]) && joins(runes[i+1]) {
			continue
		}
		if isInvisible(r) {
			return false
		}

		shows = shows || unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
	}

	return shows
}

func isJoiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

// joins reports whether a joiner can stand beside r.
func joins(r rune) bool { return r > unicode.MaxASCII && !unicode.IsSpace(r) && !isInvisible(r) }

// isInvisible reports whether r is a control or format character, a separator of lines, or a letter
// without a shape. Spaces and the selectors of variants are not.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}
