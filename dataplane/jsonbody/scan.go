package jsonbody

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The functions of this file scan JSON (RFC 8259) in a text from a position. They return the
// position after what they found, or -1 for a syntax error.

// byteAt returns a byte of the text, or 0 at its end. No JSON token begins with 0.
func byteAt(text string, at int) byte {
	if at < len(text) {
		return text[at]
	}
	return 0
}

// spaceEnd skips white space.
func spaceEnd(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r') {
		at++
	}
	return at
}

// valueEnd scans a value of any type.
func valueEnd(text string, at int) int {
	switch byteAt(text, at) {
	case '{', '[':
		return nestedEnd(text, at)
	}
	return scalarEnd(text, at)
}

// scalarEnd scans a text, a number, a boolean or null.
func scalarEnd(text string, at int) int {
	switch byteAt(text, at) {
	case '"':
		end, _ := textEnd(text, at)
		return end
	case 't':
		return literalEnd(text, at, "true")
	case 'f':
		return literalEnd(text, at, "false")
	case 'n':
		return literalEnd(text, at, "null")
	}
	return numberEnd(text, at)
}

func literalEnd(text string, at int, literal string) int {
	if !strings.HasPrefix(text[at:], literal) {
		return -1
	}
	return at + len(literal)
}

// numberEnd scans a number.
func numberEnd(text string, at int) int {
	if byteAt(text, at) == '-' {
		at++
	}

	// A number has no superfluous zero at its start.
	if byteAt(text, at) == '0' {
		at++
	} else if at = digitsEnd(text, at); at < 0 {
		return -1
	}

	if byteAt(text, at) == '.' {
		if at = digitsEnd(text, at+1); at < 0 {
			return -1
		}
	}

	if c := byteAt(text, at); c == 'e' || c == 'E' {
		at++
		if sign := byteAt(text, at); sign == '+' || sign == '-' {
			at++
		}
		return digitsEnd(text, at)
	}

	return at
}

// digitsEnd scans one or more digits.
func digitsEnd(text string, at int) int {
	from := at
	for c := byteAt(text, at); '0' <= c && c <= '9'; c = byteAt(text, at) {
		at++
	}
	if at == from {
		return -1
	}
	return at
}

// nestedEnd scans an object or array. It uses no recursion, so that deep nesting costs one byte per
// level and not a stack frame.
func nestedEnd(text string, at int) int {
	var few [32]byte
	open := append(few[:0], text[at]) // the brackets to close
	at++

	begun := false // a member of the innermost one was read
	for len(open) > 0 {
		at = spaceEnd(text, at)
		innermost := open[len(open)-1]

		// In ASCII each closing bracket is two after its opening one.
		if byteAt(text, at) == innermost+2 {
			open = open[:len(open)-1]
			at++
			begun = true
			continue
		}

		if at = memberStart(text, at, innermost == '{', begun); at < 0 {
			return -1
		}

		if c := byteAt(text, at); c == '{' || c == '[' {
			open = append(open, c)
			at++
			begun = false
			continue
		}

		if at = scalarEnd(text, at); at < 0 {
			return -1
		}
		begun = true
	}

	return at
}

// memberStart scans what precedes the value of a member: a comma unless it is the first one, and
// the key in an object.
func memberStart(text string, at int, inObject, begun bool) int {
	if begun {
		if byteAt(text, at) != ',' {
			return -1
		}
		at = spaceEnd(text, at+1)
	}

	if !inObject {
		return at
	}

	end, _ := textEnd(text, at)
	if end < 0 {
		return -1
	}
	if at = spaceEnd(text, end); byteAt(text, at) != ':' {
		return -1
	}

	return spaceEnd(text, at+1)
}

// textEnd scans a text in quotes. It reports whether the text is plain: ASCII without an escape, so
// that it stands for itself.
func textEnd(text string, at int) (end int, plain bool) {
	if byteAt(text, at) != '"' {
		return -1, false
	}

	plain = true
	for at++; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			return at + 1, plain
		case c < ' ':
			return -1, false
		case c >= utf8.RuneSelf:
			plain = false
		case c == '\\':
			plain = false

			at = escapeEnd(text, at+1) - 1
			if at < 0 {
				return -1, false
			}
		}
	}

	return -1, false
}

// escapeEnd scans an escape after its backslash.
func escapeEnd(text string, at int) int {
	switch byteAt(text, at) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 1
	case 'u':
		if at+5 <= len(text) && isHex(text[at+1:at+5]) {
			return at + 5
		}
	}
	return -1
}

func isHex(digits string) bool {
	for _, c := range []byte(digits) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	return true
}

// unquote returns the value of a text in quotes that textEnd accepted.
func unquote(quoted string, plain bool) string {
	inner := quoted[1 : len(quoted)-1]
	if plain || strings.IndexByte(inner, '\\') < 0 && utf8.ValidString(inner) {
		return inner
	}

	// The error is only about invalid UTF-8: AppendUnquote has put U+FFFD in place of such bytes.
	b, _ := jsontext.AppendUnquote(nil, quoted)
	return string(b)
}
