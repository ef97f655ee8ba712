package importer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/tallygate/tallygate/db/model"
)

// maxEventName is the length of an event's name (analytics contract, section 2).
const maxEventName = 48

// encoded is the beginning of a name that is encoded like a label of an international domain (RFC
// 3492). The console shows such a name in its own letters.
const encoded = "xn--"

// eventName returns the name under which reports show an event of another service: in the form of
// event names, so that the spellings of one Latin name merge with the site's own event. For
// example, "Sign Up!" becomes sign_up. ok is false for a name that the form cannot spell. Such a
// name is encoded, or ends with a hash, and stays apart from others.
func eventName(name string) (as string, ok bool) {
	slug, isClear := spell(name)
	plain := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return -1
		}
		return r
	}, slug)
	if isClear && plain == slug && slug != "" && len(slug) <= maxEventName && !strings.HasPrefix(slug, encoded) {
		return slug, true
	}

	// Each character has a byte of the label, so a longer name needs no encoding. The work of
	// encoding grows with the square of the length.
	if isClear && plain != slug && utf8.RuneCountInString(slug) <= maxEventName-len(encoded) {
		if label, err := idna.Punycode.ToASCII(slug); err == nil && model.IsEventName(label) {
			return label, false
		}
	}
	const hashed = 12
	plain = strings.Trim(plain[:min(len(plain), maxEventName-1-hashed)], "_")
	return cmp.Or(plain, "event") + "_" + hashOf(cmp.Or(slug, name), hashed), false
}

// spell returns a name in lower case with an underscore for each run of spaces and punctuation.
// Symbols that make a difference, such as + in "C++", become their wide forms, which are no ASCII.
// isClear is false for a name that has wide forms itself.
func spell(name string) (slug string, isClear bool) {
	var b strings.Builder
	isClear, between := true, false
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
		case r == '>' || r == '|' || unicode.IsSpace(r) || unicode.IsControl(r) || unicode.IsPunct(r) && !strings.ContainsRune("#%&*?@", r):
			between = true
			continue
		case r <= unicode.MaxASCII:
			r += wide
		case r > wide && r <= wide+unicode.MaxASCII:
			isClear = false
		}

		if between && b.Len() > 0 {
			b.WriteByte('_')
		}
		between = false
		b.WriteRune(r)
	}
	return b.String(), isClear
}

// wide is the distance from an ASCII character to its wide form.
const wide = '！' - '!'

// eventName is eventName of a row that is imported. The notes list names that cannot be spelled.
func (d *dayFilter) eventName(name string) string {
	as, ok := eventName(name)
	if _, known := d.renamed[name]; !ok && !known {
		d.renamed[strings.Clone(name)] = as
		d.spend(textBytes + len(name) + len(as))
	}
	return as
}

// bounded returns a text as it can be stored. The end of a longer one is a hash, which keeps it
// apart from texts with the same beginning.
func bounded(text string) string {
	if short := model.Storable(text, model.MaxFilterText); len(short) == len(text) {
		return short
	}
	const hashed = 16
	whole := model.Storable(text, len(text))
	if short := model.Storable(whole, model.MaxFilterText); short == whole {
		return whole
	}
	short := model.Storable(whole, model.MaxFilterText-1-hashed)
	if at := strings.LastIndexByte(short, '%'); at >= len(short)-2 {
		short = short[:at] // half an escape of a path
	}
	return short + "~" + hashOf(whole, hashed)
}

// hashOf returns the first hexadecimal characters of a text's hash.
func hashOf(text string, length int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:length]
}

// nothing are the words that databases, their exports and services write for a missing value, in
// lower case. No page, campaign, event or place has such a name. "unknown" and NA are not listed:
// the first one can be the name of a campaign, and the second one is Namibia.
var nothing = map[string]bool{
	"null": true, `\n`: true, "(null)": true, "<null>": true, "[null]": true, "none": true, "(none)": true, "nil": true, "<nil>": true,
	"undefined": true, "(undefined)": true, "nan": true, "n/a": true, "-": true, notSet: true,
}

// notSet is what Google Analytics writes for a missing value.
const notSet = "(not set)"

// value returns a text, or an empty one for a word that means a missing value.
func value(text string) string {
	if trimmed := strings.TrimSpace(text); len(trimmed) <= len("(undefined)") && (trimmed == "" || nothing[strings.ToLower(trimmed)]) {
		return ""
	}
	return text
}
