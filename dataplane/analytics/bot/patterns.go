package bot

import (
	_ "embed"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// The lists: a regular expression to a line, # starts a comment.
var (
	//go:embed patterns.txt
	publicList string
	//go:embed extra.txt
	ownList string
)

// list is a set of regular expressions that can be asked together. Each is filed under literals of
// which its matches hold at least one, and each literal under its first three letters, so that a
// text is scanned once however many there are.
type list struct {
	literals []literal           // ordered by bucket
	start    [buckets + 1]uint16 // bucket b is literals[start[b]:start[b+1]]
}

// literal is a text whose presence decides, or calls for a closer look.
type literal struct {
	text    string
	first   letters
	anyCase bool                           // text is lower-case ASCII then
	closer  func(text string, at int) bool // whether it matches the text that holds the literal there; nil: it does
}

const (
	// width is the length of the part of a literal by which it is found, and the least that an
	// expression must offer.
	width      = 3
	bucketBits = 14
	buckets    = 1 << bucketBits
	// mostLooks bounds the closer looks at one text. Of 33,000 browsers none calls for more than
	// four.
	mostLooks = 8
)

// letters are three bytes without their case.
type letters uint32

// then returns the last two letters and one more.
func (l letters) then(c byte) letters { return (l<<8 | letters(c|0x20)) & 0xFFFFFF }

func (l letters) bucket() uint32 { return uint32(l) * 0x9E3779B1 >> (32 - bucketBits) }

func firstLetters(text string) letters {
	return letters(0).then(text[0]).then(text[1]).then(text[2])
}

// match reports whether any of the expressions matches, or so many nearly do that the text is no
// browser's.
func (l *list) match(text string) bool {
	looks := 0
	var three letters
	for i := range len(text) {
		three = three.then(text[i])
		at := i - (width - 1)
		if at < 0 {
			continue
		}

		b := three.bucket()
		for n := l.start[b]; n < l.start[b+1]; n++ {
			lit := &l.literals[n]
			if lit.first != three || !lit.begins(text[at:]) {
				continue
			}
			if lit.closer == nil || lit.closer(text, at) {
				return true
			}
			if looks++; looks > mostLooks {
				return true
			}
		}
	}

	return false
}

func (l *literal) begins(text string) bool {
	if len(text) < len(l.text) {
		return false
	}
	if !l.anyCase {
		return text[:len(l.text)] == l.text
	}

	for i := range len(l.text) {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != l.text[i] {
			return false
		}
	}

	return true
}

func load() *list {
	var found []literal
	for _, p := range lines(publicList) {
		if instead, ok := amendments[p]; ok {
			if p = instead; p == "" {
				continue
			}
		}

		found = append(found, literals(p)...)
	}

	for _, p := range lines(ownList) {
		found = append(found, literals("(?i)"+p)...)
	}

	return newList(append(found, literal{text: "bot", anyCase: true, closer: endsWordBot}))
}

// endsWordBot reports whether the bot at that place ends a word, alone or in the plural, other than
// CUBOT: these are phones.
func endsWordBot(text string, at int) bool {
	before, after := text[:at], text[at+len("bot"):]
	if after != "" && after[0]|0x20 == 's' {
		after = after[1:]
	}
	if after != "" && isLetter(after[0]) {
		return false
	}

	n := len(before)
	return n < 2 || !strings.EqualFold(before[n-2:], "cu") || n > 2 && isLetter(before[n-3])
}

func newList(literals []literal) *list {
	for i := range literals {
		literals[i].first = firstLetters(literals[i].text)
	}

	slices.SortStableFunc(literals, func(a, b literal) int { return int(a.first.bucket()) - int(b.first.bucket()) })
	l := &list{literals: literals}
	for _, lit := range literals {
		l.start[lit.first.bucket()+1]++
	}

	for b := range buckets {
		l.start[b+1] += l.start[b]
	}

	return l
}

func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// literals returns what to look for to find out whether the expression can match. It panics when
// there is nothing long enough to look for: the lists are part of the program.
func literals(pattern string) []literal {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err)
	}

	found := required(tree)
	if len(found) == 0 || shortest(found) < width {
		panic(fmt.Sprintf("bot: %q has no literal of %d characters that its matches must hold", pattern, width))
	}

	if tree.Op != syntax.OpLiteral {
		re := regexp.MustCompile(pattern)
		for i := range found {
			found[i].closer = func(text string, _ int) bool { return re.MatchString(text) }
		}
	}

	return found
}

// required returns literals of which every match of the expression holds at least one, or none if
// there are no such.
func required(re *syntax.Regexp) []literal {
	switch re.Op {
	case syntax.OpLiteral:
		text := string(re.Rune)
		anyCase := re.Flags&syntax.FoldCase != 0
		if anyCase {
			text = strings.ToLower(text)
		}

		return []literal{{text: text, anyCase: anyCase}}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpConcat:
		// all parts are there, so take the one that is easiest to rule out
		var best []literal
		for _, part := range re.Sub {
			if found := required(part); shortest(found) > shortest(best) {
				best = found
			}
		}

		return best
	case syntax.OpAlternate:
		// any of the parts may be there, so all must be looked for
		var all []literal
		for _, part := range re.Sub {
			found := required(part)
			if found == nil {
				return nil
			}

			all = append(all, found...)
		}

		return all
	}

	return nil
}

// shortest returns the length of the shortest text, zero for none.
func shortest(literals []literal) int {
	n := 0
	for i, l := range literals {
		if i == 0 || len(l.text) < n {
			n = len(l.text)
		}
	}
	return n
}
