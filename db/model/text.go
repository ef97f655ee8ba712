package model

import (
	"strings"
	"unicode/utf8"
)

// IsClean reports whether s is valid UTF-8 without C0 control characters, so that both databases store it alike.
func IsClean(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// Clean makes s one storable line: invalid UTF-8 becomes U+FFFD, control characters go, and at most limit characters stay.
func Clean(s string, limit int) string {
	if !IsClean(s) {
		s = strings.Map(func(r rune) rune {
			if r < 0x20 || r == 0x7f {
				return -1
			}
			return r // an invalid byte arrives as U+FFFD
		}, s)
	}
	return cut(s, limit)
}

// IsStorable reports whether both databases store s as it is: valid UTF-8 without NUL.
func IsStorable(s string) bool {
	return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s)
}

// Storable returns s with U+FFFD in place of NUL and of invalid UTF-8, which no database holds, cut to limit characters. All
// else stays as it is, tabs, newlines and other control characters too.
func Storable(s string, limit int) string {
	if !IsStorable(s) {
		s = strings.Map(func(r rune) rune {
			if r == 0 {
				return utf8.RuneError
			}
			return r // an invalid byte arrives as U+FFFD
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
