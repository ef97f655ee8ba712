package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsClean reports whether s is valid UTF-8 without C0 control characters or DEL, so that both
// databases store it unchanged.
func IsClean(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// Clean returns s as one storable line: it replaces invalid UTF-8 with U+FFFD, removes control
// characters, and keeps at most limit characters.
func Clean(s string, limit int) string {
	if !IsClean(s) {
		s = strings.Map(func(r rune) rune {
			if r < 0x20 || r == 0x7f {
				return -1
			}
			// strings.Map passes an invalid byte as U+FFFD.
			return r
		}, s)
	}

	return cut(s, limit)
}

// IsStorable reports whether both databases store s unchanged: valid UTF-8 without NUL.
func IsStorable(s string) bool {
	return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s)
}

// Storable returns s with U+FFFD in place of NUL and invalid UTF-8, which PostgreSQL rejects, cut
// to limit characters. It keeps everything else, including tabs, newlines and other control
// characters.
func Storable(s string, limit int) string {
	if !IsStorable(s) {
		s = strings.Map(func(r rune) rune {
			if r == 0 {
				return utf8.RuneError
			}
			// strings.Map passes an invalid byte as U+FFFD.
			return r
		}, s)
	}

	return cut(s, limit)
}

// Fold returns s in lower case, so that texts compare without regard to case. It follows Unicode,
// not the rules of a language. It does not remove accents.
func Fold(s string) string { return strings.ToLower(s) }

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

// IsVisible reports whether s contains at least one visible character and no invisible characters:
// no control characters, direction overrides or others that change how text is displayed. The two
// joiners are allowed between characters beyond ASCII: Persian, Indian languages and emoji need
// them.
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

// joins reports whether a joiner is allowed next to r.
func joins(r rune) bool { return r > unicode.MaxASCII && !unicode.IsSpace(r) && !isInvisible(r) }

// isInvisible reports whether r is a control or format character, a line separator, or a letter
// without a shape. Spaces and variation selectors are not.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// errConfirmation is returned for a name that differs from the name of the object to be deleted.
var errConfirmation = InvalidField("confirm", "confirmation_mismatch",
	"This is not the name of what is to be deleted: enter the domain of a site, or the name of a sitekey or account.")

// Confirm compares the name that a caller repeated to confirm a deletion with the object's. A nil
// name was not asked for.
func Confirm(repeated *string, name string) error {
	if repeated != nil && strings.TrimSpace(*repeated) != name {
		return errConfirmation
	}
	return nil
}

// ConfirmDomain is Confirm for a domain, which may be written in another form.
func ConfirmDomain(repeated *string, domain string) error {
	if repeated == nil {
		return nil
	}
	if parsed, err := ParseDomain(*repeated, true); err != nil || parsed != domain {
		return errConfirmation
	}
	return nil
}
