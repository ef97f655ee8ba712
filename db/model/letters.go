package model

import (
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapes matches escaped bytes beyond ASCII.
var escapes = regexp.MustCompile(`(?:%[89A-Fa-f][0-9A-Fa-f])+`)

// OwnLetters returns a path, an address or a host as the console shows it: with the letters of its
// language in place of their escapes, for example /café for /caf%C3%A9, and of international
// labels, see DisplayDomain. Escapes of ASCII, of invisible characters and of invalid UTF-8 stay.
func OwnLetters(s string) string {
	if host, rest, isPath := strings.Cut(s, "/"); strings.Contains(host, "xn--") {
		s = DisplayDomain(host)
		if isPath {
			s += "/" + rest
		}
	}

	if !strings.Contains(s, "%") {
		return s
	}
	return escapes.ReplaceAllStringFunc(s, decodeLetters)
}

// decodeLetters decodes the visible characters of a run of escaped bytes.
func decodeLetters(run string) string {
	bytes, err := hex.DecodeString(strings.ReplaceAll(run, "%", ""))
	if err != nil {
		return run
	}

	var text strings.Builder
	for i := 0; i < len(bytes); {
		r, size := utf8.DecodeRune(bytes[i:])
		if r == utf8.RuneError || unicode.In(r, unicode.C, unicode.Z) {
			text.WriteString(run[3*i : 3*(i+size)])
		} else {
			text.WriteRune(r)
		}
		i += size
	}
	return text.String()
}

// ContainsFolded reports whether a text, as it is stored or with its OwnLetters, contains a part
// without regard to case. The part must be folded.
func ContainsFolded(text, part string) bool {
	if strings.Contains(Fold(text), part) {
		return true
	}
	shown := OwnLetters(text)
	return shown != text && strings.Contains(Fold(shown), part)
}
