package model

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// PatternMatcher returns the function that reports whether a whole text matches one of the
// patterns, in which * is any text without a slash and ** any text. For example, /blog/* matches
// /blog/2026, and /blog/** also matches /blog/2026/11. A longer run of asterisks is the same as
// two. Texts compare exactly. Without a pattern nothing matches.
//
// A call allocates nothing. It costs one lookup for all patterns without a wildcard, one comparison
// of both ends and one search for a slash for each pattern with one wildcard, and one step of
// search for each character of the text and each 64 bits of the other patterns: text × pattern / 64
// at worst. All filters and funnels of a report within MaxReportWildcards and MaxReportSearch take
// at most some 40 µs for a text of 2,048 ASCII characters, and 0.2 ms for other characters: see
// BenchmarkHostile. A caller that must end in time therefore reads its context after a few hundred
// texts.
func PatternMatcher(patterns ...string) func(text string) bool {
	exact := make(map[string]bool)
	var simple []affixes
	var many []sequence

	for _, pattern := range patterns {
		s := sequenceOf(pattern)
		switch wildcards := s.wildcards(); {
		case wildcards == 0:
			exact[pattern] = true
		case wildcards == 1:
			simple = append(simple, s.affixes())
		default:
			many = append(many, s)
		}
	}
	prefix, search := commonPrefix(simple), newSearch(many, false)

	return func(text string) bool {
		if len(exact) > 0 && exact[text] {
			return true
		}
		if len(simple) > 0 && strings.HasPrefix(text, prefix) {
			for i := range simple {
				if simple[i].match(text) {
					return true
				}
			}
		}
		return search != nil && search.match(text)
	}
}

// containsMatcher returns the function that reports whether a text contains one of the values, in
// upper or lower case, as it is stored or with its OwnLetters. Characters compare by
// unicode.ToLower. A call costs one step of search for each character of the text and each 64 bits
// of the values, and allocates nothing unless the text has letters to decode.
func containsMatcher(values []string) func(text string) bool {
	list := make([]sequence, len(values))
	for i, value := range values {
		list[i] = newSequence([]rune(strings.ToLower(value)))
		list[i].wild[0], list[i].wild[len(list[i].text)] = anyText, anyText
	}

	search := newSearch(list, true)
	return func(text string) bool {
		if search == nil || search.match(text) {
			return search != nil
		}
		shown := OwnLetters(text)
		return shown != text && search.match(shown)
	}
}

// wildcard says which text is allowed between two characters of a sequence.
type wildcard uint8

// The wildcards.
const (
	noText  wildcard = iota
	noSlash          // any text without a slash
	anyText          // any text
)

// sequence is a text with wildcards before, between and after its characters.
type sequence struct {
	text []rune
	wild []wildcard // wild[i] precedes text[i]; the last one follows the text
}

func newSequence(text []rune) sequence {
	return sequence{text, make([]wildcard, len(text)+1)}
}

// sequenceOf parses a pattern.
func sequenceOf(pattern string) sequence {
	s := newSequence([]rune(strings.ReplaceAll(pattern, "*", "")))

	at := 0
	for _, r := range pattern {
		if r == '*' {
			s.wild[at] = min(s.wild[at]+1, anyText)
			continue
		}
		at++
	}

	return s
}

// wildcards returns the number of wildcards.
func (s *sequence) wildcards() int {
	n := 0
	for _, w := range s.wild {
		if w != noText {
			n++
		}
	}
	return n
}

// affixes is a pattern with one wildcard.
type affixes struct {
	prefix, suffix string
	between        wildcard
}

// affixes returns the texts before and after the first wildcard.
func (s *sequence) affixes() affixes {
	at := 0
	for s.wild[at] == noText {
		at++
	}
	return affixes{string(s.text[:at]), string(s.text[at:]), s.wild[at]}
}

// commonPrefix returns the longest common start of all prefixes.
func commonPrefix(list []affixes) string {
	if len(list) == 0 {
		return ""
	}

	common := list[0].prefix
	for _, a := range list[1:] {
		for !strings.HasPrefix(a.prefix, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}

func (a *affixes) match(text string) bool {
	if len(text) < len(a.prefix)+len(a.suffix) ||
		!strings.HasPrefix(text, a.prefix) || !strings.HasSuffix(text, a.suffix) {
		return false
	}

	between := text[len(a.prefix) : len(text)-len(a.suffix)]
	return a.between == anyText || strings.IndexByte(between, '/') < 0
}

// search compares a text with several sequences at once. It has a bit for each place in a sequence:
// before its first character, and after each of them. The bit is set while the text read so far
// leads to that place. A character of the text moves bits by one place where the sequence has this
// character, and keeps bits at wildcards that accept it (Shift-And by Baeza-Yates and Gonnet, with
// loops). All alternatives advance together, so nothing is read twice.
type search struct {
	words       int           // of 64 bits, of each set below
	start, end  []uint64      // the places before the first and after the last character
	sure        uint64        // of the first word: the last places after which any text matches
	rows        []cell        // words of each row
	pages       []uint16      // index in rowsOfPages by character / 256; nil without characters beyond ASCII
	rowsOfPages [][256]uint16 // number of a row by character % 256; 0 for otherRow; the first page is empty
}

// cell is one word of a row. A row says what a character does to the places.
type cell struct {
	move uint64 // the places that it reaches from the previous place
	keep uint64 // the places with a wildcard that accepts it
}

// otherRow is the row of characters that are in no sequence. ASCII characters have the rows before.
const otherRow = utf8.RuneSelf

// newSearch returns nil for no sequence. With anyCase, the sequences are in lower case and
// characters of a text are as well as their lower case.
func newSearch(list []sequence, anyCase bool) *search {
	if len(list) == 0 {
		return nil
	}

	bits := 0
	for i := range list {
		bits += list[i].weight()
	}
	words := (bits + 63) / 64

	s := &search{
		words: words, rows: make([]cell, (otherRow+1)*words),
		start: make([]uint64, words), end: make([]uint64, words),
	}
	keep, slashless := make([]uint64, words), make([]uint64, words)

	// Characters get their rows, and wildcards their places.
	at := 0
	for i := range list {
		set(s.start, at)
		for n, w := range list[i].wild {
			if n > 0 {
				for _, r := range spellings(list[i].text[n-1], anyCase) {
					row := s.addRow(r)
					s.rows[row*words+at/64].move |= 1 << (at % 64)
				}
			}
			switch w {
			case anyText:
				set(keep, at)
			case noSlash:
				set(slashless, at)
			}
			at++
		}

		set(s.end, at-1)
	}
	s.sure = s.end[0] & keep[0]

	for row := range len(s.rows) / words {
		for w := range words {
			s.rows[row*words+w].keep = keep[w]
			if row != '/' {
				s.rows[row*words+w].keep |= slashless[w]
			}
		}
	}

	return s
}

// weight returns the number of the sequence's places.
func (s *sequence) weight() int { return len(s.wild) }

func set(bits []uint64, at int) { bits[at/64] |= 1 << (at % 64) }

// spellings returns the characters of a text that count as r.
func spellings(r rune, anyCase bool) []rune {
	if !anyCase {
		return []rune{r}
	}
	return append([]rune{r}, upperCases()[r]...)
}

// upperCases maps a character to all characters that have it as their lower case. Not all are
// simple foldings: for example, the lower case of U+0130 is i.
var upperCases = sync.OnceValue(func() map[rune][]rune {
	upper := make(map[rune][]rune)
	for _, of := range unicode.CaseRanges {
		for r := rune(of.Lo); r <= rune(of.Hi); r++ {
			if lower := unicode.ToLower(r); lower != r {
				upper[lower] = append(upper[lower], r)
			}
		}
	}
	return upper
})

// addRow returns the row of a character, which it creates if necessary.
func (s *search) addRow(r rune) int {
	if r < utf8.RuneSelf {
		return int(r)
	}

	if s.pages == nil {
		s.pages, s.rowsOfPages = make([]uint16, unicode.MaxRune/256+1), make([][256]uint16, 1)
	}
	page := &s.pages[r/256]
	if *page == 0 {
		*page = uint16(len(s.rowsOfPages))
		s.rowsOfPages = append(s.rowsOfPages, [256]uint16{})
	}

	row := &s.rowsOfPages[*page][r%256]
	if *row == 0 {
		*row = uint16(len(s.rows) / s.words)
		s.rows = append(s.rows, make([]cell, s.words)...)
	}
	return int(*row)
}

// match reports whether the text matches a sequence.
func (s *search) match(text string) bool {
	if s.words == 1 {
		return s.matchWord(text)
	}

	var onStack [32]uint64
	state := onStack[:]
	if s.words > len(state) {
		state = make([]uint64, s.words)
	}
	state = state[:s.words]
	copy(state, s.start)

	for i := 0; i < len(text); {
		row, size := int(text[i]), 1
		if row >= utf8.RuneSelf {
			row, size = s.wideRow(text[i:])
		}
		i += size

		cells := s.rows[row*len(state):][:len(state)]
		var carry, alive uint64
		for w, places := range state {
			moved := (places<<1|carry)&cells[w].move | places&cells[w].keep
			carry = places >> 63
			state[w] = moved
			alive |= moved
		}

		// Without a place the rest of the text cannot match.
		if alive == 0 {
			return false
		}
	}

	for w, places := range state {
		if places&s.end[w] != 0 {
			return true
		}
	}
	return false
}

// matchWord is match for sequences of one word. It ends where any further text matches.
func (s *search) matchWord(text string) bool {
	places, sure := s.start[0], s.sure
	ascii := (*[utf8.RuneSelf]cell)(s.rows)

	for i := 0; i < len(text); {
		var c cell
		if b := text[i]; b < utf8.RuneSelf {
			c = ascii[b]
			i++
		} else {
			row, size := s.wideRow(text[i:])
			c = s.rows[row]
			i += size
		}

		places = places<<1&c.move | places&c.keep
		if places&sure != 0 || places == 0 {
			return places != 0
		}
	}

	return places&s.end[0] != 0
}

// wideRow returns the row and the length of the text's first character, which is beyond ASCII. A
// byte that is not UTF-8 counts as U+FFFD, as for strings.ToLower.
func (s *search) wideRow(text string) (row, size int) {
	r, size := utf8.DecodeRuneInString(text)
	if s.pages == nil {
		return otherRow, size
	}
	if row := s.rowsOfPages[s.pages[r/256]][r%256]; row != 0 {
		return int(row), size
	}
	return otherRow, size
}
