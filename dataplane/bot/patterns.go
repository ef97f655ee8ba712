package bot

import (
	_ "embed"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// The lists have one regular expression per line. # starts a comment.
var (
	//go:embed patterns.txt
	publicList string
	//go:embed extra.txt
	ownList string
)

// list is a set of regular expressions that are matched together. Each is indexed by literals of
// which its matches contain at least one, and each literal by its first three letters. So a text is
// scanned once, however many expressions there are.
type list struct {
	literals []literal           // ordered by bucket
	start    [buckets + 1]uint16 // bucket b is literals[start[b]:start[b+1]]
}

// literal is a text whose presence is a match, or requires a check.
type literal struct {
	text    string
	first   letters
	anyCase bool                           // ignore case; text is lower-case ASCII
	check   func(text string, at int) bool // reports whether a text with the literal there matches; nil: always
}

const (
	// width is the number of letters by which literals are indexed, and the least length of a
	// literal.
	width      = 3
	bucketBits = 14
	buckets    = 1 << bucketBits
	// maxChecks is the most checks of one text. None of 33,000 browsers requires more than four.
	maxChecks = 8
)

// letters are three bytes, without case.
type letters uint32

// then returns the last two letters followed by another one.
func (l letters) then(c byte) letters { return (l<<8 | letters(c|0x20)) & 0xFFFFFF }

func (l letters) bucket() uint32 { return uint32(l) * 0x9E3779B1 >> (32 - bucketBits) }

func firstLetters(text string) letters {
	return letters(0).then(text[0]).then(text[1]).then(text[2])
}

// match reports whether any expression matches. It also reports true for a text that requires more
// than maxChecks checks, since browsers do not.
func (l *list) match(text string) bool {
	checks := 0
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
			if lit.check == nil || lit.check(text, at) {
				return true
			}
			if checks++; checks > maxChecks {
				return true
			}
		}
	}

	return false
}

// begins reports whether the text begins with the literal.
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

// load returns the list of all expressions.
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

	return newList(append(found, literal{text: "bot", anyCase: true, check: endsWordBot}))
}

// endsWordBot reports whether the "bot" at an offset ends a word, in the singular or plural. It
// excludes CUBOT, a maker of phones.
func endsWordBot(text string, at int) bool {
	before, after := text[:at], text[at+len("bot"):]
	if after != "" && after[0]|0x20 == 's' {
		after = after[1:]
	}
	if after != "" && IsLetter(after[0]) {
		return false
	}

	n := len(before)
	return n < 2 || !strings.EqualFold(before[n-2:], "cu") || n > 2 && IsLetter(before[n-3])
}

// newList returns a list of literals.
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

// lines returns the lines of a list without comments.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// literals returns the literals of an expression: each match contains at least one. It panics if
// they are too short, since the lists are part of the program.
func literals(pattern string) []literal {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		panic(err)
	}

	found := required(tree)
	if len(found) == 0 || shortest(found) < width {
		panic(fmt.Sprintf("bot: %q has no literal of %d characters that its matches must contain", pattern, width))
	}

	if tree.Op != syntax.OpLiteral {
		re := regexp.MustCompile(pattern)
		for i := range found {
			found[i].check = func(text string, _ int) bool { return re.MatchString(text) }
		}
	}

	return found
}

// required returns literals of which every match of the expression contains at least one, or nil if
// it finds none.
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
		// A match contains all operands, so that the most selective one is enough.
		var best []literal
		for _, operand := range re.Sub {
			if found := required(operand); shortest(found) > shortest(best) {
				best = found
			}
		}

		return best
	case syntax.OpAlternate:
		// A match contains any of the operands, so that all of them are needed.
		var all []literal
		for _, operand := range re.Sub {
			found := required(operand)
			if found == nil {
				return nil
			}

			all = append(all, found...)
		}

		return all
	}

	return nil
}

// shortest returns the length of the shortest literal, or 0 without any.
func shortest(literals []literal) int {
	n := 0
	for i, l := range literals {
		if i == 0 || len(l.text) < n {
			n = len(l.text)
		}
	}
	return n
}
