package model

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNamesAreVisible(t *testing.T) {
	for _, name := range []string{
		"Shop", "Müller & Söhne (2026)", "متجر", "חנות", "店", "می\u200cخواهم", "क्\u200dष", "👩\u200d🔬 lab", "❤\ufe0f", "a b", "…",
	} {
		if got, err := ParseName("name", name); err != nil || got != name {
			t.Errorf("%q is refused: %v", name, err)
		}
	}

	for _, r := range "\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2060\u00ad\ufeff\u2028\u2029\u0085\u180e\u3164\U000e0041" {
		for _, name := range []string{"a" + string(r) + "b", "." + string(r) + "shop", "shop" + string(r) + ".", "店" + string(r) + "店"} {
			if got, err := ParseName("name", name); KindOf(err) != Invalid || got != "" {
				t.Errorf("%q is %q, %v", name, got, err)
			}
		}

		if _, err := ParseEmail("a" + string(r) + "b@example.com"); KindOf(err) != Invalid {
			t.Errorf("an address with %q: %v", r, err)
		}
	}

	for _, name := range []string{
		"goo\u200cgle", "a\u200d", "\u200d店", "店\u200d", "店\u200d\u200d店", "店\u200d \u200d店", "\ufe0f",
		"\u0301",
	} {
		if _, err := ParseName("name", name); KindOf(err) != Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzNames checks that an accepted name has no character that is invisible or changes the
// direction of others.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"Shop", " x ", "a\u202eb", "店\u200d店", "\u200d", "\xff", "\x00", strings.Repeat("ü", 100)} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, s string) {
		name, err := ParseName("name", s)
		if err != nil {
			if name != "" || KindOf(err) != Invalid {
				t.Errorf("%q is %q, %v", s, name, err)
			}

			return
		}

		if n := utf8.RuneCountInString(name); n < 1 || n > 100 || !utf8.ValidString(name) || name != strings.TrimSpace(s) {
			t.Errorf("%q became %q", s, name)
		}

		for _, r := range name {
			if unicode.Is(unicode.Bidi_Control, r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d' {
				t.Errorf("%q has %U", name, r)
			}
		}

		if again, err := ParseName("name", name); err != nil || again != name {
			t.Errorf("%q, again: %q, %v", name, again, err)
		}
	})
}
