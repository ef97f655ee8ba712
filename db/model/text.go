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

// Clean makes s storable: invalid UTF-8 becomes U+FFFD, control characters go, and at most limit characters stay.
func Clean(s string, limit int) string {
	if !IsClean(s) {
		s = strings.Map(func(r rune) rune {
			if r < 0x20 || r == 0x7f {
				return -1
			}
			return r // an invalid byte arrives as U+FFFD
		}, s)
	}
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
