package importer

import (
	_ "embed"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// countryFile has a line for each country: its code and its English names.
//
//go:embed countries.txt
var countryFile string

// countryNames maps English names of countries, in the form of countryKey, to codes.
var countryNames = func() map[string]string {
	codes := make(map[string]string, 512)
	for line := range strings.Lines(countryFile) {
		code, names, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || code == "#" {
			continue
		}
		for name := range strings.SplitSeq(names, ";") {
			codes[countryKey(name)] = code
		}
	}
	return codes
}()

// countryKey returns the form in which names of countries are compared: "St. Kitts & Nevis" and
// "Saint Kitts and Nevis" have the same.
func countryKey(name string) string {
	// Accents are runes of their own in this form of Unicode.
	plain := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(strings.ToLower(name)))

	var key strings.Builder
	for _, word := range strings.FieldsFunc(plain, func(r rune) bool { return !unicode.IsLetter(r) }) {
		switch word {
		case "and", "the":
		case "st":
			key.WriteString("saint")
		default:
			key.WriteString(word)
		}
	}
	return key.String()
}
